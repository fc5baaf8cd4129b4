//go:build linux

package wayland

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A message is a header and its arguments, in the byte order of the machine, each
// argument filled up to 4 bytes; descriptors go beside it.
//
//	object:4, size:2 << 16 | opcode:2, arguments
//	string: length with its NUL:4, bytes, NUL; array: length:4, bytes
const (
	headerSize = 8
	maxMessage = 1<<16 - 1 // the size is 16 bits
	// maxText bounds the strings that are sent; the compositor's own bound is what
	// fits a message of 4096 bytes.
	maxText = 4000
)

var order = binary.NativeEndian

var errMalformed = errors.New("wayland: the compositor sent a malformed message")

// message is one event.
type message struct {
	object uint32
	opcode uint16
	rest   []byte // arguments not read yet
	bad    bool   // an argument was not there
	// takeFD returns the next descriptor that came along; -1 if there is none.
	takeFD func() int
}

// split takes the first message off b. It returns no message and all of b while that
// holds only a part of one.
func split(b []byte) (m *message, rest []byte, err error) {
	if len(b) < headerSize {
		return nil, b, nil
	}
	word := order.Uint32(b[4:])
	size := int(word >> 16)
	if size < headerSize || size%4 != 0 {
		return nil, nil, errMalformed
	}
	if len(b) < size {
		return nil, b, nil
	}
	return &message{object: order.Uint32(b), opcode: uint16(word), rest: b[headerSize:size:size]}, b[size:], nil
}

func (m *message) uint() uint32 {
	if len(m.rest) < 4 {
		m.bad, m.rest = true, nil
		return 0
	}
	v := order.Uint32(m.rest)
	m.rest = m.rest[4:]
	return v
}

func (m *message) int() int { return int(int32(m.uint())) }

// fixed reads a number with 8 bits of fraction.
func (m *message) fixed() float64 { return float64(int32(m.uint())) / 256 }

// array reads bytes, which are the message's own.
func (m *message) array() []byte {
	n := m.uint()
	if uint64(n) > uint64(len(m.rest)) || int(n+3)&^3 > len(m.rest) {
		m.bad, m.rest = true, nil
		return nil
	}
	b := m.rest[:n:n]
	m.rest = m.rest[int(n+3)&^3:]
	return b
}

// string reads text; one that is not there (length 0) is "".
func (m *message) string() string {
	b := m.array()
	if len(b) == 0 {
		return ""
	}
	if b[len(b)-1] != 0 {
		m.bad = true
		return ""
	}
	return string(b[:len(b)-1])
}

// fd takes the descriptor that came along; whoever takes it closes it.
func (m *message) fd() int {
	if m.takeFD == nil {
		m.bad = true
		return -1
	}
	fd := m.takeFD()
	m.bad = m.bad || fd < 0
	return fd
}

// Arguments of requests beside uint32, int32, string and []byte.
type (
	fixed float64 // a number with 8 bits of fraction
	fd    int     // a descriptor, sent along; it stays the caller's
)

// encode appends a request to b, and the descriptors that it has to fds.
func encode(b []byte, fds []int, object uint32, opcode uint16, args ...any) ([]byte, []int, error) {
	start := len(b)
	b = order.AppendUint32(b, object)
	b = order.AppendUint32(b, 0)
	fill := func() {
		for (len(b)-start)%4 != 0 {
			b = append(b, 0)
		}
	}
	for _, arg := range args {
		switch v := arg.(type) {
		case uint32:
			b = order.AppendUint32(b, v)
		case int32:
			b = order.AppendUint32(b, uint32(v))
		case fixed:
			b = order.AppendUint32(b, uint32(int32(math.Round(float64(v)*256))))
		case string:
			if len(v) > maxText {
				return nil, nil, fmt.Errorf("wayland: a text of %d bytes does not fit a message", len(v))
			}
			b = order.AppendUint32(b, uint32(len(v)+1))
			b = append(append(b, v...), 0)
			fill()
		case []byte:
			b = order.AppendUint32(b, uint32(len(v)))
			b = append(b, v...)
			fill()
		case fd:
			fds = append(fds, int(v))
		default:
			return nil, nil, fmt.Errorf("wayland: %T is no argument", arg)
		}
	}
	size := len(b) - start
	if size > maxMessage {
		return nil, nil, fmt.Errorf("wayland: a request of %d bytes is too long", size)
	}
	order.PutUint32(b[start+4:], uint32(size)<<16|uint32(opcode))
	return b, fds, nil
}
