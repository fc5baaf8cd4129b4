package oauth

import (
	"context"
	"net/url"
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Ask is what a client asks of a person.
type Ask struct {
	Client   Client
	Redirect string   // where the answer goes
	Place    string   // that address in words
	Audience string   // what its access tokens are for
	Scopes   []string // that it names
	// Fault is why the client is answered with a refusal at once, as OAuth names it, and About the
	// same in words; empty: a person decides.
	Fault, About string

	state, challenge, base string
}

// s256 is the form of a challenge: 32 bytes as base64url.
var s256 = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// Read reads what a client sent a person's browser with. It returns an error where the client is
// not known, or wants to be answered elsewhere: nobody may be answered then (RFC 6749, section
// 4.1.2.1). All else is a Fault.
func (s *Server) Read(ctx context.Context, base, query string) (*Ask, error) {
	if len(query) > maxQuery {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client's request is larger than 6 KiB")
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client's request is not well formed")
	}
	for name, values := range q {
		if len(values) > 1 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client's request names %.64q more than once", name)
		}
	}
	c, err := s.client(ctx, q.Get("client_id"))
	if err != nil {
		return nil, err
	}
	a := &Ask{Client: *c, Redirect: q.Get("redirect_uri"), base: base, state: q.Get("state"), challenge: q.Get("code_challenge")}
	if a.Redirect == "" && len(c.Redirects) == 1 {
		a.Redirect = c.Redirects[0]
	}
	if !c.answers(a.Redirect) {
		return nil, capabilities.Errorf(capabilities.CodeForbidden,
			"the client %s wants to be answered at %.200q, which is not an address of its own", c.Name, capabilities.Printable(a.Redirect)).
			WithHint("Do not go on if you came here by a link. Else remove the connection in the client and add it again.")
	}
	a.Place = place(a.Redirect)
	a.Scopes = strings.Fields(q.Get("scope"))
	a.Audience = base + Resource
	switch {
	case q.Get("response_type") != "code":
		a.Fault, a.About = "unsupported_response_type", "the client asks for another answer than a code"
	case q.Get("code_challenge_method") != "S256" || !s256.MatchString(a.challenge):
		a.Fault, a.About = "invalid_request", "the client does not use PKCE with S256"
	case q.Get("response_mode") != "" && q.Get("response_mode") != "query":
		a.Fault, a.About = "invalid_request", "the client wants its answer in another way than by its address"
	case q.Has("request") || q.Has("request_uri"):
		a.Fault, a.About = "request_not_supported", "the client sends its request in an object"
	case q.Get("prompt") == "none":
		a.Fault, a.About = "interaction_required", "the client asks to be let in without a person"
	case !forUs(q.Get("resource"), base):
		a.Fault, a.About = "invalid_target", "the client wants a token for another address than "+a.Audience
	case len(a.state) > 2<<10:
		a.Fault, a.About = "invalid_request", "the client's state is larger than 2 KiB"
	}
	return a, nil
}

// forUs reports whether a resource (RFC 8707) is MCP at base. Clients of older revisions name none.
func forUs(resource, base string) bool {
	if resource == "" {
		return true
	}
	path, ok := strings.CutPrefix(resource, base)
	path, _, _ = strings.Cut(path, "?")
	return ok && isResource(path)
}

// Back is the address at which the client is answered with a refusal.
func (a *Ask) Back(code, about string) string {
	return a.answer(url.Values{"error": {code}, "error_description": {about}})
}

// answer adds to the redirect address, with who answers (RFC 9207).
func (a *Ask) answer(v url.Values) string {
	u, err := url.Parse(a.Redirect)
	if err != nil { // it was read before
		return ""
	}
	if a.state != "" {
		v.Set("state", a.state)
	}
	v.Set("iss", a.base)
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += v.Encode()
	return u.String()
}
