package picture

import (
	"bytes"
	"image"
	"image/jpeg"
)

// JPEG gives m as a JPEG file; quality is 1 to 100.
func JPEG(m Image, quality int) []byte {
	to := image.NewRGBA(image.Rect(0, 0, m.Width, m.Height))
	for y := range m.Height {
		src, dst := m.row(y), to.Pix[y*to.Stride:]
		for x := 0; x < len(src); x += 4 {
			dst[x], dst[x+1], dst[x+2], dst[x+3] = src[x+2], src[x+1], src[x], 255
		}
	}
	var out bytes.Buffer
	_ = jpeg.Encode(&out, to, &jpeg.Options{Quality: quality})
	return out.Bytes()
}
