package egress

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// Told is the way of which each target ("host:port") is told that a connection was made to; told is
// safe for concurrent use.
func (w *Way) Told(told func(target string)) *Way {
	if w == nil {
		return nil
	}
	one := *w
	one.reached = told
	return &one
}

// Moved returns how much went to and came from each target ("host:port") since there is the way, by
// whomever: bytes, and one for each connection. Beyond 64 targets the further ones are one.
func (w *Way) Moved() map[string]uint64 {
	if w == nil {
		return nil
	}
	w.moved.mu.Lock()
	defer w.moved.mu.Unlock()
	all := make(map[string]uint64, len(w.moved.by))
	for target, n := range w.moved.by {
		all[target] = n.Load()
	}
	return all
}

// moved counts what passes by target.
type moved struct {
	mu sync.Mutex // above what follows
	by map[string]*atomic.Uint64
}

// maxMoved bounds the targets that are told apart, and moreHosts stands for those beyond it.
const (
	maxMoved  = 64
	moreHosts = "other hosts"
)

// count is a new connection to a target, of which each byte is counted.
func (m *moved) count(c net.Conn, target string) net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[string]*atomic.Uint64{}
	}
	if m.by[target] == nil && len(m.by) >= maxMoved {
		target = moreHosts
	}
	n := m.by[target]
	if n == nil {
		n = new(atomic.Uint64)
		m.by[target] = n
	}
	n.Add(1)
	return &movedConn{c, n}
}

// movedConn is a connection whose bytes are counted.
type movedConn struct {
	net.Conn
	n *atomic.Uint64
}

func (c *movedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(uint64(max(0, n)))
	return n, err
}

func (c *movedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n.Add(uint64(max(0, n)))
	return n, err
}

// CloseWrite ends one direction.
func (c *movedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

type toldKey struct{}

// WithTold returns a context of whose requests by a Transport each is told with its target
// ("host:port"), once it has a connection: a new one, or one that an earlier request left. told is
// safe for concurrent use.
func WithTold(ctx context.Context, told func(target string)) context.Context {
	return context.WithValue(ctx, toldKey{}, told)
}

// traced has a request told as WithTold says.
func traced(r *http.Request) *http.Request {
	told, _ := r.Context().Value(toldKey{}).(func(string))
	if told == nil {
		return r
	}
	target := HostOf(r.URL)
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { told(target) },
	}))
}
