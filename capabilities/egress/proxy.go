package egress

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Proxy is a lane's only way to the network: an HTTP proxy on a loopback port
// that Chrome uses for everything (documents, frames, workers, sockets). It
// resolves each name once, checks every address and dials the one it checked.
// Connections of other local processes are dropped, where the system tells whose
// they are: what the owner opens for the browser is for the browser only.
type Proxy struct {
	rules     *Rules
	log       *slog.Logger
	onHost    func(host string)
	granted   func() Domains // what the lane's latest call was granted
	files     Files          // what is served at FilesDomain; nil: nothing is
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	served    sync.WaitGroup
	stop      context.CancelFunc
	//lint:ignore containedctx the life of the proxy
	stopped context.Context

	known   chan struct{} // closed once process is set
	process Process

	mu sync.Mutex
	//lint:ignore containedctx the life of its requests until the next cut
	flowing  context.Context // of every request that runs; a cut ends it
	end      context.CancelFunc
	failures map[string]failed   // by "host:port": why and when the latest connection failed
	tunnels  map[net.Conn]string // open tunnels, both ends, by "host:port"
	closed   bool
	offline  bool // nothing goes out
}

// maxFailures bounds what is remembered of a page that tries many hosts.
const maxFailures = 256

// New opens the port and serves until Close; no connection is answered before Use.
// onHost is told the name of each host that was connected to, granted is asked at each
// request for the hosts that the lane's latest call leaves (nil: no bound of its own).
// Both are called from many goroutines.
func New(rules *Rules, log *slog.Logger, onHost func(host string), granted func() Domains) (*Proxy, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		known: make(chan struct{}), rules: rules, log: log, onHost: onHost, granted: granted, listener: listener, failures: map[string]failed{},
		tunnels: map[net.Conn]string{},
	}
	p.stopped, p.stop = context.WithCancel(context.Background())
	p.flowing, p.end = context.WithCancel(p.stopped)
	p.transport = &http.Transport{
		DialContext: p.dialChecked, DisableCompression: true,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 60 * time.Second, ResponseHeaderTimeout: 5 * time.Minute,
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 256 << 10,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return p.stopped },
	}
	p.served.Go(func() { p.server.Serve(guarded{listener, p}) })
	rules.serve(p, true)
	return p, nil
}

// Process is whose connections the proxy takes.
type Process interface {
	// Owns reports whether the TCP connection between those two addresses of this machine
	// was opened, at from, by the process or what it started. The error says that the
	// system does not tell.
	Owns(from, to netip.AddrPort) (bool, error)
}

// Use says, once, which process the proxy is for; connections wait for that. With nil
// they are anybody's.
func (p *Proxy) Use(process Process) {
	p.process = process
	close(p.known)
}

// Files answers a request for a file of the owner's, or writes nothing and says why not.
type Files func(http.ResponseWriter, *http.Request) error

// ServeFiles has the proxy answer for FilesDomain itself. It is called before Use.
func (p *Proxy) ServeFiles(files Files) { p.files = files }

// guarded passes on connections of the proxy's own Chrome only.
type guarded struct {
	net.Listener
	proxy *Proxy
}

func (g guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.proxy.mine(c) {
			return c, nil
		}
		g.proxy.log.Warn("browser.egress.stranger", "from", c.RemoteAddr())
		c.Close()
	}
}

// mine reports whether Chrome opened the connection. A connection of which the system
// does not tell counts as Chrome's.
func (p *Proxy) mine(c net.Conn) bool {
	select {
	case <-p.known:
	case <-p.stopped.Done():
		return false
	}
	from, err1 := netip.ParseAddrPort(c.RemoteAddr().String())
	to, err2 := netip.ParseAddrPort(c.LocalAddr().String())
	if p.process == nil || err1 != nil || err2 != nil {
		return p.process == nil
	}
	ok, err := p.process.Owns(from, to)
	return ok || err != nil
}

// Addr is where Chrome finds the proxy, "host:port" on loopback.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and every connection through it. Idempotent; a lane that
// is attached has none.
func (p *Proxy) Close() {
	if p == nil {
		return
	}
	p.rules.serve(p, false)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.server.Close()
	p.cut()
	p.transport.CloseIdleConnections()
	p.served.Wait()
}

type failed struct {
	why error
	at  time.Time
}

// Failure returns why the latest connection to a web address failed, nil if it
// did not, or not since then. The error is one of url_blocked and navigation_failed,
// or what the owner's rules have against a file.
func (p *Proxy) Failure(raw string, since time.Time) error {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, ok := p.failures[hostPort(u)]; ok && !f.at.Before(since) {
		return f.why
	}
	return nil
}

// Refuses returns why a web address that was just asked for does not open: by what came of
// it, else by what will.
func (p *Proxy) Refuses(ctx context.Context, raw string, since time.Time) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	if err := p.Failure(raw, since); err != nil || p.files != nil && inFiles(u.Hostname()) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	if err = p.rules.checkHost(u.Hostname(), portOf(u), p.granted()); err == nil {
		_, err = p.rules.resolve(ctx, u.Hostname(), portOf(u))
	}
	if capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
		return nil
	}
	return err
}

func (p *Proxy) note(target string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.failures, target)
		return
	}
	if _, known := p.failures[target]; !known && len(p.failures) >= maxFailures {
		for other := range p.failures { // any: what is asked for is the newest
			delete(p.failures, other)
			break
		}
	}
	p.failures[target] = failed{err, time.Now()}
}

// dialChecked is the one place that connects anywhere.
func (p *Proxy) dialChecked(ctx context.Context, _, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	key := hostPort(&url.URL{Host: target})
	var addrs []netip.Addr
	if err = p.rules.checkHost(host, port, p.granted()); err == nil {
		addrs, err = p.rules.resolve(ctx, host, port)
	}
	if err == nil {
		var conn net.Conn
		if conn, err = dialAny(ctx, addrs, port); err == nil {
			p.note(key, nil)
			p.onHost(host)
			return conn, nil
		}
		err = capabilities.Wrap(capabilities.CodeNavigationFailed, err, fmt.Sprintf("The server %.260s does not answer.", key))
	}
	p.note(key, err)
	return nil, err
}

// dialAny tries the checked addresses in turn.
func dialAny(ctx context.Context, addrs []netip.Addr, port string) (conn net.Conn, err error) {
	d := net.Dialer{Timeout: 8 * time.Second}
	for _, addr := range addrs {
		if conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// serve handles one request of Chrome: a tunnel for https and sockets, or a
// plain http request with an absolute address.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect && p.rules.Held() {
		http.Error(w, "", http.StatusServiceUnavailable)
		return
	}
	r, done, ok := p.admit(r)
	if !ok {
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	defer done()
	switch {
	case r.Method != http.MethodConnect && p.files != nil && r.URL.Scheme == "http" && inFiles(r.URL.Host):
		err := p.files(w, r)
		if p.note(hostPort(r.URL), err); err != nil {
			panic(http.ErrAbortHandler) // see forward
		}
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		p.forward(w, r)
	default:
		http.Error(w, "this is the egress proxy of a browser", http.StatusBadRequest)
	}
}

// admit waits until requests may leave. The request that it returns ends with the next cut.
func (p *Proxy) admit(r *http.Request) (*http.Request, func(), bool) {
	for p.rules.gate.pass(r.Context()) {
		p.mu.Lock()
		flowing, shut := p.flowing, p.closed || p.offline
		held := p.rules.Held() // asked under the lock that a cut takes after the gate is shut
		p.mu.Unlock()
		switch {
		case shut:
			return nil, nil, false
		case held:
			continue
		}
		ctx, cancel := context.WithCancel(r.Context())
		unbind := context.AfterFunc(flowing, cancel)
		return r.WithContext(ctx), func() { unbind(); cancel() }, true
	}
	return nil, nil, false
}

// cut ends every request and tunnel that is open.
func (p *Proxy) cut() {
	p.mu.Lock()
	p.end()
	p.flowing, p.end = context.WithCancel(p.stopped)
	for c := range p.tunnels {
		c.Close()
	}
	p.mu.Unlock()
	p.transport.CloseIdleConnections()
}

// hopHeaders concern one connection only (RFC 9110, 7.6.1).
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding",
	"Upgrade",
}

func (p *Proxy) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	// Connections are used again, so the host is looked at for each request.
	err := p.rules.checkHost(r.URL.Hostname(), portOf(r.URL), p.granted())
	var res *http.Response
	if err != nil {
		p.note(hostPort(r.URL), err)
	} else {
		res, err = p.transport.RoundTrip(out)
	}
	if err != nil {
		// A reply would look like the site's own page. Dropping the connection makes
		// Chrome report a network error, and the note says which.
		panic(http.ErrAbortHandler)
	}
	relay(w, res)
}

// relay passes an answer on as it comes.
func relay(w http.ResponseWriter, res *http.Response) {
	defer res.Body.Close()
	for _, name := range hopHeaders {
		res.Header.Del(name)
	}
	header := w.Header()
	for name, values := range res.Header {
		header[name] = values
	}
	w.WriteHeader(res.StatusCode)
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			_ = flush.Flush() // event streams must not wait for a full buffer
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a cut body must not look complete
		}
	}
}

func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	out, err := p.dialChecked(r.Context(), "tcp", r.Host)
	if err != nil {
		status := http.StatusBadGateway
		if errors.Is(err, &capabilities.Error{Code: capabilities.CodeURLBlocked}) {
			status = http.StatusForbidden
		}
		http.Error(w, "", status)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	if !p.track(r.Host, in, out) {
		return
	}
	defer p.untrack(in, out)
	in.SetDeadline(time.Time{})
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	host, _, _ := net.SplitHostPort(r.Host) // it was dialled
	first := newBound(host, bufferedFirst(buffered.Reader, in), func(name string) error {
		err := capabilities.Errorf(capabilities.CodeURLBlocked, "%.260s may not be reached: %s.", cmp.Or(name, host), otherName(r.Host, name))
		p.note(hostPort(&url.URL{Host: r.Host}), err)
		_ = out.Close() // and so both directions end
		return err
	})
	var both sync.WaitGroup
	both.Go(func() { pass(out, first) })
	both.Go(func() { pass(in, out) })
	both.Wait()
}

// bufferedFirst reads what the server read ahead, then the connection itself,
// which can then be spliced.
func bufferedFirst(br *bufio.Reader, in net.Conn) io.Reader {
	if n := br.Buffered(); n > 0 {
		ahead, _ := br.Peek(n)
		return io.MultiReader(bytes.NewReader(ahead), in)
	}
	return in
}

// pass copies one direction and then says so to the other side.
func pass(to net.Conn, from io.Reader) {
	io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	} else {
		to.Close()
	}
}

func (p *Proxy) track(target string, conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.tunnels[c] = target
	}
	return !p.closed && !p.offline && !p.rules.Held()
}

// SetOffline shuts the way out, open connections too, or opens it again. Chrome's own emulation
// does not reach what a service worker asks for.
func (p *Proxy) SetOffline(offline bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.offline = offline
	p.mu.Unlock()
	if offline {
		p.cut()
	}
}

// Cut ends tunnels to hosts that are not granted any more.
func (p *Proxy) Cut() {
	granted := p.granted()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, target := range p.tunnels {
		if host, port, err := net.SplitHostPort(target); err != nil || p.rules.checkHost(host, port, granted) != nil {
			c.Close()
		}
	}
}

func (p *Proxy) untrack(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.tunnels, c)
	}
}
