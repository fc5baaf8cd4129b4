package vp8

import "bytes"

// work is what the coding of one macroblock needs, allocated once.
type work struct {
	q      *steps
	enough uint32 // errors up to it are let be
	lambda int    // squared error that a bit may save
	shift  int
	edge   edges
	preds  [4][256]uint8
	moved  [256]uint8
	pu, pv [64]uint8
	tries  [2]luma16
	chroma [8]coded
	coefs  [16]block
}

// coded is a block's levels in the order they are sent.
type coded struct {
	levels [16]int16
	end    int
}

// luma16 is a way to code the luma of a macroblock.
type luma16 struct {
	pix    [256]uint8 // what decoders show
	blocks [17]coded  // the last are the DC values, unless small
	modes  [16]uint8
	small  bool
	bits   int // roughly
}

func (w *work) begin(q *steps, shift int) {
	w.q, w.shift = q, shift
	w.enough = enough(q)
	w.lambda = max(1, int(q.y.step[1]*q.y.step[1])/8)
}

// intra codes a macroblock from its neighbours alone.
func (e *Encoder) intra(m *macroblock, mx, my int, p Params) {
	w := &e.work
	m.inter = false
	mode, _ := e.bestSquare(mx, my)
	best := &w.tries[0]
	e.code16(best, mx, my, &w.preds[mode])
	if e.error16(best, mx, my) > uint32(w.lambda)*2 || best.bits > 8 {
		best = e.orSmall(best, mx, my, p.Key)
	}
	m.yMode = mode
	if best.small {
		m.yMode = modeSmall
	}
	e.bestChroma(m, mx, my)
	e.commit(m, best, mx, my, p)
}

// inter codes a macroblock from the last frame where that is better.
func (e *Encoder) inter(m *macroblock, mx, my int, p Params, at *motion) {
	w := &e.work
	still, whole := e.errorUpTo(&e.rec, mx, my, w.enough)
	if still <= w.enough && (m.dirty || still == 0) {
		m.inter, m.skip, m.rest, m.quant = true, true, still, MaxQuant
		return
	}
	d, moved := w.shift, uint32(1<<32-1)
	if m.dirty && d != 0 && my*16+d >= 0 && my*16+d+16 <= e.rec.y.height {
		if moved = e.errorAt(&e.old, mx, my, d); moved <= w.enough { // and so less than still
			e.move(mx, my, d)
			m.inter, m.skip, m.quant = true, true, MaxQuant
			m.rest = e.errorAt(&e.rec, mx, my, 0) // with chroma as it came out
			at.shift = int16(d)
			return
		}
	}
	if !whole {
		still = e.errorAt(&e.rec, mx, my, 0)
	}
	from, least := 0, still
	if moved < least {
		from, least = d, moved
	}
	if m.dirty {
		mode, err := e.bestSquare(mx, my)
		if err < least {
			m.inter = false
			best := &w.tries[0]
			e.code16(best, mx, my, &w.preds[mode])
			if err > 256*16 {
				best = e.orSmall(best, mx, my, false)
			}
			m.yMode = mode
			if best.small {
				m.yMode = modeSmall
			}
			e.bestChroma(m, mx, my)
			e.commit(m, best, mx, my, p)
			return
		}
	}
	m.inter = true
	best := &w.tries[0]
	if from == 0 {
		shifted(w.moved[:], &e.rec.y, mx*16, my*16, 16)
		shifted(w.pu[:], &e.rec.u, mx*8, my*8, 8)
		shifted(w.pv[:], &e.rec.v, mx*8, my*8, 8)
	} else {
		shifted(w.moved[:], &e.old.y, mx*16, my*16+from, 16)
		e.movedChroma(mx, my, from)
		at.shift = int16(from)
	}
	e.code16(best, mx, my, &w.moved)
	if m.dirty && least > 256*64 {
		if best = e.orSmall(best, mx, my, false); best.small {
			m.inter, m.yMode, at.shift = false, modeSmall, 0
			e.bestChroma(m, mx, my)
		}
	}
	e.commit(m, best, mx, my, p)
}

// move makes a macroblock what was d rows further down.
func (e *Encoder) move(mx, my, d int) {
	w := &e.work
	for i := range 16 {
		copy(e.rec.y.pix[(my*16+i)*e.rec.y.stride+mx*16:][:16], e.old.y.pix[(my*16+i+d)*e.old.y.stride+mx*16:])
	}
	e.movedChroma(mx, my, d)
	for i := range 8 {
		at := (my*8+i)*e.rec.u.stride + mx*8
		copy(e.rec.u.pix[at:at+8], w.pu[i*8:])
		copy(e.rec.v.pix[at:at+8], w.pv[i*8:])
	}
}

// movedChroma predicts chroma by a vector of d rows of luma (section 18.2): half a
// row of chroma for an odd one.
func (e *Encoder) movedChroma(mx, my, d int) {
	w := &e.work
	predict := shifted
	if d&1 != 0 {
		predict = halfway
	}
	predict(w.pu[:], &e.old.u, mx*8, my*8+d>>1, 8)
	predict(w.pv[:], &e.old.v, mx*8, my*8+d>>1, 8)
}

// errorAt returns the squared error, luma and chroma, of taking a macroblock from d
// rows further down in p. Chroma between two rows counts as the nearer one.
func (e *Encoder) errorAt(p *picture, mx, my, d int) uint32 {
	return squares(&e.src.y, &p.y, mx*16, my*16, d, 16, 16) + squares(&e.src.u, &p.u, mx*8, my*8, d>>1, 8, 8) +
		squares(&e.src.v, &p.v, mx*8, my*8, d>>1, 8, 8)
}

// errorUpTo is errorAt of where it is, which is not looked at as a whole once it is more
// than most.
func (e *Encoder) errorUpTo(p *picture, mx, my int, most uint32) (sum uint32, whole bool) {
	for y := my * 16; y < my*16+16; y += 4 {
		if sum += squares(&e.src.y, &p.y, mx*16, y, 0, 16, 4); sum > most {
			return sum, false
		}
	}
	return sum + squares(&e.src.u, &p.u, mx*8, my*8, 0, 8, 8) + squares(&e.src.v, &p.v, mx*8, my*8, 0, 8, 8), true
}

// squares returns the squared error of rows of n pixels at x, y of a, taken from d rows
// further down in b.
func squares(a, b *plane, x, y, d, n, rows int) uint32 {
	var sum uint32
	for i := range rows {
		p := a.pix[(y+i)*a.stride+x:][:n]
		q := b.pix[(y+i+d)*b.stride+x:][:len(p)]
		if bytes.Equal(p, q) { // as most of a screen is
			continue
		}
		for j, v := range p {
			t := int32(v) - int32(q[j])
			sum += uint32(t * t)
		}
	}
	return sum
}

// bestSquare predicts the luma of a macroblock by each of its four modes and returns the best, with
// its squared error.
func (e *Encoder) bestSquare(mx, my int) (mode uint8, least uint32) {
	w := &e.work
	w.edge.around(&e.rec.y, mx*16, my*16, 16)
	least = 1<<32 - 1
	for k := range uint8(4) {
		w.edge.square(w.preds[k][:], 16, k)
		if err := e.errorOf(w.preds[k][:], &e.src.y, mx*16, my*16, 16); err < least {
			mode, least = k, err
		}
	}
	return mode, least
}

func (e *Encoder) error16(t *luma16, mx, my int) uint32 {
	return e.errorOf(t.pix[:], &e.src.y, mx*16, my*16, 16)
}

func (e *Encoder) errorOf(pix []uint8, p *plane, x, y, n int) uint32 {
	var sum uint32
	for i := range n {
		a := p.pix[(y+i)*p.stride+x:][:n]
		b := pix[i*n:][:len(a)]
		for j, v := range a {
			t := int32(v) - int32(b[j])
			sum += uint32(t * t)
		}
	}
	return sum
}

// code16 codes luma against a prediction of the whole macroblock.
func (e *Encoder) code16(t *luma16, mx, my int, pred *[256]uint8) {
	w := &e.work
	var dc block
	t.small, t.bits = false, 0
	for i := range 16 {
		b := &w.coefs[i]
		e.difference(b, &e.src.y, mx*16+i&3*4, my*16+i>>2*4, pred[i>>2*64+i&3*4:], 16)
		b.forward()
		dc[i] = b[0]
		end, bits := w.q.y.quantise(b, 1, &t.blocks[i].levels)
		t.blocks[i].end = end
		t.bits += bits
	}
	dc.forwardWalsh()
	end, bits := w.q.y2.quantise(&dc, 0, &t.blocks[16].levels)
	t.blocks[16].end = end
	t.bits += bits
	dc.inverseWalsh()
	for i := range 16 {
		b := &w.coefs[i]
		b[0] = dc[i]
		at := i>>2*64 + i&3*4
		add(t.pix[at:], pred[at:], 16, b, t.blocks[i].end > 0)
	}
}

// difference fills b with what a 4x4 block has beyond its prediction.
func (e *Encoder) difference(b *block, p *plane, x, y int, pred []uint8, stride int) {
	for i := range 4 {
		s := (*[4]uint8)(p.pix[(y+i)*p.stride+x:])
		q := (*[4]uint8)(pred[i*stride:])
		b[i*4] = int32(s[0]) - int32(q[0])
		b[i*4+1] = int32(s[1]) - int32(q[1])
		b[i*4+2] = int32(s[2]) - int32(q[2])
		b[i*4+3] = int32(s[3]) - int32(q[3])
	}
}

// add writes the prediction and the coefficients' block, which it uses up.
func add(dst, pred []uint8, stride int, b *block, ac bool) {
	if !ac {
		d := (b[0] + 4) >> 3
		for i := range 4 {
			q, o := (*[4]uint8)(pred[i*stride:]), (*[4]uint8)(dst[i*stride:])
			if d == 0 {
				*o = *q
				continue
			}
			o[0], o[1], o[2], o[3] = clip(int32(q[0])+d), clip(int32(q[1])+d), clip(int32(q[2])+d), clip(int32(q[3])+d)
		}
		return
	}
	b.inverse()
	for i := range 4 {
		q, o := (*[4]uint8)(pred[i*stride:]), (*[4]uint8)(dst[i*stride:])
		o[0], o[1], o[2], o[3] = clip(int32(q[0])+b[i*4]), clip(int32(q[1])+b[i*4+1]), clip(int32(q[2])+b[i*4+2]), clip(int32(q[3])+b[i*4+3])
	}
}

// orSmall tries blocks with modes of their own and returns the better way.
func (e *Encoder) orSmall(best *luma16, mx, my int, key bool) *luma16 {
	if e.noSmall {
		return best
	}
	w := &e.work
	small := &w.tries[1]
	e.codeSmall(small, mx, my, key)
	if int(e.error16(small, mx, my))+w.lambda*small.bits < int(e.error16(best, mx, my))+w.lambda*best.bits {
		return small
	}
	return best
}

// codeSmall codes luma in blocks of 4x4, each predicted from those before it.
func (e *Encoder) codeSmall(t *luma16, mx, my int, key bool) {
	w := &e.work
	p := &e.rec.y
	t.small, t.bits = true, 4
	for i := range 16 {
		bx, by := i&3, i>>2
		var n near
		e.near(&n, t, p, mx, my, bx, by)
		// The pixels to the right of the last column are not the same in all decoders.
		modes := uint8(nModes)
		outside := bx == 3 && mx == e.mbw-1 && my > 0
		var src [16]uint8
		for r := range 4 {
			copy(src[r*4:r*4+4], e.src.y.pix[(my*16+by*4+r)*e.src.y.stride+mx*16+bx*4:])
		}
		var pred, bestPred [16]uint8
		least := int32(1 << 30)
		for k := range modes {
			if outside && (k == modeV || k == modeLD || k == modeVL) {
				continue
			}
			n.small(&pred, k)
			sum := int32(0)
			for j, v := range src {
				d := int32(v) - int32(pred[j])
				sum += d * d
			}
			if k != modeDC {
				sum += int32(w.lambda) * 2
			}
			if sum < least {
				least, bestPred, t.modes[i] = sum, pred, k
			}
			if sum == 0 {
				break
			}
		}
		b := &w.coefs[i]
		for j := range b {
			b[j] = int32(src[j]) - int32(bestPred[j])
		}
		b.forward()
		end, bits := w.q.y.quantise(b, 0, &t.blocks[i].levels)
		t.blocks[i].end = end
		t.bits += bits + 2
		at := by*64 + bx*4
		var out [16]uint8
		add(out[:], bestPred[:], 4, b, end > 1)
		for r := range 4 {
			copy(t.pix[at+r*16:at+r*16+4], out[r*4:])
		}
	}
}

// near gathers the pixels around a block: of the macroblocks before it, and of t within its own.
// The pixels at the right above a block of the last column come from the row of macroblocks above,
// for all four (section 12.3).
func (e *Encoder) near(n *near, t *luma16, p *plane, mx, my, bx, by int) {
	at := (my*16+by*4)*p.stride + mx*16 + bx*4
	for i := range 4 {
		switch {
		case bx > 0:
			n[3-i] = t.pix[(by*4+i)*16+bx*4-1]
		case mx > 0:
			n[3-i] = p.pix[at+i*p.stride-1]
		default:
			n[3-i] = 129
		}
	}
	switch {
	case by > 0 && bx > 0:
		n[4] = t.pix[(by*4-1)*16+bx*4-1]
	case by == 0 && my == 0:
		n[4] = 127
	case bx == 0 && mx == 0:
		n[4] = 129
	default:
		n[4] = p.pix[at-p.stride-1]
	}
	switch {
	case by > 0:
		copy(n[5:9], t.pix[(by*4-1)*16+bx*4:])
	case my > 0:
		copy(n[5:9], p.pix[at-p.stride:])
	default:
		n[5], n[6], n[7], n[8] = 127, 127, 127, 127
	}
	switch {
	case by > 0 && bx < 3:
		copy(n[9:13], t.pix[(by*4-1)*16+bx*4+4:])
	case my == 0:
		n[9], n[10], n[11], n[12] = 127, 127, 127, 127
	case bx == 3 && mx == e.mbw-1: // codeSmall uses no mode that looks there
		n[9], n[10], n[11], n[12] = n[8], n[8], n[8], n[8]
	default:
		copy(n[9:13], p.pix[(my*16-1)*p.stride+mx*16+bx*4+4:])
	}
}

// bestChroma predicts chroma from the neighbours.
func (e *Encoder) bestChroma(m *macroblock, mx, my int) {
	w := &e.work
	var pu, pv [64]uint8
	var eu, ev edges
	eu.around(&e.rec.u, mx*8, my*8, 8)
	ev.around(&e.rec.v, mx*8, my*8, 8)
	least := uint32(1<<32 - 1)
	for k := range uint8(4) {
		eu.square(pu[:], 8, k)
		ev.square(pv[:], 8, k)
		if err := e.errorOf(pu[:], &e.src.u, mx*8, my*8, 8) + e.errorOf(pv[:], &e.src.v, mx*8, my*8, 8); err < least {
			least, m.uvMode, w.pu, w.pv = err, k, pu, pv
		}
	}
}

// commit codes chroma against w.pu and w.pv, makes the macroblock what decoders
// show, and keeps its tokens.
func (e *Encoder) commit(m *macroblock, t *luma16, mx, my int, p Params) {
	w := &e.work
	for i := range 16 {
		copy(e.rec.y.pix[(my*16+i)*e.rec.y.stride+mx*16:][:16], t.pix[i*16:])
	}
	any := false
	for c, planes := range [2]struct {
		src, rec *plane
		pred     *[64]uint8
	}{{&e.src.u, &e.rec.u, &w.pu}, {&e.src.v, &e.rec.v, &w.pv}} {
		for i := range 4 {
			x, y := i&1*4, i>>1*4
			var b block
			e.difference(&b, planes.src, mx*8+x, my*8+y, planes.pred[y*8+x:], 8)
			b.forward()
			k := &w.chroma[c*4+i]
			k.end, _ = w.q.uv.quantise(&b, 0, &k.levels)
			any = any || k.end > 0
			add(planes.pred[y*8+x:], planes.pred[y*8+x:], 8, &b, k.end > 1)
		}
		for i := range 8 {
			copy(planes.rec.pix[(my*8+i)*planes.rec.stride+mx*8:][:8], planes.pred[i*8:])
		}
	}
	for i := range t.blocks {
		any = any || t.blocks[i].end > 0 && !(t.small && i == 16)
	}
	m.skip = !any
	m.quant = uint8(p.Quant)
	m.rest = e.errorAt(&e.rec, mx, my, 0)
	if t.small {
		m.blocks = t.modes
	}
	if !m.skip {
		e.tokenise(m, t, mx)
	}
}

// tokenise keeps the tokens of a macroblock (section 13): the DC values first.
func (e *Encoder) tokenise(m *macroblock, t *luma16, mx int) {
	a, l := &e.above[mx], &e.left
	m.from = int32(len(e.tokens))
	plane, first := planeYWithDC, 0
	if !t.small {
		var nz uint8
		e.tokens, nz = tokenise(e.tokens, &t.blocks[16].levels, 0, t.blocks[16].end, planeY2, a[8]+l[8])
		a[8], l[8] = nz, nz
		plane, first = planeYAfterY2, 1
	}
	for i := range 16 {
		x, y := i&3, i>>2
		var nz uint8
		e.tokens, nz = tokenise(e.tokens, &t.blocks[i].levels, first, t.blocks[i].end, plane, a[x]+l[y])
		a[x], l[y] = nz, nz
	}
	for i := range 8 {
		k := &e.work.chroma[i]
		x, y := 4+i>>2*2+i&1, 4+i>>2*2+i>>1&1
		var nz uint8
		e.tokens, nz = tokenise(e.tokens, &k.levels, 0, k.end, planeUV, a[x]+l[y])
		a[x], l[y] = nz, nz
	}
	m.to = int32(len(e.tokens))
}
