package screen

import (
	"fmt"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/screenshot"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

// Another library grabs the same screen, and every pixel is the same: of the whole, of
// displays beside each other, and of a part over the edge, with and without shared memory.
func TestGrabAgreesWithAnotherLibrary(t *testing.T) {
	for _, shm := range []string{"+extension", "-extension"} {
		t.Run(shm, func(t *testing.T) {
			d := desk.StartX(t, desk.Options{Size: "901x499", NoWM: true, NoBus: true, Args: []string{shm, "MIT-SHM"},
				Monitors: []desk.Monitor{{Name: "right", X: 500, Width: 401, Height: 499}, {Name: "left", Width: 500, Height: 499}}})
			t.Setenv("DISPLAY", d.Display)
			t.Setenv("XDG_SESSION_TYPE", "x11")
			c := x11test.Dial(t, d)
			s, err := New(x11test.Within(t), c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			// Every row has a colour of its own, and so has every other column.
			p := x11test.NewPainter(t, x11test.Dial(t, d))
			for y := range 499 {
				p.Fill(platform.Rect{Y: y, Width: 901, Height: 1}, uint32(y)*0x01030507)
			}
			for x := 0; x < 901; x += 2 {
				p.Fill(platform.Rect{X: x, Y: x % 499, Width: 1, Height: 499}, uint32(x)*0x07050301)
			}
			if err := p.C.Sync(x11test.Within(t)); err != nil {
				t.Fatal(err)
			}
			if err := ByEnvironment(c); err != nil {
				t.Fatal(err)
			}
			for name, layout := range map[string]func() (*screenshot.Grabber, error){
				"displays": func() (*screenshot.Grabber, error) { return screenshot.New(x11test.Within(t), s.Layout) },
				"root":     func() (*screenshot.Grabber, error) { return screenshot.New(x11test.Within(t), RootLayout(c)) },
			} {
				other, err := layout()
				if err != nil {
					t.Fatal(err)
				}
				for _, area := range []platform.Rect{{Width: 901, Height: 499}, {X: 500, Width: 401, Height: 499}, {X: 123, Y: 45, Width: 67, Height: 89}, {X: 850, Y: -20, Width: 100, Height: 60}} {
					want, got := grab(t, s, area, false), make([]byte, area.Width*area.Height*4)
					if err := other.Grab(x11test.Within(t), area, false, got); err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s: of %v %d bytes differ", name, area, differs(got, want))
					}
					if slices.Max(want) == 0 {
						t.Errorf("%v is black", area)
					}
				}
			}
		})
	}
}

// A library that dials by the environment is used where that names the screen that was asked
// for, in the format it takes for granted.
func TestByEnvironment(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	t.Setenv("DISPLAY", d.Display)
	if err := ByEnvironment(x11test.Dial(t, d)); err != nil {
		t.Error(err)
	}
	for what, display := range map[string]string{"another display": ":4242", "none": "", "another way there": fmt.Sprintf("unix%s", d.Display)} {
		t.Setenv("DISPLAY", display)
		if ByEnvironment(x11test.Dial(t, d)) == nil {
			t.Errorf("%s is taken for this one", what)
		}
	}
	short := x11test.Bare(t, "", "-screen", "0", "640x480x16")
	t.Setenv("DISPLAY", short.Display)
	if ByEnvironment(x11test.Dial(t, short)) == nil {
		t.Error("pixels of 16 bits are taken for four bytes")
	}
	// The path is not there, so that another account could make it.
	abstract := x11test.Bare(t, "640x480", "-nolisten", "unix")
	t.Setenv("DISPLAY", abstract.Display)
	if ByEnvironment(x11test.Dial(t, abstract)) == nil {
		t.Error("a server without a path is taken for one with the path")
	}
}
