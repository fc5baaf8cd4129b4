package atspi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxMessage is the largest message that is decoded: 25,000 elements fit. A larger
// one is thrown away unread, so its sender only spoils its own answer.
const maxMessage = 8 << 20

// guard passes the messages of a D-Bus connection on and drops those which are
// too large before anything is allocated for them. The accessibility bus itself
// lets a message of 1 GB through.
//
// A message begins:
//
//	byte 0   'l' or 'B', the byte order
//	byte 1-3 type, flags, version
//	byte 4   length of the body, uint32
//	byte 8   serial, uint32
//	byte 12  length of the header's fields, uint32
//	byte 16  the fields, padded to 8; the body
type guard struct {
	net.Conn
	framed bool // the handshake is over; written before the first message is asked for
	head   []byte
	left   int64 // of the message that is being passed on
	in     *reader
}

// reader saves system calls: messages are small and many.
type reader struct {
	r    io.Reader
	buf  []byte
	data []byte
}

func (b *reader) Read(p []byte) (int, error) {
	if len(b.data) == 0 {
		if len(p) >= len(b.buf) {
			return b.r.Read(p)
		}
		n, err := b.r.Read(b.buf)
		if n == 0 {
			return 0, err
		}
		b.data = b.buf[:n]
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func newGuard(c net.Conn) *guard {
	return &guard{Conn: c, in: &reader{r: c, buf: make([]byte, 64<<10)}}
}

// Write passes through; BEGIN ends the handshake, and what is read from then on
// are messages.
func (g *guard) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("BEGIN")) {
		g.framed = true
	}
	return g.Conn.Write(p)
}

func (g *guard) Read(p []byte) (int, error) {
	if !g.framed {
		return g.Conn.Read(p)
	}
	for len(g.head) == 0 && g.left == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if len(g.head) > 0 {
		n := copy(p, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	if int64(len(p)) > g.left {
		p = p[:g.left]
	}
	n, err := g.in.Read(p)
	g.left -= int64(n)
	return n, err
}

var errNotDBus = errors.New("what came is not a D-Bus message")

// next reads the head of a message and decides about it.
func (g *guard) next() error {
	var head [16]byte
	if _, err := io.ReadFull(g.in, head[:]); err != nil {
		return err
	}
	var order binary.ByteOrder
	switch head[0] {
	case 'l':
		order = binary.LittleEndian
	case 'B':
		order = binary.BigEndian
	default:
		return errNotDBus
	}
	body, fields := int64(order.Uint32(head[4:])), int64(order.Uint32(head[12:]))
	rest := (fields+7)/8*8 + body
	if rest > maxMessage {
		_, err := io.CopyN(io.Discard, g.in, rest)
		return err
	}
	g.head, g.left = append([]byte(nil), head[:]...), rest
	return nil
}

// dialBus connects to the first unix socket of a D-Bus address such as
// "unix:path=/run/user/1000/at-spi/bus_0,guid=...".
func dialBus(address string, dial func(path string) (net.Conn, error)) (net.Conn, error) {
	var last error = errors.New("the address " + capabilities.Clip(address, 200) + " names no unix socket")
	for one := range strings.SplitSeq(address, ";") {
		kind, values, _ := strings.Cut(one, ":")
		if kind != "unix" {
			continue
		}
		for pair := range strings.SplitSeq(values, ",") {
			name, value, _ := strings.Cut(pair, "=")
			value = unescape(value)
			switch name {
			case "path":
			case "abstract":
				value = "@" + value
			default:
				continue
			}
			c, err := dial(value)
			if err == nil {
				return c, nil
			}
			last = err
		}
	}
	return nil, last
}

// unescape undoes the %2f of D-Bus addresses.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := strings.IndexByte("0123456789abcdef", s[i+1]|0x20), strings.IndexByte("0123456789abcdef", s[i+2]|0x20)
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
