package guard

// window remembers which ticket sequences of one connection were seen. Streams
// may arrive out of order, so it keeps the last 1,024; what is older counts as
// seen.
type window struct {
	top  uint64
	bits [windowSize / 64]uint64
}

const windowSize = 1024

// accept reports whether seq is new, and marks it.
func (w *window) accept(seq uint64) bool {
	if seq == 0 {
		return false
	}
	if seq > w.top {
		if seq-w.top >= windowSize {
			w.bits = [windowSize / 64]uint64{}
		} else {
			for s := w.top + 1; s <= seq; s++ {
				w.bits[(s%windowSize)/64] &^= 1 << (s % 64)
			}
		}
		w.top = seq
		w.bits[(seq%windowSize)/64] |= 1 << (seq % 64)
		return true
	}
	if w.top-seq >= windowSize {
		return false
	}
	word, bit := &w.bits[(seq%windowSize)/64], uint64(1)<<(seq%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
