package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	maxHeader  = 32 << 10
	headerTime = 10 * time.Second
	idleTime   = 3 * time.Minute
	drainTime  = 5 * time.Second
	// strangerTime is how long who has shown no token may take to read an answer.
	strangerTime = 30 * time.Second
)

// Access says what admission asks of a request before its handler sees it. The
// zero value asks for a token.
type Access int

// The kinds of access.
const (
	Bearer  Access = iota // a valid bearer token
	Open                  // Host and Origin only: for what tells a stranger nothing
	Session               // a session of the console; what HandleSession mounts
	Client                // a bearer token, or an access token of an OAuth client for this address
	Shared                // as Open, and for clients in pages of Options.Pages
)

// Route is one pattern that was mounted.
type Route struct {
	Pattern string // of http.ServeMux
	Access  Access
}

// Routes returns everything that was mounted, in that order.
func (s *Server) Routes() []Route { return slices.Clone(s.routes) }

// Options of New.
type Options struct {
	Addr   string        // required: TCP address to listen on, such as "127.0.0.1:7480"
	Tokens Authenticator // required
	// Clients are those who speak OAuth. Default: there are none.
	Clients Clients
	// Certificate serves HTTPS. Needed beyond loopback, unless a proxy does it.
	Certificate *Certificate
	// Proxies are those in front that do TLS, and whose word on who called them is
	// taken; everybody else is then refused beyond loopback, unless there is a
	// Certificate, too.
	Proxies []netip.Prefix
	Hosts   []string // names besides loopback ones by which clients may call; default: none
	Origins []string // web origins besides our own that may call; default: none
	// Pages are web origins whose pages may be clients of MCP, such as "https://chat.example": they
	// may call what Client and Shared are mounted behind. Default: none.
	Pages []string
	// Nodes takes what nodes send to this port whose network drops UDP. Default: nobody does.
	Nodes NodeStreams
	// Connections is how many may be open at once, at least 64; default 4096.
	Connections int
	Log         *slog.Logger
	Now         func() time.Time // default time.Now
}

// Server is the gateway's HTTP server. Mount surfaces with Handle, then Listen,
// then Run.
type Server struct {
	opts     Options
	mux      *http.ServeMux
	routes   []Route
	hosts    map[string]bool
	origins  map[string]bool
	pages    map[string]bool
	shared   *http.ServeMux // the patterns that pages may ask
	failed   failures
	attempts failures // at what can be guessed
	refused  failures // bounds the log only
	listener net.Listener
	twin     net.Listener  // at [::1], beside one at 127.0.0.1; nil: none
	taken    bool          // by another program
	bodyTime time.Duration // how long a client may take to send a body
	idle     time.Duration // how long who has shown no token may say nothing
	draining chan struct{}
	drain    sync.Once
}

// New makes a server; it listens to nothing yet.
func New(o Options) (*Server, error) {
	if o.Tokens == nil {
		return nil, errors.New("front: Options.Tokens is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Connections == 0 {
		o.Connections = MaxConnections
	}
	o.Connections = max(o.Connections, minConnections)
	s := &Server{
		opts: o, mux: http.NewServeMux(),
		hosts: map[string]bool{"localhost": true}, origins: map[string]bool{}, pages: map[string]bool{}, shared: http.NewServeMux(),
		failed:   failures{now: o.Now, byAddr: make(map[netip.Prefix]*rate.Limiter)},
		attempts: failures{now: o.Now, byAddr: make(map[netip.Prefix]*rate.Limiter)},
		refused:  failures{now: o.Now, byAddr: make(map[netip.Prefix]*rate.Limiter)},
		bodyTime: bodyTime, idle: strangerIdle, draining: make(chan struct{}),
	}
	for _, h := range o.Hosts {
		s.hosts[hostname(h)] = true
	}
	for _, origin := range o.Origins {
		s.origins[strings.TrimSuffix(origin, "/")] = true
	}
	for _, origin := range o.Pages {
		if err := CheckPage(origin); err != nil {
			return nil, err
		}
		s.pages[origin] = true
	}
	s.Handle("/", Open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteError(w, capabilities.Errorf(capabilities.CodeNotFound, "there is nothing at this address").
			WithHint("MCP is at /mcp, the API at /v1/ (see /v1/openapi.json)."))
	}))
	s.serveNodes()
	return s, nil
}

// Handle mounts h at a pattern of http.ServeMux, behind the access it asks for.
// All mounting comes before Run.
func (s *Server) Handle(pattern string, access Access, h http.Handler) {
	s.routes = append(s.routes, Route{pattern, access})
	if access == Client || access == Shared {
		s.forPages(pattern)
	}
	s.mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &admission{draining: s.draining, came: time.Now()}
		if access != Open && access != Shared {
			identify := s.identify
			if access == Client {
				identify = s.identifyClient
			}
			who, err := s.authenticate(r, identify)
			if err != nil {
				if access == Client && s.opts.Clients != nil {
					w.Header().Set("WWW-Authenticate", s.opts.Clients.Challenge(r, len(r.Header["Authorization"]) > 0, err))
				}
				WriteError(w, err)
				return
			}
			v.who = who
			known(r, who)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // answers may rightly take long now
		}
		s.admitted(w, r, v, h)
	}))
}

// admitted hands a request on, with its body bounded.
func (s *Server) admitted(w http.ResponseWriter, r *http.Request, v *admission, h http.Handler) {
	if err := s.gateBody(w, r); err != nil {
		WriteError(w, err)
		return
	}
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), admissionKey{}, v)))
}

// ServeHTTP admits and serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["X-Content-Type-Options"] = noSniff
	// A stranger that sends requests and reads no answers must not hold connections
	// for ever; there are only so many.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(strangerTime))
	s.timeBody(w, r)
	if s.opts.Certificate != nil && r.TLS != nil && s.opts.Certificate.Real() {
		w.Header()["Strict-Transport-Security"] = strictTransport
	}
	r, err := s.resolvePeer(r)
	if err == nil {
		err = s.checkPlace(r)
	}
	if err != nil {
		if s.refused.allow(r.RemoteAddr) { // a page can repeat it without end
			s.opts.Log.Warn("front.refused", "remote", r.RemoteAddr, "host", capabilities.Clip(r.Host, maxLogged),
				"origin", capabilities.Clip(r.Header.Get("Origin"), maxLogged))
		}
		WriteError(w, err)
		return
	}
	if s.clientPage(r) && answersPage(w, r) {
		return
	}
	s.mux.ServeHTTP(w, r)
}

// maxLogged bounds what a stranger can write into the log at once, in bytes.
const maxLogged = 200

var (
	noSniff = []string{"nosniff"}
	// strictTransport is for certificates that stay good by themselves: with one that
	// is only known by its fingerprint, browsers would let nobody in any more.
	strictTransport = []string{"max-age=31536000"}
)

// Listen binds the address, so that Addr is known before Run.
func (s *Server) Listen() error {
	if s.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", s.opts.Addr)
	if err != nil {
		return fmt.Errorf("cannot listen for HTTP: %w", err)
	}
	if !loopback(l.Addr()) && s.opts.Certificate == nil {
		if len(s.opts.Proxies) == 0 {
			_ = l.Close()
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s is not loopback, and tokens must not cross a network unencrypted",
				s.opts.Addr).
				WithAction(capabilities.Action{Key: capabilities.ActionServeHTTPS},
					"Listen on loopback, or serve HTTPS: by a generated certificate, by one of an authority, or behind a TLS proxy.")
		}
		s.opts.Log.Info("front.plain", "addr", l.Addr().String(), "proxies", s.opts.Proxies)
	}
	s.listener = l
	s.listenAsLocalhost()
	return nil
}

// listenAsLocalhost serves [::1] beside 127.0.0.1. Browsers ask there first for the name localhost,
// and whoever else listened there would get what people send to it: their codes and sessions.
func (s *Server) listenAsLocalhost() {
	at, err := netip.ParseAddrPort(s.listener.Addr().String())
	if err != nil || s.opts.Certificate != nil || at.Addr().Unmap() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		return
	}
	place := netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()).String()
	if s.twin, err = net.Listen("tcp6", place); err == nil {
		return
	}
	s.twin = nil
	if conn, err := net.DialTimeout("tcp6", place, localhostTime); err == nil { // else there is no such address here
		_ = conn.Close()
		s.taken = true
		s.opts.Log.Warn("front.localhost_taken", "addr", place)
	}
}

// localhostTime is how long another program at this machine's own address may take to answer.
const localhostTime = time.Second

// Localhost reports whether the name localhost leads to this server, at the port of Addr, and to no
// other program.
func (s *Server) Localhost() bool {
	if s.listener == nil {
		return false
	}
	at, err := netip.ParseAddrPort(s.listener.Addr().String())
	return err == nil && at.Addr().Unmap() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) && !s.taken
}

func loopback(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// Addr is the address Listen bound, or nil before.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Close returns the address up if Run was never called. Idempotent.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	if s.twin != nil {
		_ = s.twin.Close()
	}
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("front: %w", err)
	}
	return nil
}

// Run serves until ctx ends, then lets running requests finish for a few
// seconds. It listens first if Listen was not called.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(); err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ConnState:         turned,
		ConnContext:       withConnection,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
	}
	if s.opts.Certificate != nil {
		server.TLSConfig = s.opts.Certificate.config()
		s.beside(server)
	}
	listener := listen(s.listener, s.opts.Connections, s.idle, s.trusted)
	done := make(chan error, 2)
	serving := 1
	go func() {
		if s.opts.Certificate != nil {
			done <- server.ServeTLS(listener, "", "")
			return
		}
		done <- server.Serve(listener)
	}()
	if s.twin != nil {
		serving++
		go func() { done <- server.Serve(otherDoor{s.twin, listener}) }()
	}
	select {
	case err := <-done:
		return fmt.Errorf("front: %w", err)
	case <-ctx.Done():
	}
	s.drain.Do(func() { close(s.draining) })
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close()
	}
	for range serving {
		<-done
	}
	return nil
}
