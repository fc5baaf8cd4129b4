package vp8

import "math"

// token is a coefficient as it is sent, with the probabilities it is sent by.
type token struct {
	set   uint16 // of probabilities; with follows, the one before was 0
	level int16  // endOfBlock for none more
}

const (
	follows    = 1 << 15 // after a 0 no end of the block can come
	endOfBlock = math.MinInt16
)

// tokenise appends the tokens of a block's levels from first up to end, and reports
// whether it has any level.
func tokenise(to []token, levels *[16]int16, first, end, plane int, ctx uint8) ([]token, uint8) {
	base := plane * nBands * nCtx
	set := func(i int, ctx uint8) uint16 { return uint16(base + int(bands[i])*nCtx + int(ctx)) }
	if end <= first {
		return append(to, token{set(first, ctx), endOfBlock}), 0
	}
	var zero uint16
	for i := first; i < end; i++ {
		v := levels[i]
		to = append(to, token{set(i, ctx) | zero, v})
		switch v {
		case 0:
			ctx, zero = 0, follows
		case 1, -1:
			ctx, zero = 1, 0
		default:
			ctx, zero = 2, 0
		}
	}
	if end < 16 {
		to = append(to, token{set(end, ctx), endOfBlock})
	}
	return to, 1
}

// counts are how often each branch of the token trees was 0 and 1.
type counts [nSets][nTree][2]uint32

// count goes through the branches that write would write.
func (c *counts) count(tokens []token) {
	for _, t := range tokens {
		n := &c[t.set&^follows]
		v := int32(t.level)
		if v == endOfBlock {
			n[0][0]++
			continue
		}
		if t.set&follows == 0 {
			n[0][1]++
		}
		if v == 0 {
			n[1][0]++
			continue
		}
		n[1][1]++
		if v < 0 {
			v = -v
		}
		if v == 1 {
			n[2][0]++
			continue
		}
		n[2][1]++
		switch {
		case v <= 4:
			n[3][0]++
			n[4][of(v > 2)]++
			if v > 2 {
				n[5][of(v == 4)]++
			}
		case v <= 10:
			n[3][1]++
			n[6][0]++
			n[7][of(v > 6)]++
		default:
			n[3][1]++
			n[6][1]++
			n[8][of(v > 34)]++
			if v > 34 {
				n[10][of(v > 66)]++
			} else {
				n[9][of(v > 18)]++
			}
		}
	}
}

func of(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tokens writes them (section 13.2).
func (w *boolWriter) tokens(tokens []token, probs *[nSets][nTree]uint8) {
	for _, t := range tokens {
		p := &probs[t.set&^follows]
		v := int32(t.level)
		if v == endOfBlock {
			w.put(false, p[0])
			continue
		}
		if t.set&follows == 0 {
			w.put(true, p[0])
		}
		if v == 0 {
			w.put(false, p[1])
			continue
		}
		w.put(true, p[1])
		negative := v < 0
		if negative {
			v = -v
		}
		w.level(v, p)
		w.put(negative, 128)
	}
}

// level writes a level of 1 or more, without its sign.
func (w *boolWriter) level(v int32, p *[nTree]uint8) {
	w.put(v > 1, p[2])
	if v == 1 {
		return
	}
	w.put(v > 4, p[3])
	if v <= 4 {
		w.put(v > 2, p[4])
		if v > 2 {
			w.put(v == 4, p[5])
		}
		return
	}
	w.put(v > 10, p[6])
	if v <= 10 {
		w.put(v > 6, p[7])
		if v <= 6 {
			w.put(v == 6, 159)
			return
		}
		w.put((v-7)&2 != 0, 165)
		w.put((v-7)&1 != 0, 145)
		return
	}
	w.put(v > 34, p[8])
	category, base, n := 0, int32(11), 3
	switch {
	case v > 66:
		w.put(true, p[10])
		category, base, n = 3, 67, 11
	case v > 34:
		w.put(false, p[10])
		category, base, n = 2, 35, 5
	case v > 18:
		w.put(true, p[9])
		category, base, n = 1, 19, 4
	default:
		w.put(false, p[9])
	}
	for i := range n {
		w.put((v-base)>>(n-1-i)&1 != 0, extraProbs[category][i])
	}
}

// costs[p] is what a branch costs that was expected with p/256, in 256ths of a bit.
type costs [257]uint32

func newCosts() *costs {
	c := &costs{}
	for p := 1; p <= 256; p++ {
		c[p] = uint32(math.Round(-256 * math.Log2(float64(p)/256)))
	}
	return c
}

func (c *costs) of(n [2]uint32, prob uint8) uint64 {
	return uint64(n[0])*uint64(c[prob]) + uint64(n[1])*uint64(c[256-int(prob)])
}

// adapt writes which token probabilities are new: those that save more than the
// word costs (section 13.4).
func (w *boolWriter) adapt(probs *[nSets][nTree]uint8, n *counts, c *costs) {
	for set := range probs {
		update := &updateProbs[set/(nBands*nCtx)][set/nCtx%nBands][set%nCtx]
		for i := range probs[set] {
			old, seen, u := probs[set][i], n[set][i], update[i]
			fresh := old
			if total := uint64(seen[0]) + uint64(seen[1]); total > 0 {
				fresh = uint8(min(max((uint64(seen[0])*255+total/2)/total, 1), 255))
			}
			renew := fresh != old && c.of(seen, fresh)+8*256+uint64(c[256-int(u)]) < c.of(seen, old)+uint64(c[u])
			w.put(renew, u)
			if renew {
				w.bits(uint32(fresh), 8)
				probs[set][i] = fresh
			}
		}
	}
}
