package capture

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// pointed is a teller with a pointer of 4 x 4 pixels, which can say where it is.
type pointed struct {
	teller
	at, drawn platform.Rect
	onGrab    func() // before the pointer is drawn
}

func (c *pointed) Grab(ctx context.Context, area platform.Rect, cursor bool, pix []byte) error {
	if err := c.teller.Grab(ctx, area, cursor, pix); err != nil || !cursor {
		return err
	}
	if c.onGrab != nil {
		c.onGrab()
	}
	c.drawn = c.at
	seen := c.at.Intersect(area)
	for y := seen.Y; y < seen.Y+seen.Height; y++ {
		for x := seen.X; x < seen.X+seen.Width; x++ {
			pix[((y-area.Y)*area.Width+x-area.X)*4] = 255
		}
	}
	return nil
}

func (c *pointed) Pointed(context.Context) (platform.Rect, uint32, error) { return c.at, 1, nil }
func (c *pointed) Drawn() (platform.Rect, uint32)                         { return c.drawn, 1 }

// has reports whether the frame shows the pointer at exactly that place.
func has(f *platform.Frame, at platform.Rect) bool {
	for y := range f.Area.Height {
		for x := range f.Area.Width {
			inside := x >= at.X && x < at.X+at.Width && y >= at.Y && y < at.Y+at.Height
			if (f.Pix[y*f.Stride+x*4] == 255) != inside {
				return false
			}
		}
	}
	return true
}

// While neither pixels nor pointer change nothing is read, and a pointer that moves, also
// while it is read, leaves nothing behind.
func TestPointerIsNotReadForNothing(t *testing.T) {
	c := newCanvas(64, 48)
	p := &pointed{teller: teller{c}, at: platform.Rect{X: 2, Y: 2, Width: 4, Height: 4}}
	b := New(p)
	defer b.Close()
	whole := platform.Rect{Width: 64, Height: 48}
	one := frame(t, b, whole, true)
	c.took()
	if again := frame(t, b, whole, true); again.Seq != one.Seq || len(c.took()) != 0 {
		t.Errorf("a screen at rest was read, or is another frame: %d, %d", one.Seq, again.Seq)
	}
	was := p.at
	p.at = platform.Rect{X: 40, Y: 2, Width: 4, Height: 4}
	moved := frame(t, b, whole, true)
	if grabs := c.took(); moved.Seq == one.Seq || !has(moved, p.at) || len(grabs) != 1 || grabs[0] != was.Union(p.at) {
		t.Errorf("after it moved: %v, %v", moved.Seq != one.Seq, grabs)
	}
	// It goes on while it is read, out of what is read, and stays there, or is back before
	// anybody looks.
	back, away := platform.Rect{X: 30, Y: 10, Width: 4, Height: 4}, platform.Rect{X: 2, Y: 40, Width: 4, Height: 4}
	p.at = back
	p.onGrab = func() { p.at, p.onGrab = away, nil }
	frame(t, b, whole, true)
	if f := frame(t, b, whole, true); !has(f, away) {
		t.Error("the pointer is not where it went while the screen was read")
	}
	p.at = back
	p.onGrab = func() { p.at, p.onGrab = away, nil }
	frame(t, b, whole, true)
	p.at = back
	if f := frame(t, b, whole, true); !has(f, back) {
		t.Error("the pointer is not where it is")
	}
	// Also where what is told is put to the test.
	b.trust = 0
	p.onGrab = func() { p.at, p.onGrab = was, nil }
	frame(t, b, whole, true)
	if b.tell == nil {
		t.Error("a pointer that moved counts as paint that nobody told of")
	}
	if f := frame(t, b, whole, true); !has(f, was) {
		t.Error("the pointer is not where it went")
	}
}
