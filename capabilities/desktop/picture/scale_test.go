package picture

import (
	"bytes"
	"fmt"
	"testing"
)

func TestFit(t *testing.T) {
	m := Image{Width: 1920, Height: 1080}
	for _, c := range [][4]int{
		{0, 0, 1920, 1080}, {1280, 0, 1280, 720}, {0, 540, 960, 540}, {1280, 100, 178, 100}, {5000, 5000, 1920, 1080}, {1, 0, 1, 1}, {0, 1, 2, 1},
	} {
		if w, h := m.Fit(c[0], c[1]); w != c[2] || h != c[3] {
			t.Errorf("within %d x %d: %d x %d, want %d x %d", c[0], c[1], w, h, c[2], c[3])
		}
	}
	if w, h := (Image{Width: 3000, Height: 1}).Fit(10, 0); w != 10 || h != 1 {
		t.Errorf("%d x %d", w, h)
	}
}

// Each pixel is the mean by area, but for roundings.
func TestScaleIsTheMean(t *testing.T) {
	for name, m := range map[string]Image{"noise": noise(211, 97), "photo": photo(300, 200), "a part": noise(300, 300).Crop(7, 9, 120, 140)} {
		for _, size := range [][2]int{{1, 1}, {10, 7}, {m.Width / 2, m.Height / 2}, {m.Width - 1, m.Height - 1}, {m.Width, 3}, {3, m.Height}, {m.Width * 2, m.Height / 3}} {
			w, h := size[0], size[1]
			got := m.Scale(w, h)
			if got.Width != w || got.Height != h {
				t.Fatalf("%d x %d, want %v", got.Width, got.Height, size)
			}
			for y := range h {
				for x := y % 11; x < w; x += 11 {
					for c := range 3 {
						want := mean(m, x, y, w, h, c)
						if v := float64(got.row(y)[x*4+c]); v < want-2 || v > want+2 {
							t.Fatalf("%s to %v: at %d,%d %v, want %v", name, size, x, y, v, want)
						}
					}
				}
			}
		}
	}
	white := fill(333, 222, func(int, int) (uint8, uint8, uint8) { return 255, 255, 255 }).Scale(100, 50)
	for i := 0; i < len(white.Pix); i += 4 {
		if !bytes.Equal(white.Pix[i:i+3], []byte{255, 255, 255}) {
			t.Fatalf("white became %v", white.Pix[i:i+3])
		}
	}
	m := photo(20, 20)
	if same := m.Scale(20, 20); &same.Pix[0] != &m.Pix[0] {
		t.Error("the same size was copied")
	}
}

// mean is the plain way: what a pixel covers, in the source's pixels.
func mean(m Image, x, y, w, h, c int) float64 {
	share := func(i, from, to, pixel int) float64 {
		if to >= from {
			if i*from/to == pixel {
				return 1
			}
			return 0
		}
		lo, hi := float64(i)*float64(from)/float64(to), float64(i+1)*float64(from)/float64(to)
		return max(0, min(hi, float64(pixel+1))-max(lo, float64(pixel)))
	}
	sum, total := 0.0, 0.0
	for v := range m.Height {
		sv := share(y, m.Height, h, v)
		if sv == 0 {
			continue
		}
		for u := range m.Width {
			s := sv * share(x, m.Width, w, u)
			sum += s * float64(m.row(v)[u*4+c])
			total += s
		}
	}
	return sum / total
}

func BenchmarkScale(b *testing.B) {
	for _, size := range [][2]int{{1280, 720}, {960, 540}, {640, 360}} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			m := plain(1920, 1080)
			for b.Loop() {
				m.Scale(size[0], size[1])
			}
		})
	}
}
