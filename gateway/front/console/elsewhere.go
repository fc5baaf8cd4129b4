package console

import (
	"net/http"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/oidc"
)

// People may sign in at an OpenID provider. A cookie keeps, sealed, the things that the sign-in
// needs when they come back. The browser that began brings it and no other: an answer that is put
// into somebody's browser finds no cookie of its own there.

const (
	finishPath = "/console/login/finish"
	// keepCookie carries a sign-in that waits at the provider.
	keepCookie = "handrail_elsewhere"
)

// elsewhere is the provider's host; empty: there is none.
func (c *Console) elsewhere() string {
	if c.opts.Elsewhere == nil {
		return ""
	}
	return c.opts.Elsewhere.Host()
}

func waiting(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: keepCookie, Value: value, Path: finishPath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: strings.HasPrefix(front.Origin(r), "https:"), MaxAge: age,
	}
}

// loginElsewhere sends the browser to the provider. A form may not lead it elsewhere (form-action
// of pagePolicy): the page that answers does.
func (c *Console) loginElsewhere(w http.ResponseWriter, r *http.Request) {
	if !c.entering(w, r) {
		return
	}
	begun, err := c.opts.Elsewhere.Begin(r.Context(), front.Origin(r)+front.LoginBackPath)
	if err != nil {
		c.showLogin(w, r, err)
		return
	}
	http.SetCookie(w, waiting(r, begun.Keep, int(oidc.Life.Seconds())))
	w.Header().Set("Refresh", "0; url="+begun.Address)
	c.write(w, r, http.StatusOK, "back", nil)
}

// vouchedFor takes a browser that comes from the provider. It does nothing but have a page of ours
// ask.
func (c *Console) vouchedFor(w http.ResponseWriter, r *http.Request) { c.goOn(w, r, finishPath) }

// finishLogin takes what the provider sent, from the browser that began.
func (c *Console) finishLogin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	cookies := r.CookiesNamed(keepCookie)
	if len(cookies) != 1 {
		c.showLogin(w, r, c.front.Failed(r, capabilities.Errorf(capabilities.CodeUnauthenticated, "this browser began no sign-in").
			WithHint("Sign in again here. A link that somebody sent you signs you in as them.")))
		return
	}
	http.SetCookie(w, waiting(r, "", -1))
	q := r.URL.Query()
	session, secret, err := c.opts.Elsewhere.Finish(r.Context(), oidc.Answer{
		Keep: cookies[0].Value, Back: front.Origin(r) + front.LoginBackPath, State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"),
		Error: q.Get("error"),
	})
	if err != nil {
		c.showLogin(w, r, c.front.Failed(r, err))
		return
	}
	c.enter(w, r, session, secret)
}
