package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// TransportOptions say how an HTTP client goes by a Way.
type TransportOptions struct {
	// Origin is where credentials go: its scheme, host and port, and nowhere else. Required
	// with Credentials.
	Origin *url.URL
	// Credentials puts them on a request to Origin, which is a copy; nil: there are none. It
	// is called for each request. Of an error the request is not made.
	Credentials func(*http.Request) error
	// MaxBytes bounds the body of an answer; default 16 MiB. An event stream has no such bound.
	MaxBytes int64
	// HeaderTimeout is how long an answer's header may take; default a minute.
	HeaderTimeout time.Duration
	// Once ends each connection with its answer: it was permitted one call. Default: they are kept
	// for further requests.
	Once bool
}

// Transport carries requests by a Way. It is an http.RoundTripper, safe for concurrent use. A
// redirect is a request of its own: it is checked as the first was, and gets no credentials
// unless it stays at their origin.
type Transport struct {
	opts TransportOptions
	to   *http.Transport
}

// Transport makes one; the caller ends it with CloseIdleConnections.
func (w *Way) Transport(o TransportOptions) *Transport {
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	if o.HeaderTimeout == 0 {
		o.HeaderTimeout = time.Minute
	}
	return &Transport{opts: o, to: &http.Transport{
		DialContext: w.dialHeld, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: o.HeaderTimeout,
		MaxIdleConns: 8, MaxIdleConnsPerHost: 4, MaxConnsPerHost: 32, IdleConnTimeout: 60 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true, DisableKeepAlives: o.Once,
	}}
}

// dialHeld is Dial whose connection ends when the way is held: one that waits in a pool, or in
// which an event stream is open, would go on past the gate.
func (w *Way) dialHeld(ctx context.Context, network, target string) (net.Conn, error) {
	conn, err := w.Dial(ctx, network, target)
	if err != nil {
		return nil, err
	}
	c := &heldConn{Conn: conn, way: w}
	w.serve(c, true)
	if w.gate.shut() { // since Dial passed it
		c.cut()
	}
	return c, nil
}

type heldConn struct {
	net.Conn
	way *Way
}

func (c *heldConn) cut() { _ = c.Conn.Close() }

func (c *heldConn) Close() error {
	c.way.serve(c, false)
	return c.Conn.Close()
}

// RoundTrip carries one request. An answer whose body is longer than MaxBytes ends with an
// error of CodeResultTooLarge where the bound is.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.opts.Credentials != nil && SameOrigin(t.opts.Origin, r.URL) {
		r = r.Clone(r.Context())
		if err := t.opts.Credentials(r); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := t.to.RoundTrip(traced(r))
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") &&
		resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: t.opts.MaxBytes}
	}
	return resp, err
}

// CloseIdleConnections ends connections that nobody uses.
func (t *Transport) CloseIdleConnections() { t.to.CloseIdleConnections() }

// SameOrigin reports whether two addresses have one scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a != nil && b != nil && strings.EqualFold(a.Scheme, b.Scheme) && hostPort(a) == hostPort(b)
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, errTooLong
	}
	return n, err
}

var errTooLong = capabilities.Errorf(capabilities.CodeResultTooLarge, "the answer is longer than what is taken")

// HostOf is how the host of a web address is named, with its port.
func HostOf(u *url.URL) string { return hostPort(u) }
