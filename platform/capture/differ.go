package capture

import (
	"bytes"
	"encoding/binary"

	"github.com/handrail-dev/handrail/platform"
)

// differ returns the smallest area around the pixels that pix and f do not share,
// within area, which lies in f's and is where pix begins. The fourth byte of a
// pixel says nothing, and some drivers leave it as it is.
func differ(area platform.Rect, pix []byte, stride int, f *platform.Frame) platform.Rect {
	x0, y0, x1, y1 := area.Width, area.Height, 0, 0
	for y := range area.Height {
		a := pix[y*stride:][:area.Width*4]
		b := f.Pix[(area.Y-f.Area.Y+y)*f.Stride+(area.X-f.Area.X)*4:][:area.Width*4]
		if bytes.Equal(a, b) {
			continue
		}
		first, last := -1, -1
		for x := range area.Width {
			if unlike(a, b, x) {
				first = x
				break
			}
		}
		if first < 0 {
			continue
		}
		for last = area.Width - 1; !unlike(a, b, last); last-- {
		}
		x0, x1 = min(x0, first), max(x1, last+1)
		y0, y1 = min(y0, y), y+1
	}
	if x1 <= x0 {
		return platform.Rect{}
	}
	return platform.Rect{X: area.X + x0, Y: area.Y + y0, Width: x1 - x0, Height: y1 - y0}
}

// alike reports whether differ would give nothing, at the price of what is alike.
func alike(area platform.Rect, pix []byte, stride int, f *platform.Frame) bool {
	for y := range area.Height {
		a := pix[y*stride:][:area.Width*4]
		b := f.Pix[(area.Y-f.Area.Y+y)*f.Stride+(area.X-f.Area.X)*4:][:area.Width*4]
		if bytes.Equal(a, b) {
			continue
		}
		for x := range area.Width {
			if unlike(a, b, x) {
				return false
			}
		}
	}
	return true
}

func unlike(a, b []byte, x int) bool {
	return (binary.LittleEndian.Uint32(a[x*4:])^binary.LittleEndian.Uint32(b[x*4:]))&0xffffff != 0
}
