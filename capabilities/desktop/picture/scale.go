package picture

import (
	"encoding/binary"
	"sync"
)

// Scale returns m in another size: where it becomes smaller each pixel is the mean
// of what it covers, by area, and where it becomes larger pixels are repeated.
func (m Image) Scale(width, height int) Image {
	if width == m.Width && height == m.Height {
		return m
	}
	out := Image{Pix: make([]byte, width*height*4), Stride: width * 4, Width: width, Height: height}
	columns, rows := cover(m.Width, width, 12), cover(m.Height, height, 9)
	var wg sync.WaitGroup
	for _, s := range cut(height, 32) {
		wg.Go(func() {
			line, sum := make([]uint64, width), make([]uint64, width)
			known := -1 // the row that is in line
			for y := s.from; y < s.to; y++ {
				clear(sum)
				for i, weight := range rows[y].weights {
					if from := rows[y].from + i; from != known {
						narrow(line, m.row(from), columns)
						known = from
					}
					for x, v := range line {
						sum[x] += v * weight
					}
				}
				to := out.row(y)
				for x, v := range sum {
					v += 1<<12 | 1<<33 | 1<<54 // halves, to round
					binary.LittleEndian.PutUint32(to[x*4:], uint32(v>>13&0xff|v>>34&0xff<<8|v>>55&0xff<<16))
				}
			}
		})
	}
	wg.Wait()
	return out
}

// narrow makes a row as wide as columns. The three colours of a pixel are worked
// on at once, in lanes of 21 bits: a value has 8 bits, 20 when the columns are
// summed up, of which 12 are kept, and 21 when the rows are.
func narrow(line []uint64, row []byte, columns []span) {
	const lanes = 0xfff | 0xfff<<21 | 0xfff<<42
	for x := range line {
		c := &columns[x]
		p := row[c.from*4:]
		sum := uint64(1<<7 | 1<<28 | 1<<49) // halves, to round
		for i, weight := range c.weights {
			v := uint64(binary.LittleEndian.Uint32(p[i*4:]))
			sum += (v&0xff | v&0xff00<<13 | v&0xff0000<<26) * weight
		}
		line[x] = sum >> 8 & lanes
	}
}

// span is what a pixel covers of the pixels that it is made of.
type span struct {
	from    int
	weights []uint64
}

// cover returns for each of to pixels what it covers of from; the weights of each
// are 1 << bits together.
func cover(from, to int, bits uint) []span {
	all := make([]span, to)
	if to >= from {
		for i := range all {
			all[i] = span{i * from / to, []uint64{1 << bits}}
		}
		return all
	}
	for i := range all {
		// In parts of 1/to of a pixel, of which each covers from.
		begin, end := i*from, (i+1)*from
		first, last := begin/to, (end-1)/to
		s := span{first, make([]uint64, last-first+1)}
		done := 0 // the parts so far, whose share is never rounded twice
		for k := range s.weights {
			upper := min(end, (first+k+1)*to) - begin
			s.weights[k] = uint64(upper<<bits/from) - uint64(done<<bits/from)
			done = upper
		}
		all[i] = s
	}
	return all
}
