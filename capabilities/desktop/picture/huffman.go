package picture

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// code is what stands for a symbol: size bits, the first one lowest.
type code struct {
	bits uint32
	size uint
}

// makeCodes returns every symbol that occurs a code of at most limit bits, the more
// often the shorter, in the canonical order of deflate.
func makeCodes(codes []code, counts []uint32, limit uint) {
	type node struct {
		count       uint32
		left, right int16 // nodes; for a leaf, left is the symbol and right -1
	}
	var leaves []node
	for i, n := range counts {
		if n > 0 {
			leaves = append(leaves, node{n, int16(i), -1})
		}
	}
	switch len(leaves) {
	case 0:
		return
	case 1:
		codes[leaves[0].left] = code{0, 1}
		return
	}
	for {
		slices.SortFunc(leaves, func(a, b node) int { return cmp.Compare(a.count, b.count) })
		// Two queues, both ascending: the leaves, and the nodes made of pairs.
		nodes := slices.Clone(leaves)
		leaf, pair := 0, len(leaves)
		least := func() int16 {
			if leaf < len(leaves) && (pair >= len(nodes) || nodes[leaf].count <= nodes[pair].count) {
				leaf++
				return int16(leaf - 1)
			}
			pair++
			return int16(pair - 1)
		}
		for range len(leaves) - 1 {
			a, b := least(), least()
			nodes = append(nodes, node{nodes[a].count + nodes[b].count, a, b})
		}
		depth := make([]uint, len(nodes))
		deepest := uint(0)
		for i := len(nodes) - 1; i >= 0; i-- {
			if n := nodes[i]; i >= len(leaves) {
				depth[n.left], depth[n.right] = depth[i]+1, depth[i]+1
			} else {
				codes[n.left].size = depth[i]
				deepest = max(deepest, depth[i])
			}
		}
		if deepest <= limit {
			break
		}
		for i := range leaves { // flatter, until it fits
			leaves[i].count = leaves[i].count/2 + 1
		}
	}
	assign(codes)
}

// assign numbers the codes of equal size in the order of their symbols.
func assign(codes []code) {
	var count, next [17]uint32
	for _, c := range codes {
		if c.size > 0 {
			count[c.size]++
		}
	}
	for i := 1; i < len(next); i++ {
		next[i] = (next[i-1] + count[i-1]) << 1
	}
	for i, c := range codes {
		if c.size > 0 {
			codes[i].bits = bits.Reverse32(next[c.size]) >> (32 - c.size)
			next[c.size]++
		}
	}
}

// bitWriter collects bits, the lowest first.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint // of acc; less than 8 after flush
}

func (w *bitWriter) grow(n int) { w.out = slices.Grow(w.out, n) }

// put adds bits; at most 56 between two calls of flush.
func (w *bitWriter) put(v uint64, size uint) {
	w.acc |= v << (w.n & 63)
	w.n += size
}

// flush writes whole bytes; there has to be room for eight.
func (w *bitWriter) flush() {
	n := len(w.out)
	binary.LittleEndian.PutUint64(w.out[n:n+8], w.acc)
	w.out = w.out[:n+int(w.n>>3)]
	w.acc >>= w.n &^ 7 & 63
	w.n &= 7
}

// align fills the last byte up.
func (w *bitWriter) align() {
	if w.n > 0 {
		w.out = append(w.out, byte(w.acc))
	}
	w.acc, w.n = 0, 0
}

// sync ends at a byte, with an empty stored block, so that others can follow.
func (w *bitWriter) sync() {
	w.grow(16)
	w.put(0, 3)
	w.flush()
	w.align()
	w.out = append(w.out, 0, 0, 0xff, 0xff)
}

// header begins a block with codes of its own:
//
//	final:1, 2:2, literals-257:5, distances-1:5, sizes-4:4, the sizes of sizes, the sizes
func (w *bitWriter) header(final bool, lits, dists []code) {
	used := func(c []code, least int) []code {
		n := len(c)
		for n > least && c[n-1].size == 0 {
			n--
		}
		return c[:n]
	}
	lits, dists = used(lits, 257), used(dists, 1)
	// Sizes, runs of them as 16 (the last one 3 to 6 times), 17 and 18 (zeros).
	type item struct{ symbol, extra uint8 }
	var items []item
	var counts [19]uint32
	all := make([]uint8, 0, len(lits)+len(dists))
	for _, c := range slices.Concat(lits, dists) {
		all = append(all, uint8(c.size))
	}
	emit := func(symbol, extra int) {
		items = append(items, item{uint8(symbol), uint8(extra)})
		counts[symbol]++
	}
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n] == all[i] {
			n++
		}
		i += n
		size := int(all[i-1])
		if size != 0 {
			emit(size, 0)
			n--
		}
		for n >= 3 {
			switch {
			case size != 0:
				emit(16, min(n, 6)-3)
				n -= min(n, 6)
			case n < 11:
				emit(17, n-3)
				n = 0
			default:
				emit(18, min(n, 138)-11)
				n -= min(n, 138)
			}
		}
		for ; n > 0; n-- {
			emit(size, 0)
		}
	}
	var sizes [19]code
	makeCodes(sizes[:], counts[:], 7)
	last := 19
	for last > 4 && sizes[sizeOrder[last-1]].size == 0 {
		last--
	}
	b := uint64(0)
	if final {
		b = 1
	}
	w.put(b|2<<1, 3)
	w.put(uint64(len(lits)-257), 5)
	w.put(uint64(len(dists)-1), 5)
	w.put(uint64(last-4), 4)
	w.flush()
	for _, s := range sizeOrder[:last] {
		w.put(uint64(sizes[s].size), 3)
		w.flush()
	}
	for _, it := range items {
		w.put(uint64(sizes[it.symbol].bits), sizes[it.symbol].size)
		if it.symbol >= 16 {
			w.put(uint64(it.extra), [3]uint{2, 3, 7}[it.symbol-16])
		}
		w.flush()
	}
}

// The tables of RFC 1951, 3.2.5 to 3.2.7.
var (
	sizeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

	lengthBase  = [29]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthExtra = [29]uint{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	lengthCode  = lengthCodes() // of a length, 257 and up

	distBase = [30]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073,
		4097, 6145, 8193, 12289, 16385, 24577}
	distExtra = [30]uint{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
)

func lengthCodes() (all [longest + 1]uint16) {
	for i, base := range lengthBase {
		for n := int(base); n <= longest; n++ {
			all[n] = uint16(257 + i)
		}
	}
	return all
}
