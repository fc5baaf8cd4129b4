package picture

// Scale gives m in another size, each pixel the mean of what it covers. It is for
// smaller sizes; a larger one repeats pixels.
func (m Image) Scale(width, height int) Image {
	if width == m.Width && height == m.Height {
		return m
	}
	out := Image{Pix: make([]byte, width*height*4), Stride: width * 4, Width: width, Height: height}
	for y := range height {
		y0, y1 := y*m.Height/height, max((y+1)*m.Height/height, y*m.Height/height+1)
		for x := range width {
			x0, x1 := x*m.Width/width, max((x+1)*m.Width/width, x*m.Width/width+1)
			var b, g, r uint32
			for v := y0; v < y1; v++ {
				p := m.row(v)[x0*4 : x1*4]
				for i := 0; i < len(p); i += 4 {
					b, g, r = b+uint32(p[i]), g+uint32(p[i+1]), r+uint32(p[i+2])
				}
			}
			n := uint32((y1 - y0) * (x1 - x0))
			copy(out.Pix[y*out.Stride+x*4:], []byte{byte(b / n), byte(g / n), byte(r / n)})
		}
	}
	return out
}
