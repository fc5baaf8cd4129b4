package sound

import (
	"crypto/md5"
	"encoding/binary"
	"io"
	"math/bits"
)

// block is how many samples a frame holds; partitions is how many parts of a full one
// have a Rice parameter of their own.
const (
	block          = 4096
	partitionOrder = 4
	maxRice        = 14
)

// FLAC writes samples of one channel as a FLAC file (RFC 9639): 16 bits, rate in Hz, at
// most 65,535.
// Every frame is predicted from its own samples only and so can be decoded by itself.
//
//	"fLaC" | block head, STREAMINFO | frame …
func FLAC(w io.Writer, samples []int16, rate int) error {
	sum := md5.New() //nolint:gosec // the format's own checksum
	raw := make([]byte, 0, 2*block)
	for part := samples; len(part) > 0; {
		n := min(block, len(part))
		raw = raw[:0]
		for _, s := range part[:n] {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(s))
		}
		sum.Write(raw)
		part = part[n:]
	}
	head := append([]byte("fLaC"), 0x80, 0, 0, 34) // the last metadata block, STREAMINFO, 34 bytes
	head = binary.BigEndian.AppendUint16(head, block)
	head = binary.BigEndian.AppendUint16(head, block)
	head = append(head, 0, 0, 0, 0, 0, 0) // sizes of frames: not told
	// 20 bits rate, 3 channels-1, 5 bits-1, 36 samples
	head = binary.BigEndian.AppendUint64(head, uint64(rate)<<44|0<<41|15<<36|uint64(len(samples)))
	head = sum.Sum(head)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for number := 0; len(samples) > 0; number++ {
		n := min(block, len(samples))
		if _, err := w.Write(frame(samples[:n], number, rate)); err != nil {
			return err
		}
		samples = samples[n:]
	}
	return nil
}

// frame makes one frame:
//
//	sync 14, 0, fixed block size | size 4, rate 4 | channels 4, bits 3, 0 | number | [size-1] | rate | CRC-8
//	subframe, to the byte | CRC-16
func frame(samples []int16, number, rate int) []byte {
	var b bitWriter
	b.put(0xFFF8, 16)
	if len(samples) == block {
		b.put(12, 4)
	} else {
		b.put(7, 4) // 16 bits after the number
	}
	b.put(13, 4)         // the rate in 16 bits, at the end
	b.put(0b00001000, 8) // one channel, 16 bits
	for _, c := range utf8(number) {
		b.put(uint64(c), 8)
	}
	if len(samples) != block {
		b.put(uint64(len(samples)-1), 16)
	}
	b.put(uint64(rate), 16)
	b.put(uint64(crc8(b.bytes)), 8)
	subframe(&b, samples)
	b.align()
	return binary.BigEndian.AppendUint16(b.bytes, crc16(b.bytes))
}

// utf8 is the frame number in UTF-8's form, beyond what a code point may be.
func utf8(n int) []byte {
	switch {
	case n < 0x80:
		return []byte{byte(n)}
	case n < 0x800:
		return []byte{0xC0 | byte(n>>6), 0x80 | byte(n&0x3F)}
	}
	return []byte{0xE0 | byte(n>>12&0x0F), 0x80 | byte(n>>6&0x3F), 0x80 | byte(n&0x3F)}
}

// subframe takes the cheapest of a constant, the fixed predictors and the samples as
// they are.
func subframe(b *bitWriter, samples []int16) {
	if constant(samples) {
		b.put(0, 8)
		b.put(uint64(uint16(samples[0])), 16)
		return
	}
	order, least := -1, uint64(16*len(samples))
	residual := make([]int32, len(samples))
	for i, s := range samples {
		residual[i] = int32(s)
	}
	var best []int32
	for o := 0; o <= 4 && o < len(samples); o++ {
		if o > 0 { // each order is the difference of the one before
			for i := len(residual) - 1; i >= o; i-- {
				residual[i] -= residual[i-1]
			}
		}
		if size := uint64(16*o) + cost(residual[o:], o, len(samples)); size < least {
			order, least, best = o, size, append(best[:0], residual[o:]...)
		}
	}
	if order < 0 {
		b.put(1<<1, 8)
		for _, s := range samples {
			b.put(uint64(uint16(s)), 16)
		}
		return
	}
	b.put(uint64(8|order)<<1, 8)
	for _, s := range samples[:order] {
		b.put(uint64(uint16(s)), 16)
	}
	parts := order4(len(samples))
	b.put(0, 2)
	b.put(uint64(bits.Len(uint(parts))-1), 4)
	partitions(best, order, len(samples), func(part []int32) {
		k, _ := rice(part)
		b.put(uint64(k), 4)
		for _, r := range part {
			z := zigzag(r)
			for q := z >> k; q > 0; {
				n := min(q, 32)
				b.put(0, int(n))
				q -= n
			}
			b.put(1, 1)
			b.put(uint64(z)&(1<<k-1), k)
		}
	})
}

func constant(samples []int16) bool {
	for _, s := range samples {
		if s != samples[0] {
			return false
		}
	}
	return true
}

// order4 is how many partitions a block of that many samples has.
func order4(samples int) int {
	if samples == block {
		return 1 << partitionOrder
	}
	return 1
}

// partitions calls f with each part of a residual; the first is shorter by the warm-up.
func partitions(residual []int32, order, samples int, f func([]int32)) {
	parts := order4(samples)
	for p := range parts {
		n := samples / parts
		if p == 0 {
			n -= order
		}
		f(residual[:n])
		residual = residual[n:]
	}
}

func cost(residual []int32, order, samples int) uint64 {
	total := uint64(6)
	partitions(residual, order, samples, func(part []int32) {
		_, size := rice(part)
		total += 4 + size
	})
	return total
}

// rice gives the parameter that makes part shortest, and its bits then.
func rice(part []int32) (k int, size uint64) {
	var sum uint64
	for _, r := range part {
		sum += uint64(zigzag(r))
	}
	if len(part) == 0 {
		return 0, 0
	}
	// The best is at the mean's size or beside it.
	guess := max(0, bits.Len64(sum/uint64(len(part)))-1)
	size = 1 << 62
	for c := max(0, guess-1); c <= min(maxRice, guess+1); c++ {
		n := uint64(len(part)) * uint64(1+c)
		for _, r := range part {
			n += uint64(zigzag(r) >> c)
		}
		if n < size {
			k, size = c, n
		}
	}
	if size == 1<<62 {
		k = maxRice
		size = uint64(len(part)) * (1 + maxRice)
		for _, r := range part {
			size += uint64(zigzag(r) >> maxRice)
		}
	}
	return k, size
}

func zigzag(r int32) uint32 { return uint32(r<<1) ^ uint32(r>>31) }

// bitWriter puts bits together, the highest first.
type bitWriter struct {
	bytes []byte
	held  uint64
	n     int
}

// put adds the lowest n bits of v; n is at most 32.
func (b *bitWriter) put(v uint64, n int) {
	b.held, b.n = b.held<<n|v&(1<<n-1), b.n+n
	for b.n >= 8 {
		b.n -= 8
		b.bytes = append(b.bytes, byte(b.held>>b.n))
	}
}

func (b *bitWriter) align() {
	if b.n > 0 {
		b.put(0, 8-b.n)
	}
}

func crc8(data []byte) (c uint8) {
	for _, d := range data {
		c ^= d
		for range 8 {
			if c&0x80 != 0 {
				c = c<<1 ^ 0x07
			} else {
				c <<= 1
			}
		}
	}
	return c
}

func crc16(data []byte) (c uint16) {
	for _, d := range data {
		c ^= uint16(d) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x8005
			} else {
				c <<= 1
			}
		}
	}
	return c
}
