package portal

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// encoded is a small image as a portal writes it.
func encoded(t testing.TB, m image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A loaded module is removed, but never a file that was there before the question.
func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a b.png")
	m := image.NewGray(image.Rect(0, 0, 3, 2))
	put := func(data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func() bool { _, err := os.Stat(file); return err == nil }
	put(encoded(t, m))
	uri := "file://" + filepath.Dir(file) + "/a%20b.png"
	if got, err := load(uri, time.Now()); err != nil || got.Bounds().Dx() != 3 || there() {
		t.Errorf("%v, %v, still there: %v", got, err, there())
	}
	put(encoded(t, m))
	if _, err := load(uri, time.Now().Add(time.Hour)); err != nil || !there() {
		t.Errorf("%v, an older file is still there: %v", err, there())
	}
	put([]byte("no image"))
	for _, uri := range []string{uri, "http://x/y.png", "file://" + filepath.Dir(file), "file:///nowhere.png", "%%", ""} {
		if _, err := load(uri, time.Now()); err == nil || !there() {
			t.Errorf("%q: %v, still there: %v", uri, err, there())
		}
	}
}

// Every kind of image is read as the same pixels, and a small one is stretched over what it stands
// for.
func TestUnpack(t *testing.T) {
	red := color.NRGBA{200, 100, 50, 255}
	for _, m := range []interface {
		image.Image
		Set(x, y int, c color.Color)
	}{image.NewNRGBA(image.Rect(0, 0, 2, 1)), image.NewRGBA(image.Rect(0, 0, 2, 1)), image.NewNRGBA64(image.Rect(0, 0, 2, 1)),
		image.NewPaletted(image.Rect(0, 0, 2, 1), color.Palette{color.Black, red})} {
		m.Set(0, 0, color.Black)
		m.Set(1, 0, red)
		pix := make([]byte, 4*2*4)
		unpack(pix, platform.Rect{Width: 4, Height: 2}, m, []Place{{platform.Rect{Width: 4, Height: 2}, platform.Rect{Width: 2, Height: 1}}})
		want := bytes.Repeat([]byte{0, 0, 0, 255, 0, 0, 0, 255, 50, 100, 200, 255, 50, 100, 200, 255}, 2)
		if !bytes.Equal(pix, want) {
			t.Errorf("%T: %v", m, pix)
		}
	}
	unpack(make([]byte, 4), platform.Rect{Width: 1, Height: 1}, image.NewGray(image.Rect(0, 0, 1, 1)), nil) // no displays: nothing, and no panic
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, image.NewGray(image.Rect(0, 0, 3, 2))))
	f.Add(encoded(f, image.NewNRGBA(image.Rect(0, 0, 1, 1))))
	f.Add([]byte("\x89PNG\r\n\x1a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		if err == nil && m.Bounds().Empty() || err != nil && m != nil {
			t.Errorf("%v, %v", m, err)
		}
	})
}

// Streams are read as far as they are well formed.
func TestStreams(t *testing.T) {
	at := dbus.MakeVariant([]any{int32(3), int32(-4)})
	got := streamsOf(dbus.MakeVariant([][]any{{uint32(7), map[string]dbus.Variant{"position": at}}, {uint32(8), map[string]dbus.Variant{}}, {"x"}, {uint32(9)}, {1, 2}}))
	if len(got) != 2 || got[0].node != 7 || *got[0].at != (platform.Point{X: 3, Y: -4}) || got[1].at != nil {
		t.Errorf("%+v", got)
	}
	if got := streamsOf(dbus.MakeVariant("none")); got != nil {
		t.Errorf("%+v", got)
	}
}
