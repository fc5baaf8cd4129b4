package vp8

import (
	"fmt"
	"image"
	"math"
	"testing"
)

// psnr of luma: what decoders show against what the screen shows.
func psnr(e *Encoder, s *screen) float64 {
	var sum float64
	for y := range s.h {
		for x := range s.w {
			p := s.pix[(y*s.w+x)*4:]
			d := float64(luma(int32(p[2]), int32(p[1]), int32(p[0]))) - float64(e.rec.y.pix[y*e.rec.y.stride+x])
			sum += d * d
		}
	}
	return 10 * math.Log10(255*255*float64(s.w*s.h)/max(sum, 1))
}

// Nothing is allocated for a frame, whatever is in it.
func TestEncodeAllocatesNothing(t *testing.T) {
	e, s, _ := begin(t, 320, 240, 9)
	frames := make([]*screen, 6)
	for i := range frames {
		s.next()
		switch i {
		case 0:
			s.noise(s.bounds())
		case 3:
			s.text(s.bounds())
		default:
			s.scroll(s.bounds(), 5)
		}
		c := *s
		frames[i] = &c
	}
	buf := make([]byte, 0, 1<<20)
	i := 0
	encode := func() {
		f := frames[i%len(frames)]
		i++
		if _, _, err := e.Encode(buf, f.pix, f.w*4, []image.Rectangle{f.bounds()}, Params{Quant: 20, Key: i%4 == 0}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * len(frames) {
		encode()
	}
	if n := testing.AllocsPerRun(24, encode); n > 1 { // the slice of one rectangle
		t.Errorf("a frame allocates %.1f times", n)
	}
}

func benchmark(b *testing.B, w, h int, quant int, change func(s *screen, i int)) {
	e, err := New(w, h)
	if err != nil {
		b.Fatal(err)
	}
	s := newScreen(w, h, 1)
	s.text(s.bounds())
	const n = 24
	frames := make([]screen, n)
	for i := range frames {
		change(s, i)
		frames[i] = *s
		s.next()
	}
	buf := make([]byte, 0, 4<<20)
	if _, _, err := e.Encode(buf, frames[0].pix, w*4, nil, Params{Quant: quant}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var bytes int
	for i := range b.N {
		f := &frames[i%n]
		if i%n == 0 {
			f.dirty = append(f.dirty[:0], f.bounds())
		}
		out, _, err := e.Encode(buf, f.pix, w*4, f.dirty, Params{Quant: quant})
		if err != nil {
			b.Fatal(err)
		}
		bytes += len(out)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "frames/s")
	b.ReportMetric(float64(bytes)/float64(b.N), "B/frame")
}

func BenchmarkEncode(b *testing.B) {
	for _, size := range [][2]int{{1280, 720}, {1920, 1080}} {
		w, h := size[0], size[1]
		all := image.Rect(0, 0, w, h)
		b.Run(fmt.Sprintf("scroll/%d", h), func(b *testing.B) {
			benchmark(b, w, h, 24, func(s *screen, i int) { s.scroll(all, 16) })
		})
		b.Run(fmt.Sprintf("new-text/%d", h), func(b *testing.B) {
			benchmark(b, w, h, 40, func(s *screen, i int) { s.text(all) })
		})
		b.Run(fmt.Sprintf("letter/%d", h), func(b *testing.B) {
			benchmark(b, w, h, 24, func(s *screen, i int) { s.text(image.Rect(100+8*i, 100, 116+8*i, 116)) })
		})
		b.Run(fmt.Sprintf("static/%d", h), func(b *testing.B) {
			benchmark(b, w, h, 24, func(s *screen, i int) {})
		})
	}
}
