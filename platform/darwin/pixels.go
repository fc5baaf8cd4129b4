package darwin

import (
	"image"

	"github.com/handrail-dev/handrail/platform"
)

// copyRGBA copies part of a display's picture into the buffer of area, as blue,
// green, red and a byte that nobody uses. Both rectangles hold part.
func copyRGBA(pix []byte, area platform.Rect, picture *image.RGBA, display, part platform.Rect) {
	for y := part.Y; y < part.Y+part.Height; y++ {
		from := picture.PixOffset(part.X-display.X, y-display.Y)
		to := ((y-area.Y)*area.Width + part.X - area.X) * 4
		for range part.Width {
			pix[to], pix[to+1], pix[to+2], pix[to+3] = picture.Pix[from+2], picture.Pix[from+1], picture.Pix[from], 0xFF
			from, to = from+4, to+4
		}
	}
}
