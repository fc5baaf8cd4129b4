package vp8

func clip(v int32) uint8 {
	if uint32(v) > 255 {
		return uint8(^v >> 31)
	}
	return uint8(v)
}

// edges are the pixels around a square that its prediction is made of. Outside
// the picture they are 127 above and 129 at the left (section 12.2).
type edges struct {
	above   [16]uint8
	left    [16]uint8
	corner  uint8
	hasUp   bool
	hasLeft bool
}

// around reads the edges of the n x n square at x, y.
func (e *edges) around(p *plane, x, y, n int) {
	e.hasUp, e.hasLeft = y > 0, x > 0
	at := y*p.stride + x
	if e.hasUp {
		copy(e.above[:n], p.pix[at-p.stride:])
	} else {
		for i := range n {
			e.above[i] = 127
		}
	}
	if e.hasLeft {
		for i := range n {
			e.left[i] = p.pix[at+i*p.stride-1]
		}
	} else {
		for i := range n {
			e.left[i] = 129
		}
	}
	switch {
	case !e.hasUp:
		e.corner = 127
	case !e.hasLeft:
		e.corner = 129
	default:
		e.corner = p.pix[at-p.stride-1]
	}
}

// square predicts n x n pixels (16 or 8) into dst by one of the four modes of
// macroblocks (sections 12.2 and 12.3).
func (e *edges) square(dst []uint8, n int, mode uint8) {
	switch mode {
	case modeDC:
		sum, count := int32(0), int32(0)
		if e.hasUp {
			for _, v := range e.above[:n] {
				sum += int32(v)
			}
			count += int32(n)
		}
		if e.hasLeft {
			for _, v := range e.left[:n] {
				sum += int32(v)
			}
			count += int32(n)
		}
		v := uint8(128)
		if count > 0 {
			v = uint8((sum + count/2) / count)
		}
		dst = dst[:n*n]
		for i := range dst {
			dst[i] = v
		}
	case modeV:
		for y := range n {
			copy(dst[y*n:y*n+n], e.above[:n])
		}
	case modeH:
		for y := range n {
			row, v := dst[y*n:y*n+n], e.left[y]
			for i := range row {
				row[i] = v
			}
		}
	case modeTM:
		for y := range n {
			row, d := dst[y*n:y*n+n], int32(e.left[y])-int32(e.corner)
			for i := range row {
				row[i] = clip(int32(e.above[i]) + d)
			}
		}
	}
}

// near are the 13 pixels around a block of 4x4: those at the left from the lowest
// up, the corner, those above, those above at the right.
type near [13]uint8

func avg2(a, b uint8) uint8    { return uint8((int32(a) + int32(b) + 1) >> 1) }
func avg3(a, b, c uint8) uint8 { return uint8((int32(a) + 2*int32(b) + int32(c) + 2) >> 2) }

// small predicts a block of 4x4 (section 12.3).
func (n *near) small(d *[16]uint8, mode uint8) {
	above := (*[8]uint8)(n[5:])
	switch mode {
	case modeDC:
		sum := int32(4)
		for i := range 4 {
			sum += int32(n[i]) + int32(above[i])
		}
		v := uint8(sum >> 3)
		for i := range d {
			d[i] = v
		}
	case modeTM:
		for y := range 4 {
			b := int32(n[3-y]) - int32(n[4])
			for x := range 4 {
				d[y*4+x] = clip(b + int32(above[x]))
			}
		}
	case modeV:
		for x := range 4 {
			v := avg3(n[4+x], n[5+x], n[6+x])
			d[x], d[4+x], d[8+x], d[12+x] = v, v, v, v
		}
	case modeH:
		for y, v := range [4]uint8{avg3(n[4], n[3], n[2]), avg3(n[3], n[2], n[1]), avg3(n[2], n[1], n[0]), avg3(n[1], n[0], n[0])} {
			d[y*4], d[y*4+1], d[y*4+2], d[y*4+3] = v, v, v, v
		}
	case modeRD:
		for y := range 4 {
			for x := range 4 {
				i := 4 - y + x
				d[y*4+x] = avg3(n[i-1], n[i], n[i+1])
			}
		}
	case modeVR:
		d[12] = avg3(n[1], n[2], n[3])
		d[8] = avg3(n[2], n[3], n[4])
		d[4] = avg3(n[3], n[4], n[5])
		d[13] = d[4]
		d[0] = avg2(n[4], n[5])
		d[9] = d[0]
		d[14], d[5] = avg3(n[4], n[5], n[6]), avg3(n[4], n[5], n[6])
		d[10], d[1] = avg2(n[5], n[6]), avg2(n[5], n[6])
		d[15], d[6] = avg3(n[5], n[6], n[7]), avg3(n[5], n[6], n[7])
		d[11], d[2] = avg2(n[6], n[7]), avg2(n[6], n[7])
		d[7] = avg3(n[6], n[7], n[8])
		d[3] = avg2(n[7], n[8])
	case modeLD:
		for y := range 4 {
			for x := range 4 {
				i := x + y
				d[y*4+x] = avg3(above[i], above[i+1], above[min(i+2, 7)])
			}
		}
	case modeVL:
		a := above
		d[0] = avg2(a[0], a[1])
		d[4] = avg3(a[0], a[1], a[2])
		d[1], d[8] = avg2(a[1], a[2]), avg2(a[1], a[2])
		d[5], d[12] = avg3(a[1], a[2], a[3]), avg3(a[1], a[2], a[3])
		d[2], d[9] = avg2(a[2], a[3]), avg2(a[2], a[3])
		d[6], d[13] = avg3(a[2], a[3], a[4]), avg3(a[2], a[3], a[4])
		d[3], d[10] = avg2(a[3], a[4]), avg2(a[3], a[4])
		d[7], d[14] = avg3(a[3], a[4], a[5]), avg3(a[3], a[4], a[5])
		d[11] = avg3(a[4], a[5], a[6])
		d[15] = avg3(a[5], a[6], a[7])
	case modeHD:
		d[12] = avg2(n[0], n[1])
		d[13] = avg3(n[0], n[1], n[2])
		d[8], d[14] = avg2(n[1], n[2]), avg2(n[1], n[2])
		d[9], d[15] = avg3(n[1], n[2], n[3]), avg3(n[1], n[2], n[3])
		d[4], d[10] = avg2(n[2], n[3]), avg2(n[2], n[3])
		d[5], d[11] = avg3(n[2], n[3], n[4]), avg3(n[2], n[3], n[4])
		d[0], d[6] = avg2(n[3], n[4]), avg2(n[3], n[4])
		d[1], d[7] = avg3(n[3], n[4], n[5]), avg3(n[3], n[4], n[5])
		d[2] = avg3(n[4], n[5], n[6])
		d[3] = avg3(n[5], n[6], n[7])
	case modeHU:
		p, q, r, s := n[3], n[2], n[1], n[0]
		d[0] = avg2(p, q)
		d[1] = avg3(p, q, r)
		d[2], d[4] = avg2(q, r), avg2(q, r)
		d[3], d[5] = avg3(q, r, s), avg3(q, r, s)
		d[6], d[8] = avg2(r, s), avg2(r, s)
		d[7], d[9] = avg3(r, s, s), avg3(r, s, s)
		d[10], d[11], d[12], d[13], d[14], d[15] = s, s, s, s, s, s
	}
}

// shifted copies the n x n square at x, y+rows of p, which lies within it.
func shifted(dst []uint8, p *plane, x, y, n int) {
	for i := range n {
		copy(dst[i*n:i*n+n], p.pix[(y+i)*p.stride+x:])
	}
}

// halfway predicts n x n pixels that lie half a row below x, y, by the six taps of
// section 18.3. Rows outside the plane are its first or last.
func halfway(dst []uint8, p *plane, x, y, n int) {
	var rows [6][]uint8
	for i := range n {
		for t := range rows {
			r := min(max(y+i+t-2, 0), p.height-1)
			rows[t] = p.pix[r*p.stride+x : r*p.stride+x+n]
		}
		out := dst[i*n : i*n+n]
		for j := range out {
			v := 3*(int32(rows[0][j])+int32(rows[5][j])) - 16*(int32(rows[1][j])+int32(rows[4][j])) + 77*(int32(rows[2][j])+int32(rows[3][j]))
			out[j] = clip((v + 64) >> 7)
		}
	}
}
