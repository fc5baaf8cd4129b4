package picture

import (
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"sync"
)

// PNG returns m as a PNG file with 24 bits a pixel.
//
// Every row is stored as its difference to the row above (filter 2, Up): what a
// screen repeats downwards, which is most of it, becomes zeros, and what it
// repeats sideways, such as letters, stays repeated. The differences are made and
// packed pixel by pixel in one pass, see deflate.go, in as many strips as there
// are processors; a deflate stream may be put together from pieces.
func PNG(m Image) []byte {
	strips := cut(m.Height, 64)
	packs := make([]*packer, len(strips))
	var wg sync.WaitGroup
	for i, s := range strips {
		packs[i] = newPacker(m, s.from, s.to, i == len(strips)-1)
		wg.Go(packs[i].pack)
	}
	wg.Wait()

	size := 64
	for _, p := range packs {
		size += len(p.out)
	}
	out := append(make([]byte, 0, size+16), "\x89PNG\r\n\x1a\n"...)
	head := binary.BigEndian.AppendUint32(nil, uint32(m.Width))
	head = binary.BigEndian.AppendUint32(head, uint32(m.Height))
	out = chunk(out, "IHDR", append(head, 8, 2, 0, 0, 0))
	data := [][]byte{{0x78, 0x01}} // zlib: deflate, window of 32 KiB, fastest
	sum := checksum{a: 1}
	for _, p := range packs {
		data = append(data, p.out)
		sum = sum.then(p.sum, p.bytes())
	}
	out = chunk(out, "IDAT", append(data, binary.BigEndian.AppendUint32(nil, sum.value()))...)
	return chunk(out, "IEND")
}

// chunk appends length:4, kind, data and the checksum of both.
func chunk(out []byte, kind string, data ...[]byte) []byte {
	size := 0
	for _, d := range data {
		size += len(d)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(size))
	from := len(out)
	out = append(out, kind...)
	for _, d := range data {
		out = append(out, d...)
	}
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[from:]))
}

// strip is a range of rows.
type strip struct{ from, to int }

// cut divides rows for the processors; none gets less than least.
func cut(rows, least int) []strip {
	n := max(1, min(runtime.GOMAXPROCS(0), 8, rows/least))
	all := make([]strip, n)
	for i := range all {
		all[i] = strip{rows * i / n, rows * (i + 1) / n}
	}
	return all
}

// checksum is Adler-32: a is the sum of all bytes, b that of all values of a. It is
// taken modulo 65521 at the end only: for a billion bytes both fit.
type checksum struct{ a, b uint64 }

const adler = 65521

// then returns the checksum of what c is of, followed by size bytes with the sums s,
// which began from nothing.
func (c checksum) then(s checksum, size int) checksum {
	return checksum{(c.a + s.a) % adler, (c.b + c.a*(uint64(size)%adler) + s.b%adler) % adler}
}

func (c checksum) value() uint32 { return uint32(c.b%adler)<<16 | uint32(c.a%adler) }
