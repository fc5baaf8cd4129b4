package picture

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// JPEG returns m as a baseline JPEG file with colour at half the resolution (4:2:0);
// quality is 1 to 100, as everywhere.
//
// It is made in strips, one for each processor, between restart markers. A block
// of 16 x 16 pixels of one colour, which is most of a screen, costs a glance.
func JPEG(m Image, quality int) []byte {
	t := newTables(quality)
	across, down := (m.Width+15)/16, (m.Height+15)/16
	strips := cut(down, 4)
	// Restart intervals are equal but the last, which is the shorter one.
	rows := (down + len(strips) - 1) / len(strips)
	if rows*across > 0xffff {
		rows = max(1, 0xffff/across) // the interval is 16 bits
	}
	n := (down + rows - 1) / rows
	parts := make([][]byte, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { parts[i] = t.scan(m, i*rows*16, min((i+1)*rows*16, m.Height)) })
	}
	wg.Wait()

	size := 1024
	for _, p := range parts {
		size += len(p) + 2
	}
	out := t.head(make([]byte, 0, size), m, rows*across, n > 1)
	for i, p := range parts {
		out = append(out, p...)
		if i < n-1 {
			out = append(out, 0xff, 0xd0+byte(i%8)) // restart
		}
	}
	return append(out, 0xff, 0xd9) // end
}

// tables hold what depends on the quality.
type tables struct {
	steps [2][64]byte    // of luminance and colour, in zigzag order
	scale [2][64]float32 // 1 / (step * what the transform leaves in), in the order of rows
	dc    [2][12]code16
	ac    [2][256]code16
}

// code16 is size bits, the last one lowest.
type code16 struct {
	bits uint16
	size uint8
}

func newTables(quality int) *tables {
	quality = min(max(quality, 1), 100)
	percent := 200 - quality*2
	if quality < 50 {
		percent = 5000 / quality
	}
	t := &tables{}
	for i, base := range baseSteps {
		for k, b := range base {
			t.steps[i][k] = byte(min(max((int(b)*percent+50)/100, 1), 255))
			at := zigzag[k]
			t.scale[i][at] = float32(1 / (float64(t.steps[i][k]) * aan[at/8] * aan[at%8] * 8))
		}
		canonical(t.dc[i][:], dcCounts[i], dcValues[:])
		canonical(t.ac[i][:], acCounts[i], acValues[i][:])
	}
	return t
}

// canonical numbers codes as the standard's C.2 does.
func canonical(to []code16, counts [16]byte, values []byte) {
	next, k := uint16(0), 0
	for size, n := range counts {
		for range n {
			to[values[k]] = code16{next, uint8(size + 1)}
			next++
			k++
		}
		next <<= 1
	}
}

// head writes everything before the scan's data.
func (t *tables) head(out []byte, m Image, interval int, restarts bool) []byte {
	segment := func(marker byte, size int) {
		out = append(out, 0xff, marker)
		out = binary.BigEndian.AppendUint16(out, uint16(size+2))
	}
	out = append(out, 0xff, 0xd8)
	segment(0xe0, 14) // JFIF 1.1, square pixels
	out = append(out, "JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"...)
	segment(0xdb, 2*65)
	for i, s := range t.steps {
		out = append(append(out, byte(i)), s[:]...)
	}
	segment(0xc0, 15)
	out = append(out, 8)
	out = binary.BigEndian.AppendUint16(out, uint16(m.Height))
	out = binary.BigEndian.AppendUint16(out, uint16(m.Width))
	out = append(out, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1)
	for i := range 2 {
		segment(0xc4, 17+len(dcValues))
		out = append(append(append(out, byte(i)), dcCounts[i][:]...), dcValues[:]...)
		segment(0xc4, 17+len(acValues[i]))
		out = append(append(append(out, 0x10|byte(i)), acCounts[i][:]...), acValues[i][:]...)
	}
	if restarts {
		segment(0xdd, 2)
		out = binary.BigEndian.AppendUint16(out, uint16(interval))
	}
	segment(0xda, 10)
	return append(out, 3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0)
}

// scan codes the rows from to to, which begin a restart interval.
func (t *tables) scan(m Image, from, to int) []byte {
	w := &scanWriter{t: t, out: make([]byte, 0, max(4096, m.Width*(to-from)/8))}
	var luma, red, blue block
	for y := from; y < to; y += 16 {
		for x := 0; x < m.Width; x += 16 {
			w.room()
			if p, one := oneColour(m, x, y); one {
				l, b, r := ycc(p)
				for range 4 {
					w.flat(0, &w.last[0], l)
				}
				w.flat(1, &w.last[1], b)
				w.flat(1, &w.last[2], r)
				continue
			}
			quads := &[4]block{}
			load(m, x, y, quads, &blue, &red)
			for i := range quads {
				luma = quads[i]
				w.block(0, &w.last[0], &luma)
			}
			w.block(1, &w.last[1], &blue)
			w.block(1, &w.last[2], &red)
		}
	}
	w.end()
	return w.out
}

// block is 8 x 8 samples, less 128.
type block [64]float32

// oneColour reports whether 16 x 16 pixels are of one colour, and which.
func oneColour(m Image, x, y int) (uint32, bool) {
	const mask = 0x00ffffff00ffffff
	w, h := min(16, m.Width-x), min(16, m.Height-y)
	first := pixel(m.row(y), x)
	if w < 16 {
		for v := range h {
			row := m.row(y + v)
			for u := range w {
				if pixel(row, x+u) != first {
					return 0, false
				}
			}
		}
		return first, true
	}
	two := uint64(first)<<32 | uint64(first)
	for v := range h {
		p := m.Pix[(y+v)*m.Stride+x*4:][:64]
		d := (binary.LittleEndian.Uint64(p) ^ two) | (binary.LittleEndian.Uint64(p[8:]) ^ two) |
			(binary.LittleEndian.Uint64(p[16:]) ^ two) | (binary.LittleEndian.Uint64(p[24:]) ^ two) |
			(binary.LittleEndian.Uint64(p[32:]) ^ two) | (binary.LittleEndian.Uint64(p[40:]) ^ two) |
			(binary.LittleEndian.Uint64(p[48:]) ^ two) | (binary.LittleEndian.Uint64(p[56:]) ^ two)
		if d&mask != 0 {
			return 0, false
		}
	}
	return first, true
}

// ycc returns a pixel's luminance and colours, less 128.
func ycc(p uint32) (y, b, r float32) {
	red, green, blue := float32(p>>16&0xff), float32(p>>8&0xff), float32(p&0xff)
	y = 0.299*red + 0.587*green + 0.114*blue
	return y - 128, (blue - y) * 0.564334, (red - y) * 0.713267
}

// load reads 16 x 16 pixels: luminance in four blocks, colour as the mean of four pixels. Places
// beyond the image repeat its edge.
func load(m Image, x, y int, luma *[4]block, blue, red *block) {
	var edge [16 * 16 * 4]byte
	pix, stride := m.Pix[y*m.Stride+x*4:], m.Stride
	if m.Width-x < 16 || m.Height-y < 16 {
		for v := range 16 {
			row := m.row(min(y+v, m.Height-1))
			for u := range 16 {
				copy(edge[(v*16+u)*4:][:4], row[min(x+u, m.Width-1)*4:])
			}
		}
		pix, stride = edge[:], 64
	}
	for v := 0; v < 16; v += 2 {
		r0, r1 := pix[v*stride:][:64], pix[(v+1)*stride:][:64]
		upper, lower := &luma[v>>3*2], &luma[v>>3*2+1]
		at := v & 7 * 8
		for u := 0; u < 16; u += 2 {
			a, b := binary.LittleEndian.Uint64(r0[u*4:]), binary.LittleEndian.Uint64(r1[u*4:])
			to := upper
			if u >= 8 {
				to = lower
			}
			i := at + u&7
			ya, yb := luminance(uint32(a)), luminance(uint32(a>>32))
			yc, yd := luminance(uint32(b)), luminance(uint32(b>>32))
			to[i], to[i+1], to[i+8], to[i+9] = sample(ya), sample(yb), sample(yc), sample(yd)
			sum := int32(a&0xff + a>>32&0xff + b&0xff + b>>32&0xff)
			sumR := int32(a>>16&0xff + a>>48&0xff + b>>16&0xff + b>>48&0xff)
			y4 := (ya + yb + yc + yd) >> 2 // of the mean, in 1/65536
			k := v>>1*8 + u>>1
			blue[k] = float32(sum<<14-y4) * (0.564334 / (1 << 16))
			red[k] = float32(sumR<<14-y4) * (0.713267 / (1 << 16))
		}
	}
}

// luminance is in 1/65536.
func luminance(p uint32) int32 {
	return int32(p>>16&0xff)*19595 + int32(p>>8&0xff)*38470 + int32(p&0xff)*7471
}

func sample(y int32) float32 { return float32(y-128<<16) * (1.0 / (1 << 16)) }

// scanWriter codes blocks. In its data, ff is followed by 00.
type scanWriter struct {
	t    *tables
	out  []byte
	acc  uint64 // the last n bits were not written yet
	n    uint
	last [3]int32 // the mean values of the blocks before
}

// room makes sure that a block of 16 x 16 pixels fits: at most 6 * 64 * 27 bits,
// twice for the stuffing.
func (w *scanWriter) room() {
	if cap(w.out)-len(w.out) < 6*64*27/8*2+64 {
		w.out = append(make([]byte, 0, 2*cap(w.out)+8192), w.out...)
	}
}

// put adds at most 32 bits.
func (w *scanWriter) put(v uint32, size uint) {
	w.acc = w.acc<<size | uint64(v)
	w.n += size
	if w.n >= 32 {
		w.n -= 32
		word := uint32(w.acc >> w.n)
		if n := len(w.out); hasFF(word) == 0 {
			binary.BigEndian.PutUint32(w.out[n:n+4], word)
			w.out = w.out[:n+4]
			return
		}
		for s := 24; s >= 0; s -= 8 {
			b := byte(word >> s)
			w.out = append(w.out, b)
			if b == 0xff {
				w.out = append(w.out, 0)
			}
		}
	}
}

// hasFF is not 0 if a byte of v is ff.
func hasFF(v uint32) uint32 { v = ^v; return (v - 0x01010101) &^ v & 0x80808080 }

// end fills the last byte up with ones.
func (w *scanWriter) end() {
	w.put(0x7f, 7)
	for ; w.n >= 8; w.n -= 8 {
		b := byte(w.acc >> (w.n - 8))
		w.out = append(w.out, b)
		if b == 0xff {
			w.out = append(w.out, 0)
		}
	}
}

// mean codes a block's mean by its difference to the one before.
func (w *scanWriter) mean(kind int, last *int32, v int32) {
	d := v - *last
	*last = v
	size, rest := magnitude(d)
	c := w.t.dc[kind][size]
	w.put(uint32(c.bits)<<size|rest, uint(c.size)+size)
}

// flat codes a block of one value.
func (w *scanWriter) flat(kind int, last *int32, v float32) {
	w.mean(kind, last, round(v*8/float32(w.t.steps[kind][0])))
	c := w.t.ac[kind][0]
	w.put(uint32(c.bits), uint(c.size))
}

func round(v float32) int32 { return int32(v+16384.5) - 16384 }

// magnitude returns the number of bits of a value, and the bits.
func magnitude(v int32) (size uint, b uint32) {
	sign := v >> 31
	size = uint(bits.Len32(uint32((v ^ sign) - sign)))
	return size, uint32(v+sign) & (1<<size - 1)
}
