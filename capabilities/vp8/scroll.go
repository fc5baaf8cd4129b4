package vp8

import (
	"encoding/binary"
	"math/bits"
)

const (
	stripBytes = 256 // of one row that are compared as a whole: 64 pixels
	maxStrips  = 8
	maxShift   = 240 // rows; a vector can say 255
	minVotes   = 24  // rows that must agree
)

// scroll finds by how many rows the changed area moved as a whole since the last
// frame: what is at y now was at y+shift. 0 says that it did not.
//
// Rows of a strip are compared by hash. A row that is there more than once, or of
// one colour, says nothing.
func (e *Encoder) scroll(pix []byte, stride int) (shift int) {
	area := e.changed
	if e.last == nil || area.Dx() < stripBytes/4 || area.Dy() < 32 {
		return 0
	}
	clear(e.votes)
	strips := area.Dx() / (stripBytes / 4)
	for i := range min(strips, maxStrips) {
		x := area.Min.X + i*strips/min(strips, maxStrips)*(stripBytes/4)
		e.vote(pix, stride, x, area.Min.Y, area.Max.Y)
	}
	best := 0
	for i, n := range e.votes {
		if n > e.votes[best] || n == e.votes[best] && abs(i-maxShift) < abs(best-maxShift) {
			best = i
		}
	}
	if e.votes[best] < minVotes {
		return 0
	}
	return best - maxShift
}

func abs(v int) int { return max(v, -v) }

func (e *Encoder) vote(pix []byte, stride, x, top, bottom int) {
	clear(e.rows)
	size := uint64(len(e.rows))
	for y := top; y < bottom; y++ {
		h := hashRow(e.last[y*e.lastStride+x*4:])
		if h == 0 {
			continue
		}
		for i := h & (size - 1); ; i = (i + 1) & (size - 1) {
			if r := &e.rows[i]; r.hash == 0 {
				*r = row{h, int32(y)}
			} else if r.hash == h {
				r.y = -1 // there are two
			} else {
				continue
			}
			break
		}
	}
	for y := top; y < bottom; y++ {
		h := hashRow(pix[y*stride+x*4:])
		if h == 0 {
			continue
		}
		for i := h & (size - 1); e.rows[i].hash != 0; i = (i + 1) & (size - 1) {
			if r := &e.rows[i]; r.hash == h {
				if d := int(r.y) - y; r.y >= 0 && d != 0 && abs(d) <= maxShift {
					e.votes[d+maxShift]++
				}
				break
			}
		}
	}
}

// row is where a hash was seen; hash 0 for an empty place.
type row struct {
	hash uint64
	y    int32
}

// hashRow returns 0 for a row of one colour.
func hashRow(p []byte) uint64 {
	r := (*[stripBytes]byte)(p)
	first := binary.LittleEndian.Uint64(r[:])
	h, other := first, first^bits.RotateLeft64(first, 32)
	for i := 8; i < stripBytes; i += 8 {
		v := binary.LittleEndian.Uint64(r[i:])
		other |= v ^ first
		h = (bits.RotateLeft64(h, 23) ^ v) * 0x9e3779b97f4a7c15
	}
	if other == 0 {
		return 0
	}
	return h ^ h>>29 | 1
}
