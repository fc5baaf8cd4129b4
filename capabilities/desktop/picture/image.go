package picture

// Image is 4 bytes a pixel (blue, green, red, unused), rows of Stride bytes, top
// first, as platform.Frame has them. It is only read.
type Image struct {
	Pix                   []byte
	Stride, Width, Height int
}

// Crop returns a part of m, which shares its pixels. The part lies in m.
func (m Image) Crop(x, y, width, height int) Image {
	return Image{Pix: m.Pix[y*m.Stride+x*4:], Stride: m.Stride, Width: width, Height: height}
}

// row returns the pixels of a row.
func (m Image) row(y int) []byte { return m.Pix[y*m.Stride:][: m.Width*4 : m.Width*4] }

// Fit returns the largest size of m's shape that is at most as wide and as high (0:
// any), and not larger than m.
func (m Image) Fit(maxWidth, maxHeight int) (width, height int) {
	width, height = m.Width, m.Height
	if maxWidth > 0 && width > maxWidth {
		width, height = maxWidth, max(1, (m.Height*maxWidth+m.Width/2)/m.Width)
	}
	if maxHeight > 0 && height > maxHeight {
		width, height = max(1, (m.Width*maxHeight+m.Height/2)/m.Height), maxHeight
	}
	return width, height
}
