package front

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/trace"
)

const (
	// MaxBody is the largest request body (hop 1 of docs/architecture.md).
	MaxBody = 1 << 20
	// bodyTime is how long a client may take to send one.
	bodyTime = 30 * time.Second
)

// Authenticator returns the identity a token stands for, without I/O. Errors are
// CodeUnauthenticated.
type Authenticator interface {
	Authenticate(token string) (principal.Identity, error)
	// Session does the same for the cookie of a session of the console.
	Session(cookie string) (principal.Identity, error)
}

// Clients are those who speak OAuth and were let in; gateway/oauth implements it.
type Clients interface {
	// Is reports whether a bearer token is of their kind.
	Is(token string) bool
	// Access returns the identity that an access token stands for where a request came to, without
	// I/O. Errors are CodeUnauthenticated.
	Access(r *http.Request, token string) (principal.Identity, error)
	// Challenge is what a request without a good token is told; sent says that one came.
	Challenge(r *http.Request, sent bool, refusal error) string
}

type admissionKey struct{}

// admission is what admission learned about a request; one context value for all of it.
type admission struct {
	who      principal.Identity
	csrf     string // of a session
	draining <-chan struct{}
	came     time.Time
}

// Came returns when a request came, and where its caller stands in a trace by its header
// traceparent.
func Came(r *http.Request) (time.Time, trace.Context) {
	v, ok := r.Context().Value(admissionKey{}).(*admission)
	if !ok {
		return time.Time{}, trace.Context{}
	}
	return v.came, trace.Parse(r.Header.Get("Traceparent"))
}

// From returns the identity that admission found. Only handlers behind
// Bearer and HandleSession have one.
func From(ctx context.Context) principal.Identity {
	if v, ok := ctx.Value(admissionKey{}).(*admission); ok {
		return v.who
	}
	return principal.Identity{}
}

// Draining is closed when the server wants streams that would never end by
// themselves to end.
func Draining(ctx context.Context) <-chan struct{} {
	if v, ok := ctx.Value(admissionKey{}).(*admission); ok {
		return v.draining
	}
	return nil
}

// checkPlace refuses requests that a web page made the browser send: a Host that
// is a foreign name is DNS rebinding, an Origin that is not ours is a foreign
// page (ClawJacked, CVE-2026-25253).
func (s *Server) checkPlace(r *http.Request) error {
	host := hostname(r.Host)
	if !s.hostAllowed(r, host) {
		return capabilities.Errorf(capabilities.CodeOriginRefused, "the Host of the request is not an address of this gateway")
	}
	if s.clientPage(r) {
		return nil
	}
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) != 1 || !s.originAllowed(r, origins[0]) {
			return capabilities.Errorf(capabilities.CodeOriginRefused, "the request came from a web page of another origin")
		}
		return nil
	}
	// Browsers leave Origin out of some cross-site requests but never this.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		if sentBack(r) || sentHere(r) {
			return nil
		}
		return capabilities.Errorf(capabilities.CodeOriginRefused, "the request came from a web page of another origin")
	}
	return nil
}

// SignInPath is below which authorization servers send a person's browser back.
const SignInPath = SessionPath + "sign-ins/"

// LoginBackPath is where an OpenID provider sends a person's browser back.
const LoginBackPath = SessionPath + "login/back"

// sentBack reports whether an authorization server may have sent a person's browser here. The page
// there does nothing; it has the browser go on from a page of ours, with its cookies.
func sentBack(r *http.Request) bool {
	place, ok := strings.CutPrefix(r.URL.Path, SignInPath)
	ok = ok && place != "" && !strings.Contains(place, "/") || r.URL.Path == LoginBackPath
	return ok && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// AuthorizePath is where OAuth clients send a person's browser.
const AuthorizePath = "/oauth/authorize"

// sentHere reports whether a client may have sent a person's browser here. The page there does
// nothing; it has the browser go on to a page of ours, which asks the person.
func sentHere(r *http.Request) bool {
	return r.URL.Path == AuthorizePath && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// hostAllowed: a loopback connection must name loopback (or a configured name),
// any other may also name any IP address, which no foreign name can rebind to.
func (s *Server) hostAllowed(r *http.Request, host string) bool {
	if s.hosts[host] {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	if addr.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

// originAllowed: the origin the request was sent to (its Host has been checked),
// or a configured one.
func (s *Server) originAllowed(r *http.Request, origin string) bool {
	if s.origins[origin] {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.Path != "" {
		return false // "null" among others
	}
	// A page that came without TLS may be somebody's between us and the browser.
	return strings.EqualFold(u.Host, r.Host) && (u.Scheme == "https" || !secure(r))
}

// hostname is the name or address of a Host header in lower case, without port,
// brackets, zone and the root's dot.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// authenticate finds out who sends r. Every way to fail passes the same limiter.
func (s *Server) authenticate(r *http.Request, identify func(*http.Request) (principal.Identity, error)) (principal.Identity, error) {
	who, err := identify(r)
	if err == nil {
		return who, nil
	}
	return principal.Identity{}, s.Failed(r, err)
}

// Failed counts err, for which r was not let in, against its sender's address, and returns what to
// answer: err, or CodeOverloaded when there were too many. A handler that checks a secret by
// itself behind Open passes its failures through here.
func (s *Server) Failed(r *http.Request, err error) error {
	if !s.failed.allow(r.RemoteAddr) {
		return capabilities.Errorf(capabilities.CodeOverloaded, "too many requests without a valid token came from this address")
	}
	s.opts.Log.Warn("front.unauthenticated", "remote", r.RemoteAddr, "method", r.Method, "reason", capabilities.AsError(err).PublicMessage())
	return err
}

// Attempt takes one try from the budget of the sender's address, before anything of
// the request is looked at; CodeOverloaded when none is left. It is for secrets that
// people choose, which can be guessed: nobody gets in by one while their address is
// limited, whoever used the budget up.
func (s *Server) Attempt(r *http.Request) error {
	if s.attempts.allow(r.RemoteAddr) {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeOverloaded, "somebody at this address tried to sign in too often").
		WithAction(capabilities.Action{Key: capabilities.ActionSignIn}, "Wait a minute, or sign in with a passkey or by a link.")
}

func (s *Server) identify(r *http.Request) (principal.Identity, error) {
	token, err := bearer(r)
	if err != nil {
		return principal.Identity{}, err
	}
	return s.opts.Tokens.Authenticate(token)
}

// identifyClient takes access tokens of OAuth clients, too.
func (s *Server) identifyClient(r *http.Request) (principal.Identity, error) {
	token, err := bearer(r)
	if err != nil {
		return principal.Identity{}, err
	}
	if s.opts.Clients != nil && s.opts.Clients.Is(token) {
		return s.opts.Clients.Access(r, token)
	}
	return s.opts.Tokens.Authenticate(token)
}

// bearer returns the token of a request's one Authorization header.
func bearer(r *http.Request) (string, error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", capabilities.Errorf(capabilities.CodeUnauthenticated, "no token came with the request")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", capabilities.Errorf(capabilities.CodeUnauthenticated, "the Authorization header must be one 'Bearer TOKEN'")
	}
	return strings.TrimSpace(token), nil
}

// gateBody bounds the body before anything reads it.
func (s *Server) gateBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > MaxBody {
		w.Header().Set("Connection", "close") // what follows is not read either
		return capabilities.Errorf(capabilities.CodeBodyTooLarge, "the request of %d bytes is larger than 1 MiB", r.ContentLength)
	}
	r.Body = &timedBody{ReadCloser: http.MaxBytesReader(w, r.Body, MaxBody), control: http.NewResponseController(w)}
	return nil
}

// timeBody bounds how long a body may take, also one that nobody reads: the server
// itself looks for its end before the next request. A body that trickles must not hold a
// connection for ever.
func (s *Server) timeBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTime))
	}
}

type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	lifted  bool
}

// Read lifts the deadline at the end of the body, because the answer may rightly take
// longer; after any other error it stays, for what the server still reads of it.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) && !b.lifted {
		b.lifted = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// BodyError returns the coded form of an error from reading a request's body.
func BodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return capabilities.Errorf(capabilities.CodeBodyTooLarge, "the request is larger than 1 MiB")
	}
	return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the request's body could not be read")
}
