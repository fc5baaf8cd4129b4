package netsim

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/pairing"
)

// bothPorts is a relay of UDP and TCP at one address: UDP can be swallowed.
func bothPorts(t *testing.T, target string) (addr string, udp *proxy) {
	t.Helper()
	for range 20 {
		udp = newProxy(t, target)
		l, err := net.Listen("tcp", udp.addr())
		if err != nil {
			continue // somebody has that port
		}
		relayTo(t, l, target)
		return udp.addr(), udp
	}
	t.Fatal("no port is free for both")
	return "", nil
}

func someCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := pairing.NewKey()
	must(t, err)
	cert, err := pairing.SelfSigned(key, time.Now())
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// A node whose network drops UDP comes by TCP, at the same address, pairing included; when UDP
// works again it moves back, without a call cut off.
func TestUDPDropped(t *testing.T) {
	g := newGateway(t, nil)
	addr, udp := bothPorts(t, g.addr)
	udp.cut(true)
	started, release := make(chan struct{}, 1), make(chan struct{})
	n := newNode(t, func(ctx context.Context, tk *wire.Ticket, sink link.Sink) {
		if string(tk.Args) == `{"long":true}` {
			started <- struct{}{}
			<-release
		}
		answerEcho(ctx, tk, sink)
	})
	n.opts.Transports, n.opts.RetryQUIC = nil, 20*time.Millisecond
	_, paste := g.invite(invitation)
	paste.Addrs = []string{addr}
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	up := n.awaitState("connected", func(s link.State) bool { return s.Connected })
	if up.Over != tunnel.TCP || up.Addr != addr {
		t.Fatalf("connected by %s at %s", up.Over, up.Addr)
	}
	g.awaitConnected(n.id)
	if v, err := g.nodes.View(n.id); err != nil || v.Transport != tunnel.TCP {
		t.Fatalf("the roster says %q, %v", v.Transport, err)
	}
	long := make(chan error, 1)
	go func() { _, _, err := g.call(context.Background(), n.id, `{"long":true}`); long <- err }()
	<-started
	udp.cut(false)
	for range 5 { // calls go on by TCP meanwhile, whatever the node finds out
		_, _, err := g.call(context.Background(), n.id, `{}`)
		must(t, err)
	}
	close(release)
	must(t, <-long)
	n.awaitState("on QUIC again", func(s link.State) bool { return s.Connected && s.Over == tunnel.QUIC })
	g.await("on QUIC", func(views []nodes.View) bool {
		return len(views) == 1 && views[0].Connected && views[0].Transport == tunnel.QUIC
	})
	_, _, err := g.call(context.Background(), n.id, `{}`)
	must(t, err)
}

// Where both work, QUIC is taken.
func TestQUICFirst(t *testing.T) {
	g := newGateway(t, nil)
	n := newNode(t, answerEcho)
	n.opts.Transports = nil
	_, paste := g.invite(invitation)
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	if up := n.awaitState("connected", func(s link.State) bool { return s.Connected }); up.Over != tunnel.QUIC {
		t.Fatalf("connected by %s", up.Over)
	}
}

// connectProxy is an HTTP proxy that connects to whatever it is asked for, and counts.
func connectProxy(t *testing.T) (link.Proxy, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	asked := new(atomic.Int64)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") != "Basic YW5uOnMzY3JldA==" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		asked.Add(1)
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = far.Close()
			return
		}
		_, _ = io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() { _, _ = io.Copy(far, near); _, _ = far.Close(), near.Close() }()
		_, _ = io.Copy(near, far)
		_, _ = far.Close(), near.Close()
	})}
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	at, err := url.Parse("http://ann:s3cret@" + l.Addr().String())
	must(t, err)
	return http.ProxyURL(at), asked
}

// By a network whose only way out is an HTTP proxy, a node joins and works, by TLS of its own.
func TestHTTPProxy(t *testing.T) {
	for _, over := range []tunnel.Transport{tunnel.TCP, tunnel.WebSocket} {
		t.Run(string(over), func(t *testing.T) {
			by = over
			defer func() { by = tunnel.QUIC }()
			g := newGateway(t, nil)
			n := newNode(t, answerEcho)
			var asked *atomic.Int64
			n.opts.Proxy, asked = connectProxy(t)
			_, paste := g.invite(invitation)
			must(t, n.join(context.Background(), paste, nil))
			n.run()
			g.awaitConnected(n.id)
			_, _, err := g.call(context.Background(), n.id, `{}`)
			must(t, err)
			if asked.Load() < 2 {
				t.Fatalf("the proxy was asked %d times", asked.Load())
			}
		})
	}
}

// A reverse proxy that ends TLS carries a node's stream and is no man in the middle: what it passes
// is sealed between node and gateway, and a gateway of another site is refused behind it.
func TestReverseProxy(t *testing.T) {
	by = tunnel.WebSocket
	defer func() { by = tunnel.QUIC }()
	g, other := newGateway(t, nil), newGateway(t, nil)
	var target atomic.Pointer[url.URL]
	front := httpsProxy(t, &target)
	point := func(to *gateway) {
		u, err := url.Parse("http://" + to.door)
		must(t, err)
		target.Store(u)
	}
	point(g)
	_, paste := g.invite(invitation)
	paste.Addrs = []string{front}
	n := newNode(t, answerEcho)
	must(t, n.join(context.Background(), paste, nil))
	n.run()
	g.awaitConnected(n.id)
	_, _, err := g.call(context.Background(), n.id, `{}`)
	must(t, err)

	point(other)
	_, paste = g.invite(invitation)
	paste.Addrs = []string{front}
	wantCode(t, newNode(t, answerEcho).join(context.Background(), paste, nil), capabilities.CodeSiteMismatch)
	if len(other.nodes.Views()) != 0 {
		t.Error("the other site took it in")
	}
}

func httpsProxy(t *testing.T, target *atomic.Pointer[url.URL]) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{
		Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()); r.Out.Host = target.Load().Host }},
		// Any certificate will do: the node's trust is in its pin.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{someCertificate(t)}},
	}
	done := make(chan struct{})
	go func() { _ = server.ServeTLS(l, "", ""); close(done) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "https://" + l.Addr().String()
}

// Strangers at the TCP port: one that says nothing, one that sends garbage, one with no
// certificate, and one whose TLS ends and then says nothing are closed, and nodes come meanwhile.
func TestStrangersAtTheTCPPort(t *testing.T) {
	by = tunnel.TCP
	defer func() { by = tunnel.QUIC }()
	g := newGateway(t, func(o *nodes.Options) { o.MaxUnknown = 8 })
	dial := func() net.Conn {
		c, err := net.Dial("tcp", g.addr)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	closed := func(what string, c net.Conn) {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); err != nil {
			if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Errorf("%s: stayed open", what)
			}
		}
	}
	garbage := dial()
	_, err := io.WriteString(garbage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	closed("garbage", garbage)

	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{wire.ALPNStream}, MinVersion: tls.VersionTLS13}
	bare := tls.Client(dial(), conf)
	_ = bare.Handshake() // the client's half ends before the gateway asks for a certificate
	closed("no certificate", bare)

	named := conf.Clone()
	named.Certificates = []tls.Certificate{someCertificate(t)}
	stranger := tls.Client(dial(), named)
	must(t, stranger.Handshake())
	_, err = stranger.Write([]byte("\xff\xffgarbage"))
	must(t, err)
	closed("garbage within", stranger)

	other := named.Clone()
	other.NextProtos = []string{"h2"}
	wrong := tls.Client(dial(), other)
	_ = wrong.Handshake()
	closed("another protocol", wrong)

	var silent []net.Conn
	for range 40 { // five times what may be nobody's at once
		silent = append(silent, dial())
	}
	n := g.pair(answerEcho) // comes in all the same
	_, _, err = g.call(context.Background(), n.id, `{}`)
	must(t, err)
	for _, c := range silent {
		closed("silence", c)
	}
}

// Where HTTPS has the TCP port of the same number, nodes come by it, and browsers as ever.
func TestOnePort(t *testing.T) {
	g := newGateway(t, func(o *nodes.Options) { o.NoTCP = true })
	dir := t.TempDir()
	cert, err := front.GeneratedCertificate(filepath.Join(dir, "http.crt"), filepath.Join(dir, "http.key"), nil, nil)
	must(t, err)
	https, err := front.New(front.Options{Addr: g.addr, Tokens: noTokens{}, Certificate: cert, Nodes: g.nodes, Log: logger(t)})
	must(t, err)
	if err := https.Listen(); err != nil {
		t.Skip("the TCP port is another's:", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- https.Run(ctx) }()
	defer func() {
		g.stop()
		cancel()
		must(t, <-done)
	}()
	by = tunnel.TCP
	defer func() { by = tunnel.QUIC }()
	n := g.pair(answerEcho)
	if v, err := g.nodes.View(n.id); err != nil || v.Transport != tunnel.TCP {
		t.Fatalf("the roster says %q, %v", v.Transport, err)
	}
	_, _, err = g.call(context.Background(), n.id, `{}`)
	must(t, err)
	for _, h2 := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2}
		answer, err := (&http.Client{Transport: transport}).Get("https://" + g.addr + "/")
		must(t, err)
		if answer.StatusCode != http.StatusNotFound || (answer.ProtoMajor == 2) != h2 {
			t.Errorf("%s %s", answer.Proto, answer.Status)
		}
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
	}
	n.stop()
}

// A node keeps the gateways that one of them names, over a restart, and goes to another when its
// own is gone.
func TestAnotherGateway(t *testing.T) {
	var other atomic.Value
	other.Store("192.0.2.1:1")
	g := newGateway(t, func(o *nodes.Options) { o.Others = func() [][]string { return [][]string{{other.Load().(string)}} } })
	way := newProxy(t, g.addr) // stands for another gateway: the same site answers there
	second := way.addr()
	other.Store(second)
	n := g.pair(answerEcho)
	n.stop()
	id, err := link.LoadIdentity(n.dir)
	must(t, err)
	if len(id.Gateways) != 2 || id.Gateways[1][0] != second {
		t.Fatalf("kept %v", id.Gateways)
	}
	// Its own address is nobody's now; it comes by the other.
	dead := newProxy(t, g.addr)
	dead.cut(true)
	g.stop()
	g.start()
	n.opts.Addrs = []string{dead.addr(), second}
	n.run()
	up := n.awaitState("connected", func(s link.State) bool { return s.Connected })
	if up.Addr != second {
		t.Fatalf("connected at %s", up.Addr)
	}
}

// A request at the path of nodes for anything but a WebSocket is answered, and so is the rest of
// the port.
func TestBrowsersAtTheNodesPath(t *testing.T) {
	by = tunnel.WebSocket
	defer func() { by = tunnel.QUIC }()
	g := newGateway(t, nil)
	c, err := net.Dial("tcp", g.door)
	must(t, err)
	defer c.Close()
	for _, ask := range []string{
		"GET " + wire.StreamPath + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		_, err := io.WriteString(c, ask)
		must(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		if answer.StatusCode != http.StatusUpgradeRequired && answer.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %s", ask, answer.Status)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.Close {
			c, err = net.Dial("tcp", g.door)
			must(t, err)
			defer c.Close()
		}
	}
}
