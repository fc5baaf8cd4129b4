package picture

import (
	"bytes"
	"image"
	"image/jpeg"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// noiseRatio returns the peak signal to noise ratio in decibels.
func noiseRatio(got image.Image, m Image) float64 {
	sum := 0.0
	for y := range m.Height {
		for x := range m.Width {
			r, g, b, _ := got.At(x, y).RGBA()
			p := m.row(y)[x*4:]
			for i, v := range []uint32{b, g, r} {
				d := float64(v>>8) - float64(p[i])
				sum += d * d
			}
		}
	}
	if sum == 0 {
		return 99
	}
	return 10 * math.Log10(255*255*3*float64(m.Width*m.Height)/sum)
}

func viaStandard(m Image, quality int) []byte {
	var out bytes.Buffer
	_ = jpeg.Encode(&out, toRGBA(m), &jpeg.Options{Quality: quality})
	return out.Bytes()
}

// As faithful as the standard library's at the same quality, and no larger.
func TestJPEGIsAsGoodAsTheStandardOne(t *testing.T) {
	for name, m := range images() {
		for _, quality := range []int{1, 49, 50, 80, 100} {
			data, other := JPEG(m, quality), viaStandard(m, quality)
			got, err := jpeg.Decode(bytes.NewReader(data))
			if err != nil {
				t.Errorf("%s at %d: %v", name, quality, err)
				continue
			}
			if got.Bounds() != image.Rect(0, 0, m.Width, m.Height) {
				t.Errorf("%s: %v for %d x %d", name, got.Bounds(), m.Width, m.Height)
			}
			want, _ := jpeg.Decode(bytes.NewReader(other))
			a, b, slack := noiseRatio(got, m), noiseRatio(want, m), 0.5
			if m.Width*m.Height < 4096 {
				slack = 4 // a few roundings decide
			}
			if a < b-slack {
				t.Errorf("%s at %d: %.1f dB, the standard one has %.1f", name, quality, a, b)
			}
			larger := 2
			if quality == 100 {
				larger = 30 // which keeps what the other rounds away before it begins
			}
			if len(data) > len(other)*(100+larger)/100+200 {
				t.Errorf("%s at %d: %d bytes and %.1f dB, the standard one has %d and %.1f", name, quality, len(data), a, len(other), b)
			}
		}
	}
}

// A decoder that shares nothing with the one above agrees, about PNG, too.
func TestOtherDecodersAgree(t *testing.T) {
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		if testing.Short() {
			t.Skip("needs ffmpeg; run without -short on a machine that has it")
		}
		t.Fatal("this test needs ffmpeg: install the package ffmpeg (.ci/setup test installs all of them)")
	}
	dir := t.TempDir()
	for name, m := range map[string]Image{"plain": plain(643, 401), "photo": photo(330, 301), "noise": noise(130, 257)} {
		for format, data := range map[string][]byte{"png": PNG(m), "jpg": JPEG(m, 90)} {
			file := filepath.Join(dir, name+"."+format)
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(ffmpeg, "-v", "warning", "-xerror", "-i", file, "-f", "rawvideo", "-pix_fmt", "bgr0", "-")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			pix, err := cmd.Output()
			if err != nil || len(pix) != m.Width*m.Height*4 {
				t.Errorf("%s %s: %d bytes, %v: %s", name, format, len(pix), err, stderr.String())
				continue
			}
			got := toRGBA(Image{Pix: pix, Stride: m.Width * 4, Width: m.Width, Height: m.Height})
			if format == "png" {
				exact(t, got, m)
				continue
			}
			mine, err := jpeg.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if a, b := noiseRatio(got, m), noiseRatio(mine, m); a < b-1 {
				t.Errorf("%s: %.1f dB by ffmpeg, %.1f by the standard library", name, a, b)
			}
		}
	}
}

func FuzzJPEG(f *testing.F) {
	f.Add([]byte("abcabcabcabc"), uint16(3), 80)
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1}, 300), uint16(7), 1)
	f.Add(bytes.Repeat([]byte("some pixels "), 3000), uint16(130), 100)
	f.Fuzz(func(t *testing.T, pix []byte, width uint16, quality int) {
		w := int(width)
		if w == 0 || len(pix) < 4*w || len(pix)/4/w > 0xffff {
			return
		}
		m := Image{Pix: pix, Stride: w * 4, Width: w, Height: len(pix) / 4 / w}
		got, err := jpeg.Decode(bytes.NewReader(JPEG(m, quality)))
		if err != nil {
			t.Fatal(err)
		}
		if got.Bounds() != image.Rect(0, 0, m.Width, m.Height) {
			t.Fatalf("%v for %d x %d", got.Bounds(), m.Width, m.Height)
		}
	})
}

func BenchmarkJPEG(b *testing.B) {
	for name, m := range map[string]Image{"plain": plain(1920, 1080), "photo": photo(1920, 1080), "noise": noise(1920, 1080)} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(JPEG(m, 80))
			}
			b.ReportMetric(float64(size), "bytes")
		})
		b.Run(name+"-standard", func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(viaStandard(m, 80))
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
