package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// egress is a lane's only way to the network: an HTTP proxy on a loopback port
// that Chrome uses for everything (documents, frames, workers, sockets). It
// resolves each name once, checks every address and dials the one it checked.
// Connections of other local processes are dropped, where the system tells whose
// they are: what the owner opens for the browser is for the browser only.
type egress struct {
	rules     *egressRules
	log       *slog.Logger
	onHost    func(host string)
	granted   func() domains // what the lane's latest call was granted
	listener  net.Listener
	server    *http.Server
	transport *http.Transport
	served    sync.WaitGroup
	stop      context.CancelFunc
	stopped   context.Context

	known   chan struct{} // closed once process is set
	process platform.Process

	mu       sync.Mutex
	failures map[string]failed   // by "host:port": why and when the latest connection failed
	tunnels  map[net.Conn]string // open tunnels, both ends, by "host:port"
	closed   bool
}

// maxFailures bounds what is remembered of a page that tries many hosts.
const maxFailures = 256

// newEgress opens the port and serves until close.
func newEgress(rules *egressRules, log *slog.Logger, onHost func(host string), granted func() domains) (*egress, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &egress{known: make(chan struct{}), rules: rules, log: log, onHost: onHost, granted: granted, listener: listener, failures: map[string]failed{}, tunnels: map[net.Conn]string{}}
	e.stopped, e.stop = context.WithCancel(context.Background())
	e.transport = &http.Transport{
		DialContext: e.dialChecked, DisableCompression: true,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 60 * time.Second, ResponseHeaderTimeout: 5 * time.Minute,
	}
	e.server = &http.Server{
		Handler: http.HandlerFunc(e.serve), ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 256 << 10,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return e.stopped },
	}
	e.served.Go(func() { e.server.Serve(guarded{listener, e}) })
	return e, nil
}

// use says which process the proxy is for; connections wait for that.
func (e *egress) use(p platform.Process) {
	e.process = p
	close(e.known)
}

// guarded passes on connections of the proxy's own Chrome only.
type guarded struct {
	net.Listener
	e *egress
}

func (g guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.e.mine(c) {
			return c, nil
		}
		g.e.log.Warn("browser.egress.stranger", "from", c.RemoteAddr())
		c.Close()
	}
}

// mine reports whether Chrome opened the connection. What the system does not
// tell is not held against it.
func (e *egress) mine(c net.Conn) bool {
	select {
	case <-e.known:
	case <-e.stopped.Done():
		return false
	}
	from, err1 := netip.ParseAddrPort(c.RemoteAddr().String())
	to, err2 := netip.ParseAddrPort(c.LocalAddr().String())
	if e.process == nil || err1 != nil || err2 != nil {
		return e.process == nil
	}
	ok, err := e.process.Owns(from, to)
	return ok || err != nil
}

func (e *egress) addr() string { return e.listener.Addr().String() }

// close ends the proxy and every connection through it. Idempotent; a lane that
// is attached has none.
func (e *egress) close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.closed = true
	tunnels := e.tunnels
	e.tunnels = map[net.Conn]string{}
	e.mu.Unlock()
	e.stop()
	e.server.Close()
	for c := range tunnels {
		c.Close()
	}
	e.transport.CloseIdleConnections()
	e.served.Wait()
}

type failed struct {
	why error
	at  time.Time
}

// failure gives why the latest connection to a web address failed, nil if it
// did not, or not since then.
func (e *egress) failure(raw string, since time.Time) error {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.failures[hostPort(u)]; ok && !f.at.Before(since) {
		return f.why
	}
	return nil
}

// refuses gives why a web address that was just asked for does not open: by what came of
// it, else by what will.
func (e *egress) refuses(ctx context.Context, raw string, since time.Time) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil
	}
	if err := e.failure(raw, since); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	if err = e.rules.checkHost(u.Hostname(), portOf(u), e.granted()); err == nil {
		_, err = e.rules.resolve(ctx, u.Hostname(), portOf(u))
	}
	if !isCode(err, capabilities.CodeURLBlocked) {
		return nil
	}
	return err
}

func (e *egress) note(target string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		delete(e.failures, target)
		return
	}
	if _, known := e.failures[target]; !known && len(e.failures) >= maxFailures {
		for other := range e.failures { // any: what is asked for is the newest
			delete(e.failures, other)
			break
		}
	}
	e.failures[target] = failed{err, time.Now()}
}

// dialChecked is the one place that connects anywhere.
func (e *egress) dialChecked(ctx context.Context, _, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	key := hostPort(&url.URL{Host: target})
	var addrs []netip.Addr
	if err = e.rules.checkHost(host, port, e.granted()); err == nil {
		addrs, err = e.rules.resolve(ctx, host, port)
	}
	if err == nil {
		var conn net.Conn
		if conn, err = dialAny(ctx, addrs, port); err == nil {
			e.note(key, nil)
			e.onHost(host)
			return conn, nil
		}
		err = capabilities.Wrap(capabilities.CodeNavigationFailed, err, "The server "+clip(key, 260)+" does not answer.")
	}
	e.note(key, err)
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
func (e *egress) serve(w http.ResponseWriter, r *http.Request) {
	if !e.rules.gate.pass(r.Context()) {
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	switch {
	case r.Method == http.MethodConnect:
		e.tunnel(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		e.forward(w, r)
	default:
		http.Error(w, "this is the egress proxy of a browser", http.StatusBadRequest)
	}
}

// hopHeaders concern one connection only (RFC 9110, 7.6.1).
var hopHeaders = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func (e *egress) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	// Connections are used again, so the host is looked at for each request.
	err := e.rules.checkHost(r.URL.Hostname(), portOf(r.URL), e.granted())
	var res *http.Response
	if err != nil {
		e.note(hostPort(r.URL), err)
	} else {
		res, err = e.transport.RoundTrip(out)
	}
	if err != nil {
		// A reply would look like the site's own page. Dropping the connection makes
		// Chrome report a network error, and the note says which.
		panic(http.ErrAbortHandler)
	}
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
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			flush.Flush() // event streams must not wait for a full buffer
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a cut body must not look complete
		}
	}
}

func (e *egress) tunnel(w http.ResponseWriter, r *http.Request) {
	out, err := e.dialChecked(r.Context(), "tcp", r.Host)
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
	if !e.track(r.Host, in, out) {
		return
	}
	defer e.untrack(in, out)
	in.SetDeadline(time.Time{})
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(out, bufferedFirst(buffered.Reader, in)) })
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

func (e *egress) track(target string, conns ...net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range conns {
		e.tunnels[c] = target
	}
	return !e.closed
}

// cut ends tunnels to hosts that are not granted any more.
func (e *egress) cut() {
	granted := e.granted()
	e.mu.Lock()
	defer e.mu.Unlock()
	for c, target := range e.tunnels {
		if host, port, err := net.SplitHostPort(target); err != nil || e.rules.checkHost(host, port, granted) != nil {
			c.Close()
		}
	}
}

func (e *egress) untrack(conns ...net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range conns {
		delete(e.tunnels, c)
	}
}
