package chaos

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Weather is what a relay does to what it passes on.
type Weather struct {
	Cut   int           // of 100: senders whose packets are swallowed, both ways
	Loss  int           // of 100: packets
	Delay time.Duration // of each packet, at most
}

// Relay passes packets of UDP on to one address, as its weather has it. Its senders are the devices
// of a gateway.
type Relay struct {
	front  net.PacketConn
	target *net.UDPAddr
	wg     sync.WaitGroup

	mu      sync.Mutex
	weather Weather
	closed  bool
	rng     *rand.Rand
	peers   map[string]*net.UDPConn
}

// NewRelay makes one at a free port of loopback, to a target. Close ends it.
func NewRelay(target string, seed uint64) (*Relay, error) {
	addr, err := net.ResolveUDPAddr("udp", target)
	if err != nil {
		return nil, err
	}
	front, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{front: front, target: addr, rng: rand.New(rand.NewPCG(seed, 1)), peers: map[string]*net.UDPConn{}}
	r.wg.Go(r.forward)
	return r, nil
}

// Addr is where it listens.
func (r *Relay) Addr() string { return r.front.LocalAddr().String() }

// Set changes its weather.
func (r *Relay) Set(w Weather) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weather = w
}

// Close ends it.
func (r *Relay) Close() {
	_ = r.front.Close()
	r.mu.Lock()
	r.closed = true
	for _, c := range r.peers {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

// passes says whether a packet of a sender goes on, and when.
func (r *Relay) passes(sender string) (after time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.weather
	if w.Cut > 0 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(sender))
		if int(h.Sum32()%100) < w.Cut {
			return 0, false
		}
	}
	if w.Loss > 0 && r.rng.IntN(100) < w.Loss {
		return 0, false
	}
	if w.Delay > 0 {
		after = below(r.rng, w.Delay)
	}
	return after, true
}

// later sends at once or after a while, when it may have been closed.
func (r *Relay) later(after time.Duration, packet []byte, send func([]byte)) {
	if after == 0 {
		send(packet)
		return
	}
	kept := append([]byte(nil), packet...)
	time.AfterFunc(after, func() { send(kept) })
}

func (r *Relay) forward() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := r.front.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // what nobody took at a target that is down
		}
		back, err := r.peer(from)
		if err != nil {
			return
		}
		if after, ok := r.passes(from.String()); ok {
			r.later(after, buf[:n], func(b []byte) { _, _ = back.Write(b) })
		}
	}
}

// peer returns the connection by which a sender's packets go on.
func (r *Relay) peer(from net.Addr) (*net.UDPConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if back := r.peers[from.String()]; back != nil || r.closed {
		return back, closedIf(r.closed)
	}
	back, err := net.DialUDP("udp", nil, r.target)
	if err != nil {
		return nil, err
	}
	r.peers[from.String()] = back
	r.wg.Go(func() { r.backward(back, from) })
	return back, nil
}

func closedIf(closed bool) error {
	if closed {
		return net.ErrClosed
	}
	return nil
}

func (r *Relay) backward(back *net.UDPConn, to net.Addr) {
	buf := make([]byte, 64<<10)
	for {
		n, err := back.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if after, ok := r.passes(to.String()); ok {
			r.later(after, buf[:n], func(b []byte) { _, _ = r.front.WriteTo(b, to) })
		}
	}
}

// Way passes the connections to a socket of the database on, until it is cut: then it swallows
// what comes, and ends them once it is open again, as a network does that nobody could keep alive.
type Way struct {
	front  net.Listener
	target string
	wg     sync.WaitGroup

	mu     sync.Mutex
	cut    bool
	closed bool
	conns  map[net.Conn]bool
}

// NewWay makes one from a socket to another.
func NewWay(from, to string) (*Way, error) {
	l, err := net.Listen("unix", from)
	if err != nil {
		return nil, err
	}
	w := &Way{front: l, target: to, conns: map[net.Conn]bool{}}
	w.wg.Go(w.accept)
	return w, nil
}

// Set cuts it, or opens it again.
func (w *Way) Set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut && !cut {
		w.endAllLocked()
	}
	w.cut = cut
}

// Close ends it.
func (w *Way) Close() {
	_ = w.front.Close()
	w.mu.Lock()
	w.closed = true
	w.endAllLocked()
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *Way) endAllLocked() {
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *Way) accept() {
	for {
		near, err := w.front.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", w.target)
		if err != nil {
			_ = near.Close() // the database is down
			continue
		}
		w.mu.Lock()
		if w.closed {
			_, _ = near.Close(), far.Close()
		}
		w.conns[near], w.conns[far] = true, true
		w.mu.Unlock()
		w.wg.Go(func() { w.pass(near, far) })
		w.wg.Go(func() { w.pass(far, near) })
	}
}

func (w *Way) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// pass has one side's bytes reach the other. Of a side that ends in a cut the other hears nothing
// until the way is open.
func (w *Way) pass(from, to net.Conn) {
	cut := false
	defer func() {
		w.mu.Lock()
		delete(w.conns, from)
		w.mu.Unlock()
		_ = from.Close()
		if !cut {
			_ = to.Close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		cut = w.isCut()
		if n > 0 && !cut {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
