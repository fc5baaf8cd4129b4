package oauth

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

const (
	maxRedirects = 8
	maxRedirect  = 512 // bytes
	maxName      = 80  // bytes
)

// Client is one that asks to be let in.
type Client struct {
	ID   string
	Name string // what it calls itself; nobody checked that
	// Host is where its document lies, which says who it is; empty: it registered itself, and nobody
	// says so but itself.
	Host      string
	Redirects []string // where it may be answered
}

// Words is the client as lists and packets have it.
func (c *Client) Words(redirect string) string {
	from := c.Host
	if from == "" {
		from = "registered by itself; answers go to " + place(redirect)
	}
	return capabilities.Clip(c.Name, maxName) + " (" + capabilities.Clip(from, 100) + ")"
}

// place is the host that an address leads to, or its scheme where it is a program's own.
func place(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil:
		return "an address that cannot be read"
	case isLoopback(u):
		return "a program on the person's own machine"
	case u.Scheme != "https":
		return "the program that opens " + u.Scheme + ":"
	}
	return u.Host
}

// client finds out which client it is that names itself so.
func (s *Server) client(ctx context.Context, id string) (*Client, error) {
	switch {
	case strings.HasPrefix(id, clientKind):
		text, ok := s.unseal(clientKind, id)
		if !ok {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client ID was not given out by this gateway").
				WithHint("Remove the connection in the client and add it again: it then registers anew.")
		}
		var r registered
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client ID cannot be read")
		}
		return &Client{ID: id, Name: r.Name, Redirects: r.Redirects}, nil
	case strings.HasPrefix(id, "https://"), strings.HasPrefix(id, "http://"):
		return s.documents.client(ctx, id)
	}
	return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client ID is neither an address nor one that this gateway gave out").
		WithHint("Leave the client ID empty in the client's settings: it registers by itself then.")
}

// registered is what a client ID says.
type registered struct {
	Name      string   `json:"n"`
	Redirects []string `json:"r"`
}

// registration is what of RFC 7591, section 2, counts here.
type registration struct {
	Redirects []string `json:"redirect_uris"`
	Name      string   `json:"client_name"`
}

// register takes a registration. Nothing of it is kept: the client ID says all of it.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	fail := func(code, about string) {
		s.note(r, Step{What: Registered, Fault: about})
		writeError(w, http.StatusBadRequest, code, about)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail("invalid_client_metadata", "A registration is JSON, with Content-Type application/json.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		fail("invalid_client_metadata", "The registration cannot be read, or is larger than 32 KiB.")
		return
	}
	var in registration
	if err := json.Unmarshal(body, &in); err != nil {
		fail("invalid_client_metadata", "The registration is not a JSON object of RFC 7591.")
		return
	}
	in.Name = cleanName(in.Name)
	if err := checkRedirects(in.Redirects); err != nil {
		fail("invalid_redirect_uri", capabilities.AsError(err).PublicMessage())
		return
	}
	text, err := json.Marshal(registered{in.Name, in.Redirects})
	if err != nil || len(text) > maxSealed/2 {
		fail("invalid_redirect_uri", "The redirect addresses are too long together.")
		return
	}
	s.note(r, Step{What: Registered, Client: in.Name})
	write(w, http.StatusCreated, map[string]any{
		"client_id": s.seal(clientKind, text), "client_id_issued_at": s.opts.Now().Unix(), "client_name": in.Name, "redirect_uris": in.Redirects,
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	})
}

// cleanName is what a client calls itself, as it may be shown.
func cleanName(name string) string {
	if name = strings.TrimSpace(capabilities.Clip(capabilities.Printable(name), maxName)); name == "" {
		return "A client without a name"
	}
	return name
}

func checkRedirects(all []string) error {
	if len(all) == 0 || len(all) > maxRedirects {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a client names 1 to %d redirect_uris", maxRedirects)
	}
	for _, one := range all {
		if err := checkRedirect(one); err != nil {
			return err
		}
	}
	return nil
}

// ownScheme is that of a program's own addresses (RFC 8252, section 7.1).
var ownScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]{1,39}$`)

// noPrograms are schemes that browsers carry out themselves, or that lead to other places.
var noPrograms = []string{
	"javascript", "data", "vbscript", "file", "filesystem", "blob", "about", "view-source", "chrome", "chrome-extension", "moz-extension",
	"resource", "jar", "ftp", "ws", "wss", "mailto", "tel", "sms", "intent", "android-app", "ms-settings", "search-ms",
}

// checkRedirect refuses addresses that a code must not go to: https with a host, http on the
// person's own machine, or a program's own scheme; no user, no fragment.
func checkRedirect(raw string) error {
	u, err := url.Parse(raw)
	bad := capabilities.Errorf(capabilities.CodeInvalidRequest,
		"a redirect address is https, http at 127.0.0.1, [::1] or localhost, or a program's own scheme, without a user and a fragment")
	if err != nil || raw == "" || len(raw) > maxRedirect || u.User != nil || u.Fragment != "" || strings.Contains(raw, "#") ||
		strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' }) {
		return bad
	}
	switch u.Scheme {
	case "https", "http":
		if _, ok := address.Web(raw); !ok || u.Scheme == "http" && !isLoopback(u) {
			return bad
		}
	default:
		if !ownScheme.MatchString(u.Scheme) || slices.Contains(noPrograms, u.Scheme) {
			return bad
		}
	}
	return nil
}

func isLoopback(u *url.URL) bool {
	return u.Scheme == "http" && slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname())
}

// answers reports whether a client may be answered at an address: by exact match, but for the port
// on the person's own machine, which a program is given as it starts (RFC 8252, section 7.3).
func (c *Client) answers(raw string) bool {
	if checkRedirect(raw) != nil {
		return false
	}
	if slices.Contains(c.Redirects, raw) {
		return true
	}
	u, err := url.Parse(raw)
	if err != nil || !isLoopback(u) {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(own string) bool {
		o, err := url.Parse(own)
		return err == nil && isLoopback(o) && portless(o) == portless(u)
	})
}

// portless is an address on the person's own machine without its port, written as it came.
func portless(u *url.URL) string {
	c := *u
	c.Host = c.Hostname()
	return c.String()
}
