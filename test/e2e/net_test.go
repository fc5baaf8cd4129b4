package e2e

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// way is a UDP relay between a node and its gateway that can be cut.
type way struct {
	front  *net.UDPConn
	target *net.UDPAddr

	mu    sync.Mutex
	shut  bool
	peers map[string]*net.UDPConn
	wg    sync.WaitGroup
}

func newWay(t *testing.T, target string) *way {
	t.Helper()
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	addr, err := net.ResolveUDPAddr("udp", target)
	must(t, err)
	w := &way{front: front, target: addr, peers: map[string]*net.UDPConn{}}
	w.wg.Go(w.forward)
	t.Cleanup(func() {
		_ = front.Close()
		w.mu.Lock()
		for _, c := range w.peers {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.wg.Wait()
	})
	return w
}

func (w *way) addr() string { return w.front.LocalAddr().String() }

func (w *way) cut(shut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
}

func (w *way) isShut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shut
}

func (w *way) forward() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := w.front.ReadFromUDP(buf)
		if err != nil {
			return
		}
		back, err := w.peer(from)
		if err != nil {
			return
		}
		if !w.isShut() {
			_, _ = back.Write(buf[:n])
		}
	}
}

func (w *way) peer(from *net.UDPAddr) (*net.UDPConn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.peers[from.String()]; c != nil {
		return c, nil
	}
	c, err := net.DialUDP("udp", nil, w.target)
	if err != nil {
		return nil, err
	}
	w.peers[from.String()] = c
	w.wg.Go(func() { w.backward(c, from) })
	return c, nil
}

func (w *way) backward(c *net.UDPConn, to *net.UDPAddr) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // the gateway's port is shut for a moment
		}
		if !w.isShut() {
			_, _ = w.front.WriteToUDP(buf[:n], to)
		}
	}
}
