package webm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// The elements that are looked into (RFC 9559, RFC 8794), their marker bits included.
const (
	idHeader   = 0x1A45DFA3
	idSegment  = 0x18538067
	idSeekHead = 0x114D9B74
	idSeek     = 0x4DBB
	idSeekID   = 0x53AB
	idSeekPos  = 0x53AC
	idInfo     = 0x1549A966
	idScale    = 0x2AD7B1
	idDuration = 0x4489
	idMuxer    = 0x4D80
	idWriter   = 0x5741
	idTracks   = 0x1654AE6B
	idEntry    = 0xAE
	idNumber   = 0xD7
	idType     = 0x83
	idCodec    = 0x86
	idVideo    = 0xE0
	idWidth    = 0xB0
	idHeight   = 0xBA
	idAudio    = 0xE1
	idRate     = 0xB5
	idChannels = 0x9F
	idCluster  = 0x1F43B675
	idTime     = 0xE7
	idSimple   = 0xA3
	idGroup    = 0xA0
	idBlock    = 0xA1
	idRefer    = 0xFB
	idCues     = 0x1C53BB6B
	idCue      = 0xBB
	idCueTime  = 0xB3
	idCueAt    = 0xB7
	idCueTrack = 0xF7
	idCuePos   = 0xF1
)

// ErrBroken says that the bytes are no whole recording.
var ErrBroken = errors.New("not a whole WebM recording")

// unknown is the size of an element that ends where the next of its level begins.
const unknown = math.MaxInt64

// An element:
//
//	+----------+-----------+------------+
//	| ID 1…4   | size 1…8  | body       |
//	+----------+-----------+------------+
//
// Both numbers begin with as many zero bits as bytes follow the first, then a one,
// which belongs to an ID and not to a size. A size of all ones is unknown.
type element struct {
	id         uint32
	start      int // of the header
	body, size int // of what is in it; size is unknown or fits in what there is
}

// at reads the header at i of an element that may reach to end.
func at(b []byte, i, end int) (element, error) {
	e := element{start: i}
	id, n, err := number(b, i, end, 4)
	if err != nil {
		return element{}, err
	}
	e.id = uint32(id)
	i += n
	size, n, err := number(b, i, end, 8)
	if err != nil {
		return element{}, err
	}
	size &^= 1 << (7 * n)
	e.body = i + n
	switch {
	case size == 1<<(7*n)-1:
		e.size = unknown
	case size > uint64(end-e.body):
		return element{}, fmt.Errorf("%w: element %X reaches past the end", ErrBroken, e.id)
	default:
		e.size = int(size)
	}
	return e, nil
}

// number reads a number of at most most bytes, its marker included.
func number(b []byte, i, end, most int) (uint64, int, error) {
	if i >= end {
		return 0, 0, fmt.Errorf("%w: it ends in a header", ErrBroken)
	}
	n := bits.LeadingZeros8(b[i]) + 1
	if n > most || i+n > end {
		return 0, 0, fmt.Errorf("%w: no header at %d", ErrBroken, i)
	}
	var v uint64
	for _, c := range b[i : i+n] {
		v = v<<8 | uint64(c)
	}
	return v, n, nil
}

// each calls f with the elements in b[from:end], whose sizes must be known.
func each(b []byte, from, end int, f func(e element) error) error {
	for i := from; i < end; {
		e, err := at(b, i, end)
		if err != nil {
			return err
		}
		if e.size == unknown {
			return fmt.Errorf("%w: element %X has no size", ErrBroken, e.id)
		}
		if err := f(e); err != nil {
			return err
		}
		i = e.body + e.size
	}
	return nil
}

func (e element) uint(b []byte) uint64 {
	var v uint64
	for _, c := range b[e.body : e.body+min(e.size, 8)] {
		v = v<<8 | uint64(c)
	}
	return v
}

func (e element) float(b []byte) float64 {
	switch e.size {
	case 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b[e.body:])))
	case 8:
		return math.Float64frombits(binary.BigEndian.Uint64(b[e.body:]))
	}
	return 0
}

// Headers are written in their shortest form, but sizes in 8 bytes.

func appendID(b []byte, id uint32) []byte {
	for shift := 24; shift >= 0; shift -= 8 {
		if id>>shift != 0 {
			b = append(b, byte(id>>shift))
		}
	}
	return b
}

func appendHead(b []byte, id uint32, size int) []byte {
	return binary.BigEndian.AppendUint64(appendID(b, id), 1<<56|uint64(size))
}

// headLen is what appendHead adds.
func headLen(id uint32) int { return (bits.Len32(id)+7)/8 + 8 }

func appendUint(b []byte, id uint32, v uint64) []byte {
	return binary.BigEndian.AppendUint64(appendHead(b, id, 8), v)
}

func appendFloat(b []byte, id uint32, v float64) []byte {
	return appendUint(b, id, math.Float64bits(v))
}

func appendBytes(b []byte, id uint32, v []byte) []byte {
	return append(appendHead(b, id, len(v)), v...)
}
