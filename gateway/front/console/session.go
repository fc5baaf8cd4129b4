package console

import (
	"net/http"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

// The link of `handrail login` carries its one-time code behind the #, which the
// browser keeps to itself; login.js takes it out of the address and sends it in the
// form. Without script the code can be pasted.

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) { c.showLogin(w, r, nil) }

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request, problem error) {
	status := http.StatusOK
	if problem != nil {
		status = capabilities.AsError(problem).Code.Info().HTTP
	}
	writePage(w, r, status, el("html", attrs{"lang", "en"},
		c.head("Sign in – Handrail", "login"),
		el("body", class("plain"), el("main", attrs{"id", "main", "class", "login"},
			el("p", class("brand"), text("Handrail")),
			el("h1", nil, text("Sign in")),
			fault(problem),
			el("p", nil, text("On the machine that runs the gateway, print a link and open it here:")),
			el("pre", nil, el("code", nil, text("handrail login"))),
			el("form", attrs{"id", "login", "method", "post", "action", "/console/login", "autocomplete", "off"},
				el("label", attrs{"for", "code"}, text("Or paste the link or its code")),
				void("input", attrs{"id", "code", "name", "code", "type", "password", "autocomplete", "one-time-code", "required", "", "maxlength", "400", "spellcheck", "false", "autocapitalize", "none"}),
				button("main", "Sign in")),
			el("p", class("faint"), text("A link is good once, for five minutes.")),
		))))
}

// login takes a one-time code and gives a session, always a new one: a session that
// somebody else put into this browser is not taken over.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if err := front.FromOwnPage(r); err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return
	}
	if err := r.ParseForm(); err != nil {
		c.showLogin(w, r, c.front.Failed(r, front.BodyError(err)))
		return
	}
	code := strings.TrimSpace(r.PostForm.Get("code"))
	if _, after, found := strings.Cut(code, "#"); found { // the whole link
		code = after
	}
	session, secret, err := c.opts.Sessions.Redeem(r.Context(), code)
	if err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return
	}
	// It lasts as long as the record says, which can be extended; the browser keeps the
	// cookie only while it runs.
	c.front.SetCookie(w, secret.Reveal())
	w.Header().Set("Cache-Control", "no-store")
	c.opts.Log.Info("console.login", "principal", session.Principal, "role", session.Role, "remote", r.RemoteAddr)
	http.Redirect(w, r, "/console/", http.StatusSeeOther)
}

// signedOut is what everybody gets who is not signed in.
func (c *Console) signedOut(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Dest") == "empty" {
		front.WriteError(w, capabilities.Errorf(capabilities.CodeUnauthenticated, "nobody is signed in here").WithHint("Sign in with 'handrail login'."))
		return
	}
	http.Redirect(w, r, "/console/login", http.StatusSeeOther)
}

func (c *Console) logout(v *visit) {
	if err := c.opts.Sessions.EndSession(v.r.Context(), v.who); err != nil {
		v.show(page{title: "Sign out", fault: err})
		return
	}
	c.front.EndCookie(v.w)
	v.seeOther("/console/login", "")
}

// extend has the session last longer, when its page said that it ends soon.
func (c *Console) extend(v *visit) {
	if _, err := c.opts.Sessions.ExtendSession(v.r.Context(), v.who); err != nil {
		v.show(page{title: "Stay signed in", fault: err})
		return
	}
	v.seeOther("/console/", "extended")
}

// home is the first page: what waits.
func (c *Console) home(v *visit) { v.seeOther("/console/approvals", v.r.URL.Query().Get("done")) }
