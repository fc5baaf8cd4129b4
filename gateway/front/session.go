package front

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	// SessionCookie carries a session of the console. It goes to SessionPath only.
	SessionCookie = "handrail_session"
	SessionPath   = "/console/"
	// PasskeyHeader carries what a passkey answered to /v1/confirmations, as JSON of
	// navigator.credentials, beside the request that it confirms.
	PasskeyHeader = "Handrail-Passkey"
	// CSRFField is the form field, and CSRFHeader the header, in which every request of
	// a session that changes something has to bring CSRF's value.
	CSRFField  = "csrf"
	CSRFHeader = "X-Handrail-Csrf"
)

// CSRF is what the forms of a session's pages have to carry: whoever cannot read
// the pages cannot know it.
func CSRF(ctx context.Context) string {
	if v, ok := ctx.Value(admissionKey{}).(*admission); ok {
		return v.csrf
	}
	return ""
}

// HandleSession mounts h behind a session's cookie. Requests without a valid one get
// signedOut instead, whatever they ask for; those that would change something are
// refused unless they come from our own pages and carry CSRF's value. Mount below
// SessionPath.
func (s *Server) HandleSession(pattern string, signedOut, h http.Handler) {
	s.routes = append(s.routes, Route{pattern, Session})
	s.mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &admission{draining: s.draining}
		cookies := r.CookiesNamed(SessionCookie)
		if len(cookies) == 0 {
			s.admitted(w, r, v, signedOut)
			return
		}
		cookie := cookies[0].Value
		who, err := s.opts.Tokens.Session(cookie)
		if len(cookies) > 1 { // somebody else's beside ours: neither counts
			err = capabilities.Errorf(capabilities.CodeUnauthenticated, "more than one session came with the request")
		}
		if err != nil {
			if err = s.Failed(r, err); capabilities.CodeOf(err) == capabilities.CodeOverloaded {
				WriteError(w, err)
				return
			}
			s.EndCookie(w, r)
			s.admitted(w, r, v, signedOut)
			return
		}
		v.who, v.csrf = who, csrfOf(cookie)
		known(r, who)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		s.admitted(w, r, v, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := checkForgery(r, v.csrf); err != nil {
				WriteError(w, err)
				return
			}
			h.ServeHTTP(w, r)
		}))
	}))
}

func csrfOf(cookie string) string {
	mac := hmac.New(sha256.New, []byte(cookie))
	mac.Write([]byte("handrail console csrf 1"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// checkForgery refuses changes that a page of somebody else's may have sent. Host
// and a foreign Origin were refused before; here the Origin has to be there.
func checkForgery(r *http.Request, want string) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if err := FromOwnPage(r); err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return BodyError(err)
		}
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the form could not be read")
	}
	got := r.Header.Get(CSRFHeader)
	if got == "" {
		got = r.PostForm.Get(CSRFField)
	}
	if !hmac.Equal([]byte(got), []byte(want)) {
		return capabilities.Errorf(capabilities.CodeOriginRefused, "the form is not one that this session was given").
			WithHint("Open the page again and repeat it.")
	}
	return nil
}

// FromOwnPage refuses requests that do not say that a page of ours sent them. Every
// browser says it of what changes something.
func FromOwnPage(r *http.Request) error {
	u, err := url.Parse(r.Header.Get("Origin"))
	if len(r.Header["Origin"]) != 1 || err != nil || !strings.EqualFold(u.Host, r.Host) { // other origins may be configured, for the API only
		return capabilities.Errorf(capabilities.CodeOriginRefused, "the request does not say that a page of the console sent it")
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return capabilities.Errorf(capabilities.CodeOriginRefused, "the request came from a web page of another origin")
	}
	return nil
}

// SetCookie returns the browser a session, which it forgets when it ends.
func (s *Server) SetCookie(w http.ResponseWriter, r *http.Request, value string) {
	http.SetCookie(w, cookie(r, value))
}

// EndCookie has the browser forget its session.
func (s *Server) EndCookie(w http.ResponseWriter, r *http.Request) {
	c := cookie(r, "")
	c.MaxAge = -1
	http.SetCookie(w, c)
}

func cookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: SessionCookie, Value: value, Path: SessionPath, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: secure(r),
	}
}
