package vp8

import (
	"image"
	"testing"
)

// Foreign decoders, whatever a screen does, show what the encoder thinks. Each byte
// of the script is a thing that happens to the screen before a frame.
func FuzzEncode(f *testing.F) {
	f.Add(uint16(33), uint16(50), []byte{0, 16, 33, 200, 7, 90, 12})
	f.Add(uint16(320), uint16(240), []byte{1, 65, 129, 193, 2, 66, 255, 130, 6})
	f.Add(uint16(1), uint16(700), []byte{3, 4, 5, 6})
	f.Add(uint16(64), uint16(64), []byte{1, 17, 33, 49, 65, 81, 97, 113})
	f.Fuzz(func(t *testing.T, width, height uint16, script []byte) {
		w, h := int(width)%256+1, int(height)%256+1
		e, s, st := begin(t, w, h, uint64(len(script)))
		for i, op := range script[:min(len(script), 8)] {
			size := int(op>>3) + 1
			p := Params{Quant: int(op>>1) * (i & 1)}
			at := image.Rect(w*i/16, h/size, w, h)
			switch op & 7 {
			case 0:
				s.noise(at)
			case 1:
				s.text(at)
			case 2:
				s.scroll(at, size)
			case 3:
				s.scroll(at, -size)
			case 4:
				p.Key = true
			case 5:
				p.Refine = size * 8
			case 6:
				s.fill(at, uint32(op)*0x10305)
			}
			st.add(t, e, s, p)
			s.next()
		}
		if len(st.frames) > 0 {
			st.check(t)
		}
	})
}
