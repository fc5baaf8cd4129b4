package console

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/passkey"
	"github.com/handrail-dev/handrail/gateway/principal"
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
	c.write(w, r, status, "login", signIn{
		con: c, Title: "Sign in", Modules: []string{"login", "passkey"}, Fault: faultOf(problem), Some: c.somePasskey(r),
		NoPasskeys: noPasskeys(r), Elsewhere: c.elsewhere(), Number: fromHere(r) && c.opts.Sessions.NumberWaits(),
	})
}

// signIn is the page for signing in.
type signIn struct {
	con        *Console
	Title      string
	Modules    []string
	Fault      *fault
	Some       bool   // there is a passkey to press a button for
	NoPasskeys string // why no browser keeps one here; empty: one can
	Elsewhere  string // the OpenID provider at which people sign in; empty: there is none
	Number     bool   // the terminal that started the gateway shows one
}

// Asset is the address of a file of the pages.
func (s signIn) Asset(name string) string { return s.con.assets[name].address }

// somePasskey reports whether there is anything to press a passkey's button for, at the
// address that the page was opened by.
func (c *Console) somePasskey(r *http.Request) bool {
	at, err := passkey.At(front.Origin(r))
	return err == nil && c.opts.Passkeys.Some(at)
}

// passkeysAt says why no browser keeps passkeys at the address that the page was opened
// by; nil: there can be some.
func passkeysAt(r *http.Request) error {
	_, err := passkey.At(front.Origin(r))
	return err
}

// noPasskeys says so, and where there can be some; empty: there can be some.
func noPasskeys(r *http.Request) string {
	err := passkeysAt(r)
	if err == nil {
		return ""
	}
	f := faultOf(err)
	return strings.TrimSpace(f.Message + " " + f.Hint + " " + f.Way.text())
}

// entering reads a form of the page for signing in.
func (c *Console) entering(w http.ResponseWriter, r *http.Request) bool {
	if err := front.FromOwnPage(r); err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return false
	}
	if err := r.ParseForm(); err != nil {
		c.showLogin(w, r, c.front.Failed(r, front.BodyError(err)))
		return false
	}
	return true
}

// enter returns the browser a session, always a new one: one that somebody else put into
// it is not taken over.
func (c *Console) enter(w http.ResponseWriter, r *http.Request, session principal.Token, secret principal.Secret) {
	// It lasts as long as the record says, which can be extended; the browser keeps the
	// cookie only while it runs.
	c.front.SetCookie(w, r, secret.Reveal())
	w.Header().Set("Cache-Control", "no-store")
	c.opts.Log.Info("console.login", "principal", session.Principal, "role", session.Role, "remote", r.RemoteAddr)
	http.Redirect(w, r, goNext(w, r), http.StatusSeeOther)
}

// loginPassword takes a name and a password. A secret that can be guessed is looked at only while
// the sender's address has tries left, whatever came of those before.
func (c *Console) loginPassword(w http.ResponseWriter, r *http.Request) {
	if err := c.front.Attempt(r); err != nil {
		c.showLogin(w, r, err)
		return
	}
	if !c.entering(w, r) {
		return
	}
	session, secret, err := c.opts.Sessions.SignIn(r.Context(), strings.TrimSpace(r.PostForm.Get("name")),
		principal.TypedPassword(r.PostForm.Get("password")))
	if err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return
	}
	c.enter(w, r, session, secret)
}

// loginNumber takes the number that the terminal shows which started the gateway. It is short, and
// so it opens nothing to whoever calls from another machine.
func (c *Console) loginNumber(w http.ResponseWriter, r *http.Request) {
	if err := c.front.Attempt(r); err != nil {
		c.showLogin(w, r, err)
		return
	}
	if !c.entering(w, r) {
		return
	}
	if !fromHere(r) {
		c.showLogin(w, r, c.front.Failed(r, capabilities.Errorf(capabilities.CodeForbidden,
			"a number counts in a browser of the gateway's own machine, at the address localhost")))
		return
	}
	session, secret, err := c.opts.Sessions.RedeemNumber(r.Context(), r.PostForm.Get("number"))
	if err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return
	}
	c.enter(w, r, session, secret)
}

// fromHere reports whether a request came from the gateway's own machine, by an address that leads
// nowhere else.
func fromHere(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && front.Told(r) && onThisMachine(front.Origin(r))
}

// askPasskey is what any passkey is asked for signing in.
func (c *Console) askPasskey(w http.ResponseWriter, r *http.Request) {
	err := front.FromOwnPage(r)
	if err == nil {
		var at passkey.Place
		if at, err = passkey.At(front.Origin(r)); err == nil {
			var body []byte
			if body, err = json.Marshal(c.opts.Passkeys.BeginSignIn(at)); err == nil {
				writeJSON(w, body)
				return
			}
		}
	}
	front.WriteError(w, err)
}

func (c *Console) loginPasskey(w http.ResponseWriter, r *http.Request) {
	if !c.entering(w, r) {
		return
	}
	got, err := credential(r)
	var at passkey.Place
	if err == nil {
		at, err = passkey.At(front.Origin(r))
	}
	var session principal.Token
	var secret principal.Secret
	if err == nil {
		session, secret, err = c.opts.Passkeys.SignIn(r.Context(), at, got)
	}
	if err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return
	}
	c.enter(w, r, session, secret)
}

// login takes a one-time code.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if !c.entering(w, r) {
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
	c.enter(w, r, session, secret)
}

// signedOut is what everybody gets who is not signed in.
func (c *Console) signedOut(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Dest") == "empty" {
		front.WriteError(w, capabilities.Errorf(capabilities.CodeUnauthenticated, "nobody is signed in here").
			WithHint("Sign in with 'handrail login'."))
		return
	}
	keepNext(w, r)
	http.Redirect(w, r, "/console/login", http.StatusSeeOther)
}

func (c *Console) logout(v *visit) {
	if err := c.opts.Sessions.EndSession(v.r.Context(), v.who); err != nil {
		v.show(page{name: "problem", title: "Sign out", fault: err})
		return
	}
	c.front.EndCookie(v.w, v.r)
	v.seeOther("/console/login", "")
}

// extend has the session last longer, when its page said that it ends soon.
func (c *Console) extend(v *visit) {
	if _, err := c.opts.Sessions.ExtendSession(v.r.Context(), v.who); err != nil {
		v.show(page{name: "problem", title: "Stay signed in", fault: err})
		return
	}
	v.seeOther("/console/", "extended")
}
