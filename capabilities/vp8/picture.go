package vp8

import (
	"bytes"
	"image"
)

// plane is one of the three planes of a picture, a whole number of macroblocks.
type plane struct {
	pix           []uint8
	stride        int
	width, height int
}

func newPlane(width, height int) plane {
	return plane{pix: make([]uint8, width*height), stride: width, width: width, height: height}
}

// picture is luma and chroma of a screen, 4:2:0.
type picture struct{ y, u, v plane }

func newPicture(mbw, mbh int) picture {
	return picture{newPlane(16*mbw, 16*mbh), newPlane(8*mbw, 8*mbh), newPlane(8*mbw, 8*mbh)}
}

func (p *picture) copyFrom(o *picture) {
	copy(p.y.pix, o.y.pix)
	copy(p.u.pix, o.u.pix)
	copy(p.v.pix, o.v.pix)
}

// look finds the macroblocks that differ from the last frame within the areas that
// may, and takes their pixels over.
func (e *Encoder) look(pix []byte, stride int, dirty []image.Rectangle) {
	all := image.Rect(0, 0, e.width, e.height)
	e.changed = image.Rectangle{}
	if e.last == nil {
		e.whole[0] = all
		dirty = e.whole[:]
	}
	e.round++
	for _, d := range dirty {
		d = d.Intersect(all)
		if d.Empty() {
			continue
		}
		for my := d.Min.Y / 16; my <= (d.Max.Y-1)/16; my++ {
			for mx := d.Min.X / 16; mx <= (d.Max.X-1)/16; mx++ {
				m := &e.mbs[my*e.mbw+mx]
				if m.seen == e.round {
					continue
				}
				m.seen = e.round
				if e.last != nil && e.same(pix, stride, mx, my) {
					continue
				}
				m.dirty = true
				e.changed = e.changed.Union(image.Rect(mx*16, my*16, mx*16+16, my*16+16))
				e.convert(pix, stride, mx, my)
			}
		}
	}
	e.changed = e.changed.Intersect(all)
}

// same compares a macroblock with the last frame's.
func (e *Encoder) same(pix []byte, stride, mx, my int) bool {
	n := min(16, e.width-mx*16) * 4
	for y := my * 16; y < min(my*16+16, e.height); y++ {
		if !bytes.Equal(pix[y*stride+mx*64:][:n], e.last[y*e.lastStride+mx*64:][:n]) {
			return false
		}
	}
	return true
}

// convert makes luma and chroma of a macroblock's pixels (BT.601, the range from 16
// to 235, which is what VP8's colour space says). Past the edge of the screen its
// last pixel is repeated.
func (e *Encoder) convert(pix []byte, stride, mx, my int) {
	if mx*16+16 > e.width || my*16+16 > e.height {
		e.convertEdge(pix, stride, mx, my)
		return
	}
	for y := 0; y < 16; y += 2 {
		r0 := (*[64]byte)(pix[(my*16+y)*stride+mx*64:])
		r1 := (*[64]byte)(pix[(my*16+y+1)*stride+mx*64:])
		y0 := (*[16]uint8)(e.src.y.pix[(my*16+y)*e.src.y.stride+mx*16:])
		y1 := (*[16]uint8)(e.src.y.pix[(my*16+y+1)*e.src.y.stride+mx*16:])
		u := (*[8]uint8)(e.src.u.pix[(my*8+y/2)*e.src.u.stride+mx*8:])
		v := (*[8]uint8)(e.src.v.pix[(my*8+y/2)*e.src.v.stride+mx*8:])
		for i := range 8 {
			j := i * 8
			b0, g0, d0 := int32(r0[j]), int32(r0[j+1]), int32(r0[j+2])
			b1, g1, d1 := int32(r0[j+4]), int32(r0[j+5]), int32(r0[j+6])
			b2, g2, d2 := int32(r1[j]), int32(r1[j+1]), int32(r1[j+2])
			b3, g3, d3 := int32(r1[j+4]), int32(r1[j+5]), int32(r1[j+6])
			y0[2*i] = luma(d0, g0, b0)
			y0[2*i+1] = luma(d1, g1, b1)
			y1[2*i] = luma(d2, g2, b2)
			y1[2*i+1] = luma(d3, g3, b3)
			u[i], v[i] = chroma(d0+d1+d2+d3, g0+g1+g2+g3, b0+b1+b2+b3)
		}
	}
}

func (e *Encoder) convertEdge(pix []byte, stride, mx, my int) {
	at := func(x, y int) (r, g, b int32) {
		p := pix[min(y, e.height-1)*stride+min(x, e.width-1)*4:]
		return int32(p[2]), int32(p[1]), int32(p[0])
	}
	for y := my * 16; y < my*16+16; y += 2 {
		for x := mx * 16; x < mx*16+16; x += 2 {
			var r, g, b int32
			for i := range 4 {
				pr, pg, pb := at(x+i&1, y+i>>1)
				e.src.y.pix[(y+i>>1)*e.src.y.stride+x+i&1] = luma(pr, pg, pb)
				r, g, b = r+pr, g+pg, b+pb
			}
			c := y/2*e.src.u.stride + x/2
			e.src.u.pix[c], e.src.v.pix[c] = chroma(r, g, b)
		}
	}
}

func luma(r, g, b int32) uint8 { return uint8((66*r+129*g+25*b+128)>>8 + 16) }

// chroma takes the sums of four pixels.
func chroma(r, g, b int32) (u, v uint8) {
	return uint8((-38*r-74*g+112*b+512)>>10 + 128), uint8((112*r-94*g-18*b+512)>>10 + 128)
}
