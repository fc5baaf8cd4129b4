package tunnel

import (
	"encoding/binary"
	"errors"
	"io"
)

// MaxPacket is the largest packet, in bytes: the most that QUIC sends where it looks for no
// larger one.
const (
	MaxPacket = 1452
	headBytes = 2
)

// ErrPacket says that a stream holds something else than packets.
var ErrPacket = errors.New("tunnel: not the packets of a node")

// A packet in a stream:
//
//	+-----------------+---------------------+
//	| len u16, 1…1452 | len bytes of packet |
//	+-----------------+---------------------+
//
// and its end, so that who reads it need not wait for that of what carries it:
//
//	+-------+
//	| 0 u16 |
//	+-------+

var end = []byte{0, 0}

// appendPacket adds p, which is of a size that MaxPacket allows.
func appendPacket(out, p []byte) []byte {
	return append(binary.BigEndian.AppendUint16(out, uint16(len(p))), p...)
}

// readPacket reads one packet into p and returns its size. io.EOF: the stream has ended, and not
// within a packet.
func readPacket(r io.Reader, p *[MaxPacket]byte) (int, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, err
	}
	size := int(binary.BigEndian.Uint16(head[:]))
	switch {
	case size == 0:
		return 0, io.EOF
	case size > MaxPacket:
		return 0, ErrPacket
	}
	if _, err := io.ReadFull(r, p[:size]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return size, nil
}
