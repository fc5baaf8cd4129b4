package tunnel

import (
	"bufio"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// backlog is how much of a stream's bytes may wait for it.
	backlog = 64 << 10
	// patience is how long a packet waits for a stream that takes nothing before it is dropped,
	// as a network does. Nobody else's packets are behind it for longer.
	patience = 20 * time.Millisecond
	// writeTime is how long a stream may take none of the bytes that wait for it.
	writeTime = 10 * time.Second
	// lingerTime is how long a stream that ends may take for its last bytes, and the far end
	// to end it, too: who closes first with something unread throws away what is on its way.
	lingerTime = 2 * time.Second
	readBuffer = 4 << 10
	// idleBuffer is what an idle stream may keep of each buffer for writing.
	idleBuffer = 4 << 10
)

// Hub is a net.PacketConn whose packets go by streams: WriteTo takes the Addr of one. All
// methods are safe for concurrent use.
type Hub struct {
	arrived chan *packet
	closed  chan struct{}

	mu      sync.Mutex
	streams map[*Addr]*stream
	over    bool
	expiry  *time.Timer
	expired chan struct{} // closed when the read deadline is over
}

var _ net.PacketConn = (*Hub)(nil)

// packet is one that arrived.
type packet struct {
	bytes [MaxPacket]byte
	size  int
	from  *Addr
}

var packets = sync.Pool{New: func() any { return new(packet) }}

// NewHub makes a hub without streams.
func NewHub() *Hub {
	return &Hub{arrived: make(chan *packet), closed: make(chan struct{}), streams: map[*Addr]*stream{}, expired: make(chan struct{})}
}

// stream is one of them. Its reader is who called Carry, its writer a goroutine.
type stream struct {
	conn net.Conn
	wake chan struct{} // takes one: something is to be written, or the end
	room chan struct{} // takes one: something was written
	gone chan struct{} // closed when it is read no more

	mu     sync.Mutex
	out    []byte
	ending bool // nothing is added any more; what waits is still written
}

// Carry takes conn in as the stream of a, and reads it until it ends, which closes it. It
// returns why.
func (h *Hub) Carry(conn net.Conn, a *Addr) error { return h.Attach(conn, a)() }

// Attach is Carry for one who writes first: the stream is there when it returns, and run reads
// it.
func (h *Hub) Attach(conn net.Conn, a *Addr) (run func() error) {
	s := &stream{conn: conn, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), gone: make(chan struct{})}
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		_ = conn.Close()
		return func() error { return net.ErrClosed }
	}
	h.streams[a] = s
	h.mu.Unlock()
	return func() error { return h.carry(s, a) }
}

func (h *Hub) carry(s *stream, a *Addr) error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	err := h.read(s, a)
	h.mu.Lock()
	delete(h.streams, a)
	h.mu.Unlock()
	close(s.gone)
	_ = s.conn.Close()
	<-written
	return err
}

func (h *Hub) read(s *stream, a *Addr) error {
	r := bufio.NewReaderSize(s.conn, readBuffer)
	for {
		p := packets.Get().(*packet)
		size, err := readPacket(r, &p.bytes)
		if err != nil {
			packets.Put(p)
			return err
		}
		p.size, p.from = size, a
		select {
		case h.arrived <- p:
		case <-h.closed: // read on: the last bytes of the other direction may be on their way
			packets.Put(p)
		}
	}
}

// write writes what waits, as much at once as there is, until the stream ends.
func (s *stream) write() {
	var spare []byte
	for {
		s.mu.Lock()
		out, ending := s.out, s.ending
		s.out = spare[:0]
		if len(out) == 0 && cap(s.out) > idleBuffer {
			s.out = nil
		}
		s.mu.Unlock()
		if len(out) == 0 {
			if ending {
				s.linger()
				return
			}
			if spare = out; cap(spare) > idleBuffer {
				spare = nil
			}
			select {
			case <-s.wake:
				continue
			case <-s.gone:
				return
			}
		}
		_ = s.conn.SetWriteDeadline(time.Now().Add(writeTime))
		_, err := s.conn.Write(out)
		spare = out
		tell(s.room)
		if err != nil {
			_ = s.conn.Close() // the reader finds out
			return
		}
	}
}

// linger ends a stream in whose direction all is written: the far end is told, and ends it.
func (s *stream) linger() {
	_ = s.conn.SetReadDeadline(time.Now().Add(lingerTime))
	_ = s.conn.SetWriteDeadline(time.Now().Add(lingerTime))
	if _, err := s.conn.Write(end); err != nil {
		_ = s.conn.Close()
	}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add has p written, if it is taken; over: the stream takes nothing any more.
func (s *stream) add(p []byte) (taken, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false, true
	}
	if len(s.out) > 0 && len(s.out)+headBytes+len(p) > backlog {
		return false, false
	}
	s.out = appendPacket(s.out, p)
	return true, false
}

// Finish has what waits for a stream written, and the stream end. It returns once it has
// ended.
func (h *Hub) Finish(a *Addr) {
	h.mu.Lock()
	s := h.streams[a]
	h.mu.Unlock()
	if s != nil {
		s.finish()
		<-s.gone
	}
}

func (s *stream) finish() {
	s.mu.Lock()
	was := s.ending
	s.ending = true
	s.mu.Unlock()
	if !was {
		// A stream that takes nothing has no more than that time either.
		late := time.AfterFunc(2*lingerTime, func() { _ = s.conn.Close() })
		go func() {
			<-s.gone
			late.Stop()
		}()
		tell(s.wake)
	}
}

// ReadFrom returns the next packet of any stream, and its Addr.
func (h *Hub) ReadFrom(p []byte) (int, net.Addr, error) {
	h.mu.Lock()
	expired := h.expired
	h.mu.Unlock()
	select {
	case in := <-h.arrived:
		n := copy(p, in.bytes[:in.size])
		from := in.from
		packets.Put(in)
		return n, from, nil
	case <-h.closed:
		return 0, nil, net.ErrClosed
	case <-expired:
		return 0, nil, os.ErrDeadlineExceeded
	}
}

// WriteTo sends p by the stream of a. It waits a little for a stream that is full, and then
// drops p, as a network would. net.ErrClosed: there is no such stream.
func (h *Hub) WriteTo(p []byte, a net.Addr) (int, error) {
	addr, ok := a.(*Addr)
	if !ok || len(p) == 0 || len(p) > MaxPacket {
		return 0, ErrPacket
	}
	h.mu.Lock()
	s := h.streams[addr]
	h.mu.Unlock()
	if s == nil {
		return 0, net.ErrClosed
	}
	taken, over := s.add(p)
	if !taken && !over {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		for !taken && !over {
			select {
			case <-s.room:
				taken, over = s.add(p)
				continue
			case <-wait.C:
			case <-s.gone:
				over = true
			}
			break
		}
	}
	switch {
	case over:
		return 0, net.ErrClosed
	case taken:
		tell(s.wake)
	}
	return len(p), nil
}

// Close ends every stream, with what waits for it written. Idempotent.
func (h *Hub) Close() error {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return nil
	}
	h.over = true
	if h.expiry != nil {
		h.expiry.Stop()
	}
	open := make([]*stream, 0, len(h.streams))
	for _, s := range h.streams {
		open = append(open, s)
	}
	h.mu.Unlock()
	close(h.closed)
	for _, s := range open {
		s.finish()
	}
	return nil
}

// LocalAddr returns an address of no stream.
func (h *Hub) LocalAddr() net.Addr { return &Addr{} }

// SetReadDeadline bounds ReadFrom.
func (h *Hub) SetReadDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.expiry != nil {
		h.expiry.Stop()
		h.expiry = nil
	}
	select {
	case <-h.expired:
		h.expired = make(chan struct{})
	default:
	}
	if t.IsZero() || h.over {
		return nil
	}
	expired := h.expired
	if until := time.Until(t); until > 0 {
		h.expiry = time.AfterFunc(until, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.expired == expired {
				closeOnce(expired)
			}
		})
		return nil
	}
	closeOnce(expired)
	return nil
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// SetWriteDeadline does nothing: WriteTo never waits for long.
func (h *Hub) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (h *Hub) SetDeadline(t time.Time) error { return h.SetReadDeadline(t) }

// SetReadBuffer does nothing: what is to be buffered is the stream's matter. QUIC asks.
func (h *Hub) SetReadBuffer(int) error { return nil }

// SetWriteBuffer does nothing, as SetReadBuffer.
func (h *Hub) SetWriteBuffer(int) error { return nil }
