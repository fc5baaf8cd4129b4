package console

import (
	"encoding/json"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// account shows how the visitor signs in, and where they are signed in.
func (c *Console) account(v *visit) { v.showAccount(nil) }

func (v *visit) showAccount(problem error) {
	a := accountPage{visit: v, NoPasskeys: noPasskeys(v.r)}
	if err := v.get(v1("account"), &a.Account); err != nil {
		v.show(page{name: "problem", title: "Your account", here: "/console/account", fault: err})
		return
	}
	var b browsers
	if v.get(v1("account", "push"), &b) == nil && b.Key != "" {
		b.visit, a.Notices = v, &b
	}
	v.show(page{
		name: "account", title: "Your account", here: "/console/account", fault: problem, modules: []string{"passkey", "push"}, data: a,
	})
}

type accountPage struct {
	*visit
	api.Account
	NoPasskeys string    // why this browser keeps none here; empty: it can
	Notices    *browsers // nil: the gateway sends none
}

// Fresh reports whether ways to sign in can be changed.
func (a accountPage) Fresh() bool { return a.con.opts.Now().Before(a.FreshUntil) }

// offerPasskey reports whether to ask who has just signed in, and has no passkey yet, to make
// one: without it nothing can be allowed from a device while an agent has its mouse and
// keyboard.
func (v *visit) offerPasskey() bool {
	a := accountPage{visit: v}
	return v.who.Role != principal.RoleViewer && passkeysAt(v.r) == nil && v.get(v1("account"), &a.Account) == nil && len(a.Passkeys) == 0 &&
		a.Fresh()
}

func (c *Console) setPassword(v *visit) {
	if err := v.ask(http.MethodPut, v1("account", "password"), api.SetPassword{Password: v.r.PostForm.Get("password")}, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "password")
}

// passkeyOptions is what a new passkey is made of, for passkey.js.
func (c *Console) passkeyOptions(v *visit) { v.answerJSON(v1("account", "passkey-options"), nil) }

// approvalPasskey is what a passkey is asked about one answer to one question.
func (c *Console) approvalPasskey(v *visit) {
	in, err := v.answerFields()
	if err != nil {
		front.WriteError(v.w, err)
		return
	}
	in.Passkey = nil
	v.answerJSON(v1("approvals", v.r.PathValue("approval"), "passkey"), in)
}

func (v *visit) answerJSON(target string, in any) {
	var out json.RawMessage
	if err := v.ask(http.MethodPost, target, in, &out); err != nil {
		front.WriteError(v.w, err)
		return
	}
	writeJSON(v.w, out)
}

func writeJSON(w http.ResponseWriter, body []byte) {
	guardHeaders(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body)
}

// credential is what passkey.js put into a form: JSON, bounded by the form itself.
func credential(r *http.Request) (json.RawMessage, error) {
	text := r.PostForm.Get("credential")
	if !json.Valid([]byte(text)) {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the form holds no passkey's answer").
			WithHint("The page needs script for passkeys. Use a password, or a link of 'handrail login'.")
	}
	return json.RawMessage(text), nil
}

func (c *Console) addPasskey(v *visit) {
	made, err := credential(v.r)
	if err == nil {
		err = v.ask(http.MethodPost, v1("account", "passkeys"), api.AddPasskey{Name: v.r.PostForm.Get("name"), Credential: made}, nil)
	}
	if err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "passkey")
}

func (c *Console) removePasskey(v *visit) {
	if err := v.ask(http.MethodDelete, v1("account", "passkeys", v.r.PathValue("passkey")), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "removed")
}

func (c *Console) endSession(v *visit) {
	if err := v.ask(http.MethodDelete, v1("account", "sessions", v.r.PathValue("session")), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "ended")
}

func (c *Console) endSessions(v *visit) {
	if err := v.ask(http.MethodDelete, v1("account", "sessions"), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	c.front.EndCookie(v.w, v.r)
	v.seeOther("/console/login", "")
}
