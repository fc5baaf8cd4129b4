package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"
)

// fill makes an image by a function of the place; the unused bytes are noise.
func fill(width, height int, at func(x, y int) (r, g, b uint8)) Image {
	m := Image{Pix: make([]byte, width*height*4), Stride: width * 4, Width: width, Height: height}
	for y := range height {
		for x := range width {
			p := m.Pix[y*m.Stride+x*4:]
			p[2], p[1], p[0] = at(x, y)
			p[3] = byte(x * y)
		}
	}
	return m
}

// plain is like a desktop: areas of one colour, frames, and lines of letters.
func plain(width, height int) Image {
	rng := rand.New(rand.NewPCG(1, 2))
	m := fill(width, height, func(x, y int) (uint8, uint8, uint8) { return 58, 110, 165 })
	rect := func(x, y, w, h int, c color.RGBA) {
		for v := max(0, y); v < min(height, y+h); v++ {
			for u := max(0, x); u < min(width, x+w); u++ {
				copy(m.Pix[v*m.Stride+u*4:], []byte{c.B, c.G, c.R})
			}
		}
	}
	var font [64][12][8]uint8 // shades of letters, as smoothed edges are
	for i := range font {
		for y := range 12 {
			for x := range 8 {
				if rng.IntN(3) == 0 {
					font[i][y][x] = uint8(rng.IntN(256))
				}
			}
		}
	}
	for range 6 {
		x, y, w, h := rng.IntN(width), rng.IntN(height), width/3, height/3
		rect(x-1, y-1, w+2, h+26, color.RGBA{90, 90, 90, 0})
		rect(x, y, w, 24, color.RGBA{222, 220, 215, 0})
		rect(x, y+24, w, h, color.RGBA{255, 255, 255, 0})
		for line := y + 30; line < y+h; line += 16 {
			for u, end := x+6, x+6+rng.IntN(w-5); u+8 < end; u += 8 {
				if letter := rng.IntN(80); letter < 64 {
					for v := range 12 {
						for s, shade := range font[letter][v] {
							rect(u+s, line+v, 1, 1, color.RGBA{255 - shade, 255 - shade, 255 - shade/2, 0})
						}
					}
				}
			}
		}
	}
	return m
}

// photo is like a photograph: gradients, waves and noise.
func photo(width, height int) Image {
	rng := rand.New(rand.NewPCG(3, 4))
	return fill(width, height, func(x, y int) (uint8, uint8, uint8) {
		v := 60*math.Sin(float64(x)/90)*math.Cos(float64(y)/70) + float64(rng.IntN(9))
		return uint8(120 + v), uint8(100 + v/2 + float64(x*80/width)), uint8(90 + float64(y*120/height) - v/3)
	})
}

func noise(width, height int) Image {
	rng := rand.New(rand.NewPCG(5, 6))
	return fill(width, height, func(int, int) (uint8, uint8, uint8) {
		v := rng.Uint32()
		return uint8(v), uint8(v >> 8), uint8(v >> 16)
	})
}

func images() map[string]Image {
	all := map[string]Image{
		"plain": plain(420, 300), "photo": photo(200, 260), "noise": noise(150, 270), "odd noise": noise(13, 257),
		"one colour":       fill(300, 200, func(int, int) (uint8, uint8, uint8) { return 7, 7, 7 }),
		"black":            fill(64, 64, func(int, int) (uint8, uint8, uint8) { return 0, 0, 0 }),
		"columns":          fill(321, 200, func(x, _ int) (uint8, uint8, uint8) { return uint8(x), uint8(x * 3), uint8(x / 2) }),
		"rows":             fill(200, 321, func(_, y int) (uint8, uint8, uint8) { return uint8(y), uint8(y * 3), uint8(y / 2) }),
		"checks":           fill(257, 129, func(x, y int) (uint8, uint8, uint8) { v := uint8((x ^ y) & 1 * 255); return v, v, v }),
		"wide":             plain(12000, 9), // a row is longer than the window
		"blue only":        fill(99, 99, func(x, y int) (uint8, uint8, uint8) { return 0, 0, uint8(x * y) }),
		"red only":         fill(99, 99, func(x, y int) (uint8, uint8, uint8) { return uint8(x * y), 0, 0 }),
		"tall":             photo(3, 1000),
		"rare differences": fill(200, 200, func(x, y int) (uint8, uint8, uint8) { return uint8((x*y)%997/990) * 9, 5, 5 }),
	}
	for _, size := range [][2]int{{1, 1}, {2, 1}, {1, 2}, {7, 5}, {8, 8}, {16, 16}, {17, 33}, {129, 128}} {
		all[fmt.Sprint(size)] = photo(size[0], size[1])
	}
	all["a part"] = plain(420, 300).Crop(13, 57, 233, 151)
	return all
}

// exact fails unless the picture shows exactly m's pixels.
func exact(t testing.TB, got image.Image, m Image) {
	t.Helper()
	if got.Bounds() != image.Rect(0, 0, m.Width, m.Height) {
		t.Fatalf("%v for %d x %d", got.Bounds(), m.Width, m.Height)
	}
	for y := range m.Height {
		for x := range m.Width {
			r, g, b, a := got.At(x, y).RGBA()
			p := m.row(y)[x*4:]
			if uint8(r>>8) != p[2] || uint8(g>>8) != p[1] || uint8(b>>8) != p[0] || a != 0xffff {
				t.Fatalf("at %d,%d: %d %d %d %d, want %d %d %d", x, y, r>>8, g>>8, b>>8, a>>8, p[2], p[1], p[0])
			}
		}
	}
}

func TestPNGKeepsEveryPixel(t *testing.T) {
	for name, m := range images() {
		before := bytes.Clone(m.Pix)
		data := PNG(m)
		got, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		exact(t, got, m)
		if !bytes.Equal(before, m.Pix) {
			t.Errorf("%s: the image was written to", name)
		}
	}
}

func FuzzPNG(f *testing.F) {
	f.Add([]byte("abcabcabcabc"), uint16(3))
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1}, 300), uint16(7))
	f.Add(bytes.Repeat([]byte("some pixels "), 3000), uint16(130))
	f.Fuzz(func(t *testing.T, pix []byte, width uint16) {
		w := int(width)
		if w == 0 || len(pix) < 4*w {
			return
		}
		m := Image{Pix: pix, Stride: w * 4, Width: w, Height: len(pix) / 4 / w}
		got, err := png.Decode(bytes.NewReader(PNG(m)))
		if err != nil {
			t.Fatal(err)
		}
		exact(t, got, m)
	})
}

// With codes that are as long as deflate allows: Fibonacci's numbers make them.
func TestLongCodes(t *testing.T) {
	for limit, n := range map[uint]int{15: 40, 7: 19} {
		counts, codes := make([]uint32, n), make([]code, n)
		a, b := uint32(1), uint32(1)
		for i := range counts {
			counts[i] = a
			a, b = b, min(a+b, 1<<28)
		}
		makeCodes(codes, counts, limit)
		kraft := 0.0
		for _, c := range codes {
			if c.size == 0 || c.size > limit {
				t.Errorf("a code of %d bits, at most %d", c.size, limit)
			}
			kraft += math.Pow(2, -float64(c.size))
		}
		if kraft != 1 {
			t.Errorf("the codes fill %v of the space", kraft)
		}
	}
}

func BenchmarkPNG(b *testing.B) {
	for name, m := range map[string]Image{"plain": plain(1920, 1080), "photo": photo(1920, 1080)} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(PNG(m))
			}
			b.ReportMetric(float64(size), "bytes")
		})
		b.Run(name+"-standard", func(b *testing.B) {
			rgba := toRGBA(m)
			size := 0
			for b.Loop() {
				var out bytes.Buffer
				_ = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, rgba)
				size = out.Len()
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

func toRGBA(m Image) *image.RGBA {
	to := image.NewRGBA(image.Rect(0, 0, m.Width, m.Height))
	for y := range m.Height {
		src, dst := m.row(y), to.Pix[y*to.Stride:]
		for x := 0; x < len(src); x += 4 {
			dst[x], dst[x+1], dst[x+2], dst[x+3] = src[x+2], src[x+1], src[x], 255
		}
	}
	return to
}
