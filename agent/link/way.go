package link

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

const (
	streamTimeout = 10 * time.Second // a stream's beginnings take more turns than QUIC's
	// tcpAfter and webSocketAfter are how long after QUIC an address is tried by others, so that
	// QUIC is taken wherever it works. A way that worked the last time waits for readyAfter alone.
	tcpAfter       = 500 * time.Millisecond
	webSocketAfter = 1200 * time.Millisecond
	readyAfter     = 50 * time.Millisecond
	// streamBuffer bounds what the system keeps of what goes to the gateway: what is said now waits
	// behind that.
	streamBuffer = 256 << 10
)

// way is one of the ways to an address.
type way struct {
	over  tunnel.Transport
	addr  string        // host:port, or of a WebSocket an address such as https://handrail.example
	after time.Duration // when it is tried
}

// Proxy returns the HTTP proxy by which an address is reached, as http.Transport asks; nil: none.
type Proxy func(*http.Request) (*url.URL, error)

// dialer connects, and remembers which transport worked. It is used by one goroutine.
type dialer struct {
	proxy Proxy
	only  []tunnel.Transport // nil: all
	last  tunnel.Transport   // "": none yet
}

func newDialer(p Proxy, only []tunnel.Transport) *dialer {
	if p == nil {
		p = http.ProxyFromEnvironment
	}
	return &dialer{proxy: p, only: only}
}

// ways returns the ways to the addresses and when each is tried.
func (d *dialer) ways(addrs []string) []way {
	tcp, web := tcpAfter, webSocketAfter
	switch d.last {
	case tunnel.TCP:
		tcp = readyAfter
	case tunnel.WebSocket:
		web = readyAfter
	}
	var all []way
	for i, addr := range addrs {
		turn := time.Duration(i) * dialStagger
		if isURL(addr) {
			all = append(all, way{tunnel.WebSocket, addr, web + turn})
			continue
		}
		all = append(all, way{tunnel.QUIC, addr, turn}, way{tunnel.TCP, addr, tcp + turn})
	}
	if d.only != nil {
		all = slices.DeleteFunc(all, func(w way) bool { return !slices.Contains(d.only, w.over) })
	}
	if len(all) > 0 { // where there is nothing to wait for
		first := slices.MinFunc(all, func(a, b way) int { return cmp.Compare(a.after, b.after) }).after
		for i := range all {
			all[i].after -= first
		}
	}
	return all
}

func isURL(addr string) bool { return strings.Contains(addr, "://") }

// reached returns the host that a connection reached: its address, or by a stream, which may go
// by a proxy, what was asked for.
func (p *path) reached() string {
	addr := p.addr
	if p.over == tunnel.QUIC {
		addr = p.RemoteAddr().String()
	}
	if u, err := url.Parse(addr); err == nil && isURL(addr) {
		return u.Hostname()
	}
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// addrs returns where the gateways are, in the order to try. Of Run's goroutine.
func (l *Link) addrs() []string { return places(l.id.Node, l.id.Gateways, l.id.Addrs) }

// caller returns who this node is when it connects. Of Run's goroutine.
func (l *Link) caller() caller { return caller{site: l.id.Site, key: l.id.Key, cert: l.id.Cert} }

// awaitQUIC tries from time to time whether one of the addresses answers by QUIC, until one does or
// ctx ends.
func (l *Link) awaitQUIC(ctx context.Context, addrs []string, who caller) bool {
	d := newDialer(l.opts.Proxy, l.opts.Transports)
	for {
		// Nodes that one failure drove to streams do not all come back at once.
		wait := l.opts.RetryQUIC/2 + rand.N(l.opts.RetryQUIC)
		if capabilities.Sleep(ctx, wait) != nil {
			return false
		}
		for _, w := range d.ways(addrs) {
			if w.over != tunnel.QUIC {
				continue
			}
			if p, err := d.try(ctx, w, who); err == nil {
				p.close(wire.CloseDone)
				l.log.Info("node.quic_again", "addr", w.addr)
				return true
			}
		}
	}
}

// tryStream connects by a stream.
func (d *dialer) tryStream(ctx context.Context, w way, who caller) (*path, error) {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	var refused mismatch
	stream, err := d.stream(ctx, w, who, &refused)
	if err != nil {
		return nil, cmp.Or(refused.err(), err)
	}
	peer, _ := netip.ParseAddrPort(stream.RemoteAddr().String())
	addr := &tunnel.Addr{Over: w.over, Peer: peer}
	hub := tunnel.NewHub()
	run := hub.Attach(stream, addr)
	transport := &quic.Transport{Conn: hub}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run()
		_ = hub.Close() // ends the transport, and with it the connection, at once
	}()
	gone := make(chan struct{})
	leave := func() {
		defer close(gone)
		hub.Finish(addr)
		<-ended
		_ = transport.Close()
	}
	conf := who.quic()
	conf.InitialPacketSize, conf.DisablePathMTUDiscovery = tunnel.MaxPacket, true
	conn, err := transport.Dial(ctx, addr, who.tls(wire.ALPN, &refused), conf)
	if err != nil {
		leave()
		return nil, cmp.Or(refused.err(), err)
	}
	context.AfterFunc(conn.Context(), leave)
	return &path{Conn: conn, way: w, gone: gone}, nil
}

// stream opens the stream of a way.
func (d *dialer) stream(ctx context.Context, w way, who caller, refused *mismatch) (net.Conn, error) {
	if w.over == tunnel.WebSocket {
		return d.webSocket(ctx, w.addr)
	}
	raw, err := d.connect(ctx, "tcp", w.addr)
	if err != nil {
		return nil, err
	}
	sealed := tls.Client(raw, who.tls(wire.ALPNStream, refused))
	if err := sealed.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return sealed, nil
}

// webSocket opens a WebSocket at an HTTPS server. Whose it is does not matter: a proxy may end its
// TLS, and the node's own is within.
func (d *dialer) webSocket(ctx context.Context, base string) (net.Conn, error) {
	transport := &http.Transport{
		DialContext: d.connect, TLSHandshakeTimeout: streamTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
	}
	defer transport.CloseIdleConnections()
	conn, _, err := websocket.Dial(ctx, strings.TrimSuffix(base, "/")+wire.StreamPath, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		Subprotocols: []string{wire.ALPNStream},
	})
	if err != nil {
		return nil, err
	}
	if conn.Subprotocol() != wire.ALPNStream {
		_ = conn.CloseNow()
		return nil, fmt.Errorf("no gateway of Handrail answers at %s", base)
	}
	conn.SetReadLimit(wire.MaxStreamMessage)
	return &webStream{websocket.NetConn(context.Background(), conn, websocket.MessageBinary), conn}, nil
}

// webStream is a WebSocket as a stream. It closes without the handshake of its own, which may wait:
// a stream says its end itself.
type webStream struct {
	net.Conn
	socket *websocket.Conn
}

func (w *webStream) Close() error { return w.socket.CloseNow() }

// connect makes a TCP connection, by the proxy that is to be taken there.
func (d *dialer) connect(ctx context.Context, _, addr string) (net.Conn, error) {
	proxy, err := d.proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: addr}})
	if err != nil {
		return nil, err
	}
	to := addr
	if proxy != nil {
		to = proxy.Host
		if proxy.Port() == "" {
			to = net.JoinHostPort(proxy.Hostname(), map[string]string{"http": "80", "https": "443"}[proxy.Scheme])
		}
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(streamBuffer)
	}
	if proxy == nil {
		return raw, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	through, err := connectBy(ctx, raw, proxy, addr)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return through, nil
}

// maxProxyAnswer bounds the head of a proxy's answer.
const maxProxyAnswer = 16 << 10

// connectBy has an HTTP proxy connect to an address (RFC 9110 section 9.3.6).
func connectBy(ctx context.Context, conn net.Conn, proxy *url.URL, addr string) (net.Conn, error) {
	switch proxy.Scheme {
	case "http":
	case "https":
		sealed := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: proxy.Hostname()})
		if err := sealed.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = sealed
	default:
		return nil, fmt.Errorf("the proxy %s is neither http nor https", proxy.Redacted())
	}
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		ask.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := ask.Write(conn); err != nil {
		return nil, err
	}
	limited := &bounded{conn: conn, left: maxProxyAnswer}
	r := bufio.NewReaderSize(limited, 1) // nothing of what follows the answer is taken
	answer, err := http.ReadResponse(r, ask)
	if err != nil {
		return nil, fmt.Errorf("the proxy %s does not speak HTTP: %w", proxy.Redacted(), err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy %s connects to %s for nobody: %.100q", proxy.Redacted(), addr, answer.Status)
	}
	if r.Buffered() > 0 {
		return nil, fmt.Errorf("the proxy %s answers for %s itself", proxy.Redacted(), addr)
	}
	return conn, nil
}

// bounded reads at most so many bytes.
type bounded struct {
	conn net.Conn
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, http.ErrContentLength
	}
	n, err := b.conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
