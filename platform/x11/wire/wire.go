package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/jezek/xgb/xproto"
)

// stream stands between xgb and the socket, for what xgb cannot do itself:
//
//   - authentication with a file and display of our choice;
//   - passing a descriptor along with a request (shared memory);
//   - events: they are taken out of the stream here and handed on whole. xgb keeps
//     its event decoders in global maps, which two servers in one process overwrite
//     for each other, and does not know how long a generic event is.
//
// Requests and replies pass unchanged. Errors of extensions become core errors,
// because xgb finds their decoders in such a map, too.
type stream struct {
	net.Conn
	in     *bufio.Reader
	event  func(Event) // called by the reading goroutine
	setup  []byte      // what the first write is replaced with
	phase  int         // of the server's answer to it; see Read
	header [32]byte
	rest   []byte // of header that was not read yet
	body   int    // bytes that follow header and pass on

	mu sync.Mutex // above fd
	fd int        // to send along with the next MIT-SHM AttachFd; -1 for none
	// shm is the major opcode of MIT-SHM, 0 while it is not known.
	shm byte
}

const (
	phaseHead = iota // 8 bytes, which tell how long the setup is
	phasePackets
)

func newStream(c net.Conn, setup []byte, event func(Event)) *stream {
	return &stream{Conn: c, in: bufio.NewReaderSize(c, 32<<10), event: event, setup: setup, fd: -1}
}

// Local reports whether the server is on this machine, where memory is shared.
func (c *Conn) Local() bool {
	_, ok := c.stream.Conn.(*net.UnixConn)
	return ok
}

// Carries says which extension's AttachFd takes descriptors along: MIT-SHM's major opcode.
func (c *Conn) Carries(major byte) {
	c.stream.mu.Lock()
	c.stream.shm = major
	c.stream.mu.Unlock()
}

// SendAlong has the next AttachFd of the extension that carries descriptors take fd along,
// which is closed then. A descriptor that still waits is closed; -1 does only that.
func (c *Conn) SendAlong(fd int) { c.stream.sendAlong(fd) }

// sendAlong has the next AttachFd carry fd, and closes it then. A descriptor that
// still waits is closed; -1 does only that.
func (w *stream) sendAlong(fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fd >= 0 {
		closeFd(w.fd)
	}
	w.fd = fd
}

// Write sends one request; xgb writes each with one call.
func (w *stream) Write(p []byte) (int, error) {
	if w.setup != nil {
		_, err := w.Conn.Write(w.setup)
		w.setup = nil
		return len(p), err
	}
	w.mu.Lock()
	fd := -1
	const attachFd = 6
	if w.fd >= 0 && len(p) > 1 && p[0] == w.shm && p[1] == attachFd {
		fd, w.fd = w.fd, -1
	}
	w.mu.Unlock()
	if fd < 0 {
		return w.Conn.Write(p)
	}
	defer closeFd(fd)
	return len(p), writeWithFd(w.Conn.(*net.UnixConn), p, fd)
}

// Read returns xgb the setup, replies and errors, and keeps the events.
func (w *stream) Read(p []byte) (int, error) {
	for {
		if len(w.rest) > 0 {
			n := copy(p, w.rest)
			w.rest = w.rest[n:]
			return n, nil
		}
		if w.body > 0 {
			n, err := w.in.Read(p[:min(len(p), w.body)])
			w.body -= n
			return n, err
		}
		if err := w.next(); err != nil {
			return 0, err
		}
	}
}

// next reads what stands at the head of the stream: the setup's head once, and
// packets from then on.
//
//	reply  1, data, sequence:2, length:4 (in words, beyond the 32 bytes), …
//	error  0, code, sequence:2, …
//	event  code (high bit: sent by a client), detail, sequence:2, …; code 35 has a
//	       length as a reply has
func (w *stream) next() error {
	if w.phase == phaseHead {
		h := w.header[:8]
		if err := readFull(w.in, h); err != nil {
			return err
		}
		w.rest, w.body, w.phase = h, int(binary.LittleEndian.Uint16(h[6:]))*4, phasePackets
		return nil
	}
	h := w.header[:]
	if err := readFull(w.in, h); err != nil {
		return err
	}
	size := 4 * int(binary.LittleEndian.Uint32(h[4:]))
	switch h[0] {
	case 0:
		if h[1] == 0 || h[1] > xproto.BadImplementation {
			h[1] = xproto.BadImplementation
		}
		w.rest = h
	case 1:
		w.rest, w.body = h, size
	default:
		e := Event{Code: h[0] &^ 0x80, Sent: h[0]&0x80 != 0}
		if e.Code != GenericEvent {
			size = 0
		}
		if size > maxEvent {
			return errors.New("x11: an event of impossible length")
		}
		e.Data = make([]byte, len(h)+size)
		copy(e.Data, h)
		if err := readFull(w.in, e.Data[len(h):]); err != nil {
			return err
		}
		if e.Code > 1 { // no event has those numbers
			w.event(e)
		}
	}
	return nil
}

const (
	GenericEvent = 35
	maxEvent     = 1 << 20
)

func readFull(r *bufio.Reader, p []byte) error {
	for len(p) > 0 {
		n, err := r.Read(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
