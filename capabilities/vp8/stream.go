package vp8

// maxHead is what 19 bits can say of the first partition's length.
const maxHead = 1<<19 - 1

// The probabilities of modes: of key frames (11.2, 11.4), of others (16.2).
var (
	keyYProbs  = [4]uint8{145, 156, 163, 128}
	keyUVProbs = [3]uint8{142, 114, 183}
	yProbs     = [4]uint8{112, 86, 140, 37}
	uvProbs    = [3]uint8{162, 101, 204}
)

// write appends the frame that picture decided on (section 9). It reports false,
// and changes nothing, if the modes are too long for the format.
func (e *Encoder) write(dst []byte, p Params) ([]byte, bool) {
	saved := e.probs
	if p.Key {
		e.probs = flat(&defaultProbs)
	}
	e.counts = counts{}
	var skipped, intra int
	for i := range e.mbs {
		m := &e.mbs[i]
		if !m.inter {
			intra++
		}
		if m.skip {
			skipped++
			continue
		}
	}
	e.counts.count(e.tokens)

	w := &e.head
	w.start(w.out[:0])
	if p.Key {
		w.flag(false) // the colour space that has a definition
		w.flag(false) // values are clamped
	}
	w.flag(false)  // no segments
	w.flag(false)  // the normal filter,
	w.bits(0, 6+3) // switched off: it blurs letters, and costs every macroblock a look
	w.flag(false)  // and not adjusted
	w.bits(0, 2)   // one partition of coefficients
	w.bits(uint32(p.Quant), 7)
	w.bits(0, 5) // all steps follow from it
	if p.Key {
		w.flag(true) // probabilities are kept for the next frames
	} else {
		w.bits(0, 2)   // neither the golden nor the other frame is refreshed
		w.bits(0, 2+2) // nor replaced by another
		w.bits(0, 2)   // nor are their vectors turned round
		w.flag(true)   // probabilities are kept
		w.flag(true)   // this is the frame that the next one refers to
	}
	w.adapt(&e.probs, &e.counts, e.costs)
	w.flag(true) // macroblocks can have no coefficients
	skip := share(len(e.mbs)-skipped, len(e.mbs))
	w.bits(uint32(skip), 8)
	var within uint8
	if !p.Key {
		within = share(intra, len(e.mbs))
		w.bits(uint32(within), 8)
		w.bits(255, 8) // the last frame, always
		w.bits(128, 8)
		w.bits(0, 2) // the probabilities of modes are the usual ones,
		for _, of := range vectorUpdateProbs {
			for _, u := range of {
				w.put(false, u) // and those of vectors
			}
		}
	}
	for my := range e.mbh {
		for mx := range e.mbw {
			m := &e.mbs[my*e.mbw+mx]
			w.put(m.skip, skip)
			switch {
			case p.Key:
				e.keyModes(w, m, mx, my)
			case m.inter:
				w.put(true, within)
				w.put(false, 255)
				e.vector(w, mx, my)
			default:
				w.put(false, within)
				w.modes(m)
			}
		}
	}
	head := w.end()
	if len(head) > maxHead {
		e.probs = saved
		return dst, false
	}
	b := &e.body
	b.start(b.out[:0])
	b.tokens(e.tokens, &e.probs)
	body := b.end()

	tag := uint32(len(head))<<5 | 1<<4 // shown, version 0
	if !p.Key {
		tag |= 1
	}
	dst = append(dst, byte(tag), byte(tag>>8), byte(tag>>16))
	if p.Key {
		dst = append(dst, 0x9d, 0x01, 0x2a, byte(e.width), byte(e.width>>8), byte(e.height), byte(e.height>>8))
	}
	dst = append(dst, head...)
	return append(dst, body...), true
}

// flat returns the probabilities one set after another.
func flat(p *[nPlanes][nBands][nCtx][nTree]uint8) (f [nSets][nTree]uint8) {
	for i := range f {
		f[i] = p[i/(nBands*nCtx)][i/nCtx%nBands][i%nCtx]
	}
	return f
}

// share returns n of all as a probability.
func share(n, all int) uint8 { return uint8(min(max((n*255+all/2)/all, 1), 255)) }

// keyModes writes the modes of a key frame, where those of blocks depend on their
// neighbours' (section 11).
func (e *Encoder) keyModes(w *boolWriter, m *macroblock, mx, my int) {
	w.put(m.yMode != modeSmall, keyYProbs[0])
	switch m.yMode {
	case modeSmall:
		var above, left *macroblock
		if my > 0 {
			above = &e.mbs[(my-1)*e.mbw+mx]
		}
		if mx > 0 {
			left = &e.mbs[my*e.mbw+mx-1]
		}
		for i, mode := range m.blocks {
			var a, l uint8
			if i >= 4 {
				a = m.blocks[i-4]
			} else {
				a = above.block(12 + i)
			}
			if i&3 > 0 {
				l = m.blocks[i-1]
			} else {
				l = left.block(i + 3)
			}
			w.block(mode, &keyBlockProbs[a][l])
		}
	default:
		high := m.yMode == modeH || m.yMode == modeTM
		w.put(high, keyYProbs[1])
		if high {
			w.put(m.yMode == modeTM, keyYProbs[3])
		} else {
			w.put(m.yMode == modeV, keyYProbs[2])
		}
	}
	w.chroma(m.uvMode, &keyUVProbs)
}

// block returns the mode of a block, as its neighbours see it; outside the picture
// it is DC.
func (m *macroblock) block(i int) uint8 {
	switch {
	case m == nil:
		return modeDC
	case m.yMode == modeSmall:
		return m.blocks[i]
	}
	return m.yMode
}

// modes writes the modes of a macroblock of another frame that refers to none.
func (w *boolWriter) modes(m *macroblock) {
	w.put(m.yMode != modeDC, yProbs[0])
	if m.yMode != modeDC {
		high := m.yMode == modeTM || m.yMode == modeSmall
		w.put(high, yProbs[1])
		if high {
			w.put(m.yMode == modeSmall, yProbs[3])
		} else {
			w.put(m.yMode == modeH, yProbs[2])
		}
	}
	if m.yMode == modeSmall {
		for _, mode := range m.blocks {
			w.block(mode, &blockProbs)
		}
	}
	w.chroma(m.uvMode, &uvProbs)
}

// block writes the mode of a block of 4x4.
func (w *boolWriter) block(mode uint8, p *[9]uint8) {
	w.put(mode != modeDC, p[0])
	if mode == modeDC {
		return
	}
	w.put(mode != modeTM, p[1])
	if mode == modeTM {
		return
	}
	w.put(mode != modeV, p[2])
	switch mode {
	case modeV:
	case modeH, modeRD, modeVR:
		w.put(false, p[3])
		w.put(mode != modeH, p[4])
		if mode != modeH {
			w.put(mode == modeVR, p[5])
		}
	default:
		w.put(true, p[3])
		w.put(mode != modeLD, p[6])
		if mode == modeLD {
			return
		}
		w.put(mode != modeVL, p[7])
		if mode != modeVL {
			w.put(mode == modeHU, p[8])
		}
	}
}

func (w *boolWriter) chroma(mode uint8, p *[3]uint8) {
	w.put(mode != modeDC, p[0])
	if mode == modeDC {
		return
	}
	w.put(mode != modeV, p[1])
	if mode != modeV {
		w.put(mode == modeTM, p[2])
	}
}

// vector writes where a macroblock comes from (sections 16.3, 17). All vectors lie
// within the picture, so those of neighbours never need to be clamped to it.
func (e *Encoder) vector(w *boolWriter, mx, my int) {
	at := (my+1)*(e.mbw+1) + mx + 1
	here := e.motions[at].shift
	var near [3]int16 // the second is the nearest, the third the next
	var n [4]int
	k := 0
	for i, m := range [3]motion{e.motions[at-e.mbw-1], e.motions[at-1], e.motions[at-e.mbw-2]} {
		weight := 2
		if i == 2 {
			weight = 1
		}
		switch {
		case !m.inter:
		case m.shift == 0:
			n[0] += weight
		default:
			// There is one vector other than 0 in a frame, so no third one comes up.
			if near[k] != m.shift || k == 0 {
				k++
				near[k] = m.shift
			}
			n[k] += weight
		}
	}
	best := int16(0)
	if n[1] >= n[0] {
		best = near[1]
	}
	if here == 0 {
		w.put(false, motionContexts[n[0]][0])
		return
	}
	w.put(true, motionContexts[n[0]][0])
	if here == near[1] {
		w.put(false, motionContexts[n[1]][1])
		return
	}
	w.put(true, motionContexts[n[1]][1])
	w.put(true, motionContexts[n[2]][2])  // not the next one either
	w.put(false, motionContexts[n[3]][3]) // nor four of them
	w.component(4*(int(here)-int(best)), &vectorProbs[0])
	w.component(0, &vectorProbs[1])
}

// component writes one side of a vector, in quarters of a pixel.
func (w *boolWriter) component(v int, p *[19]uint8) {
	const long, sign, short, bits = 0, 1, 2, 9
	x := abs(v)
	if x < 8 {
		w.put(false, p[long])
		w.put(x>>2 != 0, p[short])
		w.put(x>>1&1 != 0, p[short+1+3*(x>>2)])
		w.put(x&1 != 0, p[short+2+3*(x>>2)+x>>1&1])
		if x == 0 {
			return
		}
	} else {
		w.put(true, p[long])
		for i := range 3 {
			w.put(x>>i&1 != 0, p[bits+i])
		}
		for i := 9; i > 3; i-- {
			w.put(x>>i&1 != 0, p[bits+i])
		}
		if x > 15 {
			w.put(x>>3&1 != 0, p[bits+3])
		}
	}
	w.put(v < 0, p[sign])
}
