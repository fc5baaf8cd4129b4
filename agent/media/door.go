package media

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pion/ice/v4"
)

// door is the one UDP port and the one TCP port that all viewers of this node come
// in by. It is open while there are any.
type door struct {
	port int // 0: whichever is free

	mu    sync.Mutex
	users int
	udp   *ice.MultiUDPMuxDefault
	tcp   ice.TCPMux
	hall  *hall // of tcp
}

// enter opens the door if it is closed.
func (d *door) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users == 0 {
		udp, err := d.listen()
		if err != nil {
			return err
		}
		d.udp = udp
		// Where UDP does not come through, TCP may. Without it there is still UDP.
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", d.port)); err == nil {
			d.hall = &hall{Listener: l, in: map[*guest]bool{}}
			d.tcp = ice.NewTCPMuxDefault(ice.TCPMuxParams{Listener: d.hall, ReadBufferSize: 32})
		}
	}
	d.users++
	return nil
}

// listen takes a port that is free on all addresses.
func (d *door) listen() (*ice.MultiUDPMuxDefault, error) {
	const tries = 8
	var last error
	for range tries {
		port := d.port
		if port == 0 {
			probe, err := net.ListenPacket("udp", ":0")
			if err != nil {
				return nil, err
			}
			port = probe.LocalAddr().(*net.UDPAddr).Port
			_ = probe.Close()
		}
		mux, err := ice.NewMultiUDPMuxFromPort(port, ice.UDPMuxFromPortWithLoopback())
		if err == nil {
			return mux, nil
		}
		last = err
		if d.port != 0 {
			break
		}
	}
	return nil, last
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	_ = d.udp.Close()
	if d.tcp != nil {
		d.hall.empty()
		_ = d.tcp.Close()
		d.tcp, d.hall = nil, nil
	}
}

// hall is a listener that can send all away who came in by it: pion's mux waits for
// those who have not said yet whose viewer they are, for half a minute.
type hall struct {
	net.Listener
	mu     sync.Mutex
	closed bool
	in     map[*guest]bool
}

// stalled is how long a viewer by TCP may take nothing.
const stalled = 2 * time.Second

// maxGuests bounds the TCP connections of the door; a viewer needs a few.
const maxGuests = 8 * maxViewers

// Accept lets the next one in, unless there are too many.
func (h *hall) Accept() (net.Conn, error) {
	for {
		c, err := h.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(outbox)
		}
		g := &guest{Conn: c, hall: h}
		h.mu.Lock()
		refused := h.closed || len(h.in) >= maxGuests
		if !refused {
			h.in[g] = true
		}
		h.mu.Unlock()
		if !refused {
			return g, nil
		}
		_ = c.Close()
	}
}

// empty closes the listener and all connections.
func (h *hall) empty() {
	_ = h.Listener.Close()
	h.mu.Lock()
	h.closed = true
	all := make([]*guest, 0, len(h.in))
	for g := range h.in {
		all = append(all, g)
	}
	h.mu.Unlock()
	for _, g := range all {
		_ = g.Close()
	}
}

// outbox is how much the system keeps of what a viewer by TCP does not take, in bytes:
// what lies there is old before it is seen.
const outbox = 128 << 10

// guest is a connection of the hall.
type guest struct {
	net.Conn
	hall *hall
}

// Write sends what the viewer takes in time. After a part of a packet there is nothing
// that could follow, so who takes nothing any more is sent away.
func (g *guest) Write(b []byte) (int, error) {
	_ = g.SetWriteDeadline(time.Now().Add(stalled))
	n, err := g.Conn.Write(b)
	if err != nil {
		_ = g.Close()
		err = fmt.Errorf("%w: %w", io.ErrClosedPipe, err) // the one that ICE passes on
	}
	return n, err
}

// Close closes it and forgets it.
func (g *guest) Close() error {
	g.hall.mu.Lock()
	delete(g.hall.in, g)
	g.hall.mu.Unlock()
	return g.Conn.Close()
}
