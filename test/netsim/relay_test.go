package netsim

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// relay is a way to a gateway that can swallow everything.
type relay interface {
	addr() string
	cut(dead bool)
}

// proxy is a UDP relay that can swallow everything.
type proxy struct {
	t      testing.TB
	front  net.PacketConn
	target *net.UDPAddr

	mu    sync.Mutex
	dead  bool
	peers map[string]*net.UDPConn
	wg    sync.WaitGroup
}

func newProxy(t testing.TB, target string) *proxy {
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	addr, err := net.ResolveUDPAddr("udp", target)
	must(t, err)
	p := &proxy{t: t, front: front, target: addr, peers: map[string]*net.UDPConn{}}
	p.wg.Go(p.forward)
	t.Cleanup(func() {
		_ = front.Close()
		p.mu.Lock()
		for _, c := range p.peers {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.front.LocalAddr().String() }

func (p *proxy) cut(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

func (p *proxy) forward() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := p.front.ReadFrom(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		back := p.peers[from.String()]
		if back == nil {
			if back, err = net.DialUDP("udp", nil, p.target); err != nil {
				p.mu.Unlock()
				return
			}
			p.peers[from.String()] = back
			p.wg.Go(func() { p.backward(back, from) })
		}
		dead := p.dead
		p.mu.Unlock()
		if !dead {
			_, _ = back.Write(buf[:n])
		}
	}
}

func (p *proxy) backward(back *net.UDPConn, to net.Addr) {
	buf := make([]byte, 64<<10)
	for {
		n, err := back.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		p.mu.Lock()
		dead := p.dead
		p.mu.Unlock()
		if err == nil && !dead {
			_, _ = p.front.WriteTo(buf[:n], to)
		}
	}
}

// streamProxy is a relay of TCP. Bytes that it swallowed are lost, so a connection that was open in
// a cut ends when the way opens again, as one does that nobody could keep alive.
type streamProxy struct {
	t      testing.TB
	front  net.Listener
	target string

	mu    sync.Mutex
	dead  bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newStreamProxy(t testing.TB, target string) *streamProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return relayTo(t, l, target)
}

func relayTo(t testing.TB, l net.Listener, target string) *streamProxy {
	p := &streamProxy{t: t, front: l, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.closeAll()
		p.wg.Wait()
	})
	return p
}

func (p *streamProxy) addr() string { return p.front.Addr().String() }

func (p *streamProxy) cut(dead bool) {
	p.mu.Lock()
	was := p.dead
	p.dead = dead
	p.mu.Unlock()
	if was && !dead {
		p.closeAll()
	}
}

func (p *streamProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *streamProxy) accept() {
	for {
		near, err := p.front.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns[near], p.conns[far] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(near, far) })
		p.wg.Go(func() { p.pass(far, near) })
	}
}

func (p *streamProxy) pass(from, to net.Conn) {
	swallowed := false
	defer func() {
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
		_ = from.Close()
		if !swallowed { // else the far side hears of no end, until the way opens
			_ = to.Close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		dead := p.dead
		p.mu.Unlock()
		if n > 0 && !dead {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			swallowed = dead
			return
		}
	}
}
