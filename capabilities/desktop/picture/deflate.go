package picture

import (
	"encoding/binary"
	"math/bits"
)

// packer makes deflate blocks (RFC 1951) of a strip's filtered rows:
//
//	2, red, green, blue, red, … of a row, each less that of the row above
//
// Repetitions are looked for in whole pixels only: zeros (a copy of the byte
// before), the pixel before (3 bytes back), and, by a hash of three pixels, what
// stood in the rows just above.
type packer struct {
	m        Image
	from, to int
	last     bool // the stream ends with this strip
	out      []byte
	sum      checksum // begun from nothing

	tokens []uint32
	lits   [3][256]uint32 // how often each red, green and blue stands alone
	lens   [286]uint32    // how often each length, and the rows' beginnings
	dists  [30]uint32

	table [1 << hashBits]uint32 // of a hash of three pixels: where it was last seen, row << 16 | column
	bits  bitWriter
}

// Tokens: a pixel that stands alone, a row's beginning, or a copy.
const (
	tokenRow  = 1 << 30
	tokenCopy = 1 << 31 // | length << 16 | distance, which is 0 for 32768

	maxTokens = 1 << 15 // of a block
	hashBits  = 13
	maxBack   = 1 << 15
	longest   = 258
)

func newPacker(m Image, from, to int, last bool) *packer {
	return &packer{m: m, from: from, to: to, last: last, tokens: make([]uint32, 0, maxTokens+8)}
}

func (p *packer) bytes() int { return (p.to - p.from) * (1 + 3*p.m.Width) }

// less subtracts the bytes of two pixels, each for itself.
func less(a, b uint32) uint32 {
	const high = 0x808080
	return ((a | high) - (b &^ high)) ^ ((a ^ ^b) & high)
}

func pixel(row []byte, x int) uint32 { return binary.LittleEndian.Uint32(row[x*4:]) & 0xffffff }

func (p *packer) pack() {
	width := p.m.Width
	line := 1 + 3*width
	up := make([]byte, width*4)
	if p.from > 0 {
		up = p.m.row(p.from - 1)
	}
	// Looking up pays where it finds long repetitions, as in text, and is what
	// takes longest where there are none, as in photographs: it is paid from luck,
	// and done at times only when that is used up.
	luck := 1024
	for y := p.from; y < p.to; y++ {
		row := p.m.row(y)
		p.room()
		p.tokens = append(p.tokens, tokenRow)
		p.lens[2]++
		p.sum.a += 2
		p.sum.b += p.sum.a
		before := uint32(noPixel) // as a difference
		luck = min(luck+64, 1024)
		for x := 0; x < width; {
			p.room()
			d := less(pixel(row, x), pixel(up, x))
			if d == 0 {
				n := same(row, up, x+1, width) - x
				p.sum.b += p.sum.a * 3 * uint64(n)
				x += n
				if before&0xff != 0 { // blue is the last byte of a pixel
					p.alone(0)
					n--
				}
				p.repeat(3*n, 1)
				before = 0
				continue
			}
			if d == before {
				n := 0
				for x+n < width && less(pixel(row, x+n), pixel(up, x+n)) == d {
					p.add(d)
					n++
				}
				p.repeat(3*n, 3)
				x += n
				continue
			}
			if x+3 <= width && width <= 0xffff && (luck > 0 || x&31 == 0) {
				luck--
				d1, d2 := less(pixel(row, x+1), pixel(up, x+1)), less(pixel(row, x+2), pixel(up, x+2))
				h := (uint64(d)<<40 ^ uint64(d1)<<20 ^ uint64(d2)) * 0x9e3779b97f4a7c15 >> (64 - hashBits)
				seen := p.table[h]
				p.table[h] = uint32(y)<<16 | uint32(x)
				rows, left := int(uint16(y)-uint16(seen>>16)), int(seen&0xffff)
				if back := rows*line + (x-left)*3; back > 0 && back <= maxBack && y-rows >= p.from && y > rows {
					if n := p.match(y-rows, left, row, up, x); n >= 3 {
						for i := range n {
							before = less(pixel(row, x+i), pixel(up, x+i))
							p.add(before)
						}
						p.repeat(3*n, back)
						x, luck = x+n, luck+n
						continue
					}
				}
			}
			p.add(d)
			p.alone(d)
			x, before = x+1, d
		}
		up = row
	}
	p.block(p.last)
	if p.last {
		p.bits.align()
	} else {
		p.bits.sync()
	}
	p.out = p.bits.out
}

// noPixel is none, and its blue is not 0: a row begins after the 2.
const noPixel = 1<<24 | 1

// room writes a block if there may not be room for what comes next.
func (p *packer) room() {
	if len(p.tokens) >= maxTokens {
		p.block(false)
	}
}

// same returns the first place from x on where the rows differ, or width.
func same(row, up []byte, x, width int) int {
	const mask = 0x00ffffff00ffffff
	for ; x+8 <= width; x += 8 {
		a, b := row[x*4:][:32], up[x*4:][:32]
		d0 := (binary.LittleEndian.Uint64(a) ^ binary.LittleEndian.Uint64(b)) & mask
		d1 := (binary.LittleEndian.Uint64(a[8:]) ^ binary.LittleEndian.Uint64(b[8:])) & mask
		d2 := (binary.LittleEndian.Uint64(a[16:]) ^ binary.LittleEndian.Uint64(b[16:])) & mask
		d3 := (binary.LittleEndian.Uint64(a[24:]) ^ binary.LittleEndian.Uint64(b[24:])) & mask
		if d0|d1|d2|d3 != 0 {
			break
		}
	}
	for x < width && pixel(row, x) == pixel(up, x) {
		x++
	}
	return x
}

// match returns how many pixels from x of row on stood from left of row y on, too,
// within that row. Row y is not the first.
func (p *packer) match(y, left int, row, up []byte, x int) int {
	old, above, n := p.m.row(y), p.m.row(y-1), 0
	for limit := p.m.Width - max(x, left); n < limit; n++ {
		if less(pixel(row, x+n), pixel(up, x+n)) != less(pixel(old, left+n), pixel(above, left+n)) {
			break
		}
	}
	return n
}

// add counts a pixel into the checksum.
func (p *packer) add(d uint32) {
	r, g, b := uint64(d>>16), uint64(d>>8&0xff), uint64(d&0xff)
	a := p.sum.a
	p.sum.b += 3*a + 3*r + 2*g + b
	p.sum.a = a + r + g + b
}

// alone stores a pixel.
func (p *packer) alone(d uint32) {
	p.lits[0][d>>16]++
	p.lits[1][d>>8&0xff]++
	p.lits[2][d&0xff]++
	p.tokens = append(p.tokens, d)
}

// repeat stores size bytes that stood back bytes before; size is a multiple of 3.
func (p *packer) repeat(size, back int) {
	if size == 0 {
		return
	}
	dist := distCode(back)
	for size > 0 {
		n := min(size, longest)
		size -= n
		p.tokens = append(p.tokens, tokenCopy|uint32(n)<<16|uint32(back&(maxBack-1)))
		p.lens[lengthCode[n]]++
		p.dists[dist]++
		p.room()
	}
}

// block writes the tokens as one block, and begins anew.
func (p *packer) block(final bool) {
	var counts [286]uint32
	for i := range 256 {
		counts[i] = p.lits[0][i] + p.lits[1][i] + p.lits[2][i]
	}
	counts[2] += p.lens[2] // the rows' beginnings are a literal
	copy(counts[257:], p.lens[257:])
	counts[256] = 1 // the block's end
	var lits [286]code
	var dists [30]code
	makeCodes(lits[:], counts[:], 15)
	makeCodes(dists[:], p.dists[:], 15)
	w := &p.bits
	w.grow(400 + 8*len(p.tokens))
	w.header(final, lits[:], dists[:])
	for _, t := range p.tokens {
		switch {
		case t&tokenCopy != 0:
			n, back := int(t>>16&0x1ff), int(t&(maxBack-1))
			if back == 0 {
				back = maxBack
			}
			l, d := int(lengthCode[n]), distCode(back)
			w.put(uint64(lits[l].bits), lits[l].size)
			w.put(uint64(n)-uint64(lengthBase[l-257]), lengthExtra[l-257])
			w.put(uint64(dists[d].bits), dists[d].size)
			w.put(uint64(back)-uint64(distBase[d]), distExtra[d])
		case t&tokenRow != 0:
			w.put(uint64(lits[2].bits), lits[2].size)
		default:
			r, g, b := lits[t>>16], lits[t>>8&0xff], lits[t&0xff]
			w.put(uint64(r.bits)|uint64(g.bits)<<r.size|uint64(b.bits)<<(r.size+g.size), r.size+g.size+b.size)
		}
		w.flush()
	}
	w.put(uint64(lits[256].bits), lits[256].size)
	w.flush()
	p.tokens = p.tokens[:0]
	p.lits, p.lens, p.dists = [3][256]uint32{}, [286]uint32{}, [30]uint32{}
}

// distCode returns the code of a distance.
func distCode(back int) int {
	if back <= 4 {
		return back - 1
	}
	n := bits.Len(uint(back-1)) - 1
	return 2*n + (back-1)>>(n-1)&1
}
