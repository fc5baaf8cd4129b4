package console

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// account is what the visitor's page about themselves is made of.
type account struct {
	Principal  string         `json:"principal"`
	Password   bool           `json:"password"`
	Passkeys   []view.Passkey `json:"passkeys"`
	Sessions   []view.Token   `json:"sessions"`
	Session    string         `json:"session"`
	FreshUntil time.Time      `json:"fresh_until"`
}

// account shows how the visitor signs in, and where they are signed in.
func (c *Console) account(v *visit) { v.showAccount(nil) }

func (v *visit) showAccount(problem error) {
	var a account
	if err := v.get(api("account"), &a); err != nil {
		v.show(page{title: "Your account", here: "/console/account", fault: err})
		return
	}
	fresh := v.con.opts.Now().Before(a.FreshUntil)
	v.show(page{title: "Your account", here: "/console/account", fault: problem, modules: []string{"passkey", "push"},
		lead: group(text("How "), el("strong", nil, text(a.Principal)), text(" signs in, and where. Ways to sign in can be changed for ten minutes after signing in.")),
		body: group(
			when(!fresh, div("card", p(text("You signed in a while ago. To change how you sign in, sign out and in again.")))),
			v.passkeys(a, fresh), v.password(a, fresh), v.notices(), v.sessions(a))})
}

func (v *visit) passkeys(a account, fresh bool) html {
	return el("section", attrs{"class", "card", "aria-labelledby", "passkeys"},
		el("h2", attrs{"id", "passkeys"}, text("Passkeys")),
		p(text("A key in this device, a phone or a security key, unlocked by finger, face or PIN. It also confirms approvals while an agent holds this device's mouse and keyboard.")),
		when(len(a.Passkeys) > 0, el("ul", class("plainlist"), each(a.Passkeys, func(k view.Passkey) html {
			used := text("not used yet")
			if !k.UsedAt.IsZero() {
				used = group(text("used "), ago(k.UsedAt))
			}
			return el("li", nil, v.form(at("account", "passkeys", k.ID), attrs{"class", "inline"},
				el("strong", nil, text(k.Name)), text(" "), span("faint", textf("for %s, ", k.Place), used), text(" "),
				button("plain", "Remove", "aria-label", "Remove the passkey "+k.Name)))
		}))),
		when(len(a.Passkeys) == 0, el("p", class("faint"), text("You have none yet."))),
		noPasskeys(v.r),
		when(fresh && passkeysAt(v.r) == nil, v.form("/console/account/passkeys", attrs{"class", "fields", "data-passkey", "/console/account/passkeys/options", "data-make", ""},
			el("label", attrs{"for", "passkey-name"}, text("Name of the new passkey")),
			void("input", attrs{"id", "passkey-name", "name", "name", "required", "", "maxlength", "60", "value", "", "placeholder", "such as: laptop", "autocomplete", "off"}),
			void("input", attrs{"type", "hidden", "name", "credential"}),
			el("p", attrs{"class", "none", "role", "alert", "data-problem", ""}),
			button("main", "Add a passkey"))))
}

// offerPasskey asks who has just signed in, and has no passkey yet, to make one: without
// it nothing can be allowed from a device while an agent has its mouse and keyboard.
func (v *visit) offerPasskey() html {
	var a account
	if v.who.Role == principal.RoleViewer || passkeysAt(v.r) != nil || v.get(api("account"), &a) != nil || len(a.Passkeys) > 0 || !v.con.opts.Now().Before(a.FreshUntil) {
		return html{}
	}
	return el("aside", attrs{"class", "card", "aria-labelledby", "offer-h"},
		el("h2", attrs{"id", "offer-h"}, text("Add a passkey")),
		p(text("With one you sign in without a link, and you can allow things from this device also while an agent uses its mouse and keyboard. You have none yet.")),
		p(el("a", attrs{"href", "/console/account#passkeys"}, text("Add a passkey"))))
}

func (v *visit) password(a account, fresh bool) html {
	said := "No password set. You only need one in browsers without passkeys."
	label := "Set the password"
	if a.Password {
		said, label = "You have a password.", "Change the password"
	}
	return el("section", attrs{"class", "card", "aria-labelledby", "password-h"},
		el("h2", attrs{"id", "password-h"}, text("Password")),
		p(text(said)),
		when(fresh, v.form("/console/account/password", attrs{"class", "fields"},
			void("input", attrs{"type", "text", "name", "username", "value", a.Principal, "autocomplete", "username", "class", "hidden", "tabindex", "-1", "aria-hidden", "true", "readonly", ""}),
			el("label", attrs{"for", "password"}, text("New password, 12 characters or more")),
			void("input", attrs{"id", "password", "name", "password", "type", "password", "required", "", "minlength", "12", "maxlength", "256", "autocomplete", "new-password"}),
			el("p", class("faint"), text("Your other sessions end with it.")),
			button("plain", label))))
}

func (v *visit) sessions(a account) html {
	return el("section", attrs{"class", "card", "aria-labelledby", "sessions"},
		el("h2", attrs{"id", "sessions"}, text("Where you are signed in")),
		el("ul", class("plainlist"), each(a.Sessions, func(s view.Token) html {
			return el("li", nil, v.form(at("account", "sessions", s.ID), attrs{"class", "inline"},
				text("Since "), moment(s.CreatedAt), text(", ends "), ago(s.ExpiresAt), text(" "), when(s.ID == a.Session, el("strong", nil, text("(here) "))),
				span("faint", text("as "+s.Role+" ")),
				when(s.ID != a.Session, button("plain", "Sign out", "aria-label", "Sign out the session "+s.ID))))
		})),
		v.form("/console/account/sessions", attrs{"data-whole", ""}, button("danger", "Sign out everywhere")))
}

func (c *Console) setPassword(v *visit) {
	if err := v.ask(http.MethodPut, api("account", "password"), map[string]any{"password": v.r.PostForm.Get("password")}, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "password")
}

// passkeyOptions is what a new passkey is made of, for passkey.js.
func (c *Console) passkeyOptions(v *visit) { v.answerJSON(api("account", "passkey-options"), nil) }

// approvalPasskey is what a passkey is asked about one answer to one question.
func (c *Console) approvalPasskey(v *visit) {
	in, err := v.answerFields()
	if err != nil {
		front.WriteError(v.w, err)
		return
	}
	delete(in, "passkey")
	v.answerJSON(api("approvals", v.r.PathValue("approval"), "passkey"), in)
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
		err = v.ask(http.MethodPost, api("account", "passkeys"), map[string]any{"name": v.r.PostForm.Get("name"), "credential": made}, nil)
	}
	if err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "passkey")
}

func (c *Console) removePasskey(v *visit) {
	if err := v.ask(http.MethodDelete, api("account", "passkeys", v.r.PathValue("passkey")), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "removed")
}

func (c *Console) endSession(v *visit) {
	if err := v.ask(http.MethodDelete, api("account", "sessions", v.r.PathValue("session")), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "ended")
}

func (c *Console) endSessions(v *visit) {
	if err := v.ask(http.MethodDelete, api("account", "sessions"), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	c.front.EndCookie(v.w, v.r)
	v.seeOther("/console/login", "")
}
