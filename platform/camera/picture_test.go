package camera

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	_ "image/png"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// yuyv is a frame as a camera makes it: left half one colour, right half another, rows with
// padding.
func yuyv(width, height, stride int) []byte {
	b := make([]byte, stride*height)
	for y := range height {
		for x := range width / 2 {
			c := [4]byte{81, 90, 81, 240} // red
			if x >= width/4 {
				c = [4]byte{145, 54, 145, 34} // green
			}
			copy(b[y*stride+4*x:], c[:])
		}
	}
	return b
}

// mjpeg is a frame as many cameras make it: without Huffman tables, with padding behind.
func mjpeg(t testing.TB) []byte {
	p := image.NewRGBA(image.Rect(0, 0, 64, 48))
	for y := range 48 {
		for x := range 64 {
			p.Set(x, y, color.RGBA{uint8(4 * x), uint8(5 * y), 128, 255})
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, p, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	b := file.Bytes()
	i := bytes.Index(b, []byte{0xFF, 0xC4})
	size := 2 + int(b[i+2])<<8 + int(b[i+3])
	b = append(append([]byte(nil), b[:i]...), b[i+size:]...)
	if bytes.Contains(b[:600], []byte{0xFF, 0xC4}) {
		t.Fatal("there are tables left")
	}
	return append(b, make([]byte, 100)...)
}

func TestDevelopYUYV(t *testing.T) {
	for _, mime := range []string{"image/jpeg", "image/png"} {
		got, err := develop(yuyv(64, 48, 160), true, 64, 48, 160, platform.PhotoOrder{MIME: mime, Quality: 0.92})
		if err != nil {
			t.Fatal(err)
		}
		p, format, err := image.Decode(bytes.NewReader(got.Bytes))
		if err != nil || "image/"+format != mime || p.Bounds().Dx() != 64 || got.Width != 64 || got.Height != 48 {
			t.Fatal(format, err, got.Width, got.Height)
		}
		left, right := color.RGBAModel.Convert(p.At(8, 24)).(color.RGBA), color.RGBAModel.Convert(p.At(56, 24)).(color.RGBA)
		if left.R < 200 || left.G > 60 || right.G < 200 || right.R > 60 {
			t.Errorf("%s: %v, %v", mime, left, right)
		}
	}
	for _, bad := range []struct{ width, height, stride, bytes int }{{0, 1, 0, 10}, {3, 1, 6, 10}, {64, 48, 128, 128*48 - 1}, {64, 48, 100, 9999}, {1 << 20, 2, 1 << 21, 1 << 22}} {
		if _, err := fromYUYV(make([]byte, bad.bytes), bad.width, bad.height, bad.stride); err == nil {
			t.Errorf("%+v passes", bad)
		}
	}
}

func TestDevelopMJPEG(t *testing.T) {
	frame := mjpeg(t)
	if _, err := jpeg.Decode(bytes.NewReader(frame)); err == nil {
		t.Fatal("a frame without tables is a whole file: the test is broken")
	}
	for _, o := range []platform.PhotoOrder{{MIME: "image/jpeg", Quality: 0.92}, {MIME: "image/jpeg", Quality: 0.1}, {MIME: "image/png"}} {
		got, err := develop(frame, false, 0, 0, 0, o)
		if err != nil {
			t.Fatal(err)
		}
		p, format, err := image.Decode(bytes.NewReader(got.Bytes))
		if err != nil || "image/"+format != o.MIME || got.Width != 64 || got.Height != 48 {
			t.Fatal(o, format, err)
		}
		if c := color.RGBAModel.Convert(p.At(40, 20)).(color.RGBA); c.R < 130 || c.R > 190 || c.G < 70 || c.G > 130 {
			t.Errorf("%+v: %v", o, c)
		}
	}
	if l, err := lightOfJPEG(frame); err != nil || l < 50 || l > 200 {
		t.Error(l, err)
	}
	for n := range frame[:len(frame)-101] {
		if _, err := develop(frame[:n], false, 0, 0, 0, platform.PhotoOrder{MIME: "image/png"}); err == nil {
			t.Fatalf("a frame cut at %d passes", n)
		}
	}
}

func FuzzWholeJPEG(f *testing.F) {
	f.Add(mjpeg(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, err := wholeJPEG(b)
		if err != nil {
			if whole != nil {
				t.Fatal("a picture beside an error")
			}
			return
		}
		again, err := wholeJPEG(whole)
		if err != nil || !bytes.Equal(again, whole) {
			t.Fatal("made whole, it is not whole:", err)
		}
	})
}
