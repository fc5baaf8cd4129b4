package vp8

// boolWriter is the boolean entropy encoder of RFC 6386, section 7.3.
type boolWriter struct {
	out   []byte
	low   uint32
	width uint32 // 128..255 between calls
	count int    // bits of low beyond the byte that is written next, -24 at first
}

func (w *boolWriter) start(out []byte) {
	w.out, w.low, w.width, w.count = out, 0, 255, -24
}

// put writes bit, whose probability of being 0 is prob/256.
func (w *boolWriter) put(bit bool, prob uint8) {
	split := 1 + ((w.width-1)*uint32(prob))>>8
	if bit {
		w.low += split
		w.width -= split
	} else {
		w.width = split
	}
	if w.width >= 128 {
		return
	}
	shift := int(shifts[w.width])
	w.width <<= shift
	w.count += shift
	if w.count >= 0 {
		shift = w.flush(shift)
	}
	w.low <<= shift
}

// flush moves a whole byte out of low and returns the shift that is left to do.
func (w *boolWriter) flush(shift int) int {
	offset := shift - w.count
	if w.low<<(offset-1)&0x80000000 != 0 { // a carry runs into what is written
		i := len(w.out) - 1
		for w.out[i] == 0xff {
			w.out[i] = 0
			i--
		}
		w.out[i]++
	}
	w.out = append(w.out, byte(w.low>>(24-offset)))
	w.low = w.low << offset & 0xffffff
	shift = w.count
	w.count -= 8
	return shift
}

// bits writes the n low bits of v, the highest first, each as likely as not.
func (w *boolWriter) bits(v uint32, n int) {
	for n--; n >= 0; n-- {
		w.put(v>>n&1 != 0, 128)
	}
}

func (w *boolWriter) flag(on bool) { w.put(on, 128) }

// end writes what is left and returns the whole output.
func (w *boolWriter) end() []byte {
	w.bits(0, 32)
	return w.out
}

// shifts[w] brings a width w below 128 back to 128 or more.
var shifts = [128]uint8{
	7, 7, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4,
	3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
}
