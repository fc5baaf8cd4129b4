package darwin

import (
	"errors"
	"image"
	"image/color"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

func TestCopyRGBA(t *testing.T) {
	display := platform.Rect{X: -40, Y: 10, Width: 40, Height: 30}
	picture := image.NewRGBA(image.Rect(0, 0, 40, 30))
	for y := range 30 {
		for x := range 40 {
			picture.Set(x, y, color.RGBA{uint8(x), uint8(y), 7, 255})
		}
	}
	area := platform.Rect{X: -20, Y: 0, Width: 50, Height: 25}
	pix := make([]byte, area.Width*area.Height*4)
	part := display.Intersect(area)
	copyRGBA(pix, area, picture, display, part)
	for y := range area.Height {
		for x := range area.Width {
			got := [4]byte(pix[(y*area.Width+x)*4:])
			at := platform.Point{X: area.X + x, Y: area.Y + y}
			want := [4]byte{}
			if display.Has(at) {
				want = [4]byte{7, byte(at.Y - display.Y), byte(at.X - display.X), 255}
			}
			if got != want {
				t.Fatalf("%+v is %v, not %v", at, got, want)
			}
		}
	}
}

func TestClicks(t *testing.T) {
	var c clicks
	at, now := point{100, 100}, time.Unix(1000, 0)
	for i, step := range []struct {
		b    platform.Button
		at   point
		wait time.Duration
		want int64
	}{
		{platform.ButtonLeft, at, 0, 1},
		{platform.ButtonLeft, point{102, 99}, 100 * time.Millisecond, 2},
		{platform.ButtonLeft, at, 100 * time.Millisecond, 3},
		{platform.ButtonRight, at, 100 * time.Millisecond, 1},
		{platform.ButtonRight, point{110, 100}, 100 * time.Millisecond, 1},
		{platform.ButtonRight, point{110, 100}, 600 * time.Millisecond, 1},
	} {
		now = now.Add(step.wait)
		if got := c.down(step.b, step.at, now); got != step.want {
			t.Errorf("step %d is click %d, not %d", i, got, step.want)
		}
	}
	for b, k := range buttons {
		if k.down+1 != k.up {
			t.Errorf("%s: %+v", b, k)
		}
	}
}

func TestOpenArguments(t *testing.T) {
	for _, c := range []struct {
		app  string
		args []string
		want []string
	}{
		{"TextEdit", nil, []string{"-a", "TextEdit"}},
		{"/Applications/A B.app", []string{"-x", "a b"}, []string{"-a", "/Applications/A B.app", "--args", "-x", "a b"}},
	} {
		if got, err := openArguments(c.app, c.args); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.app, got, err)
		}
	}
	for _, app := range []string{"", "-n", "../x", "/bin/sh", "a\x00b", "/Applications/../x.app", "dir/x.app"} {
		if got, err := openArguments(app, nil); !errors.Is(err, platform.ErrNoApp) {
			t.Errorf("%q: %q, %v", app, got, err)
		}
	}
}

// A reader that does not keep up gets one for many, and the newest.
func TestHand(t *testing.T) {
	c := make(chan platform.ElementEvent, 4)
	for i := range 100 {
		hand(c, platform.ElementEvent{PID: i + 1, Kind: "text"})
	}
	var got []platform.ElementEvent
	for len(c) > 0 {
		got = append(got, <-c)
	}
	if last := got[len(got)-1]; last.PID != 100 || !slices.ContainsFunc(got, func(e platform.ElementEvent) bool { return e.PID == 0 && e.Kind == "changed" }) {
		t.Errorf("%+v", got)
	}
}

// An application can bring text of any length and kind.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		most int
		want string
	}{{"aé", 2, "a"}, {"a\xff", 9, "a\uFFFD"}, {"", 0, ""}, {"abc", 3, "abc"}} {
		if got := capabilities.Clip(c.in, c.most); got != c.want {
			t.Errorf("%q: %q", c.in, got)
		}
	}
}
