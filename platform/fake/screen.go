package fake

import (
	"context"
	"fmt"
	"slices"

	"github.com/handrail-dev/handrail/platform"
)

type screen struct{ d *Desktop }

type frameKey struct {
	area   platform.Rect
	cursor bool
}

// SetLayout replaces the displays; the epoch changes.
func (d *Desktop) SetLayout(displays ...platform.Display) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.layout = platform.Layout{Epoch: d.layout.Epoch + 1, Displays: displays}
	d.changedLocked(d.layout.Whole())
}

// Paint fills area with a colour (0xRRGGBB).
func (d *Desktop) Paint(area platform.Rect, colour uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for y := area.Y; y < area.Y+area.Height; y++ {
		for x := area.X; x < area.X+area.Width; x++ {
			d.pix[platform.Point{X: x, Y: y}] = colour
		}
	}
	d.changedLocked(area)
}

func (d *Desktop) changedLocked(area platform.Rect) {
	d.seq++
	for k := range d.last {
		if !k.area.Intersect(area).Empty() {
			delete(d.last, k)
		}
	}
	d.screenWatch.send(area, platform.Rect.Union)
}

// Layout returns the displays.
func (s *screen) Layout(ctx context.Context) (platform.Layout, error) {
	if err := s.d.begin(ctx, "screen.layout"); err != nil {
		return platform.Layout{}, err
	}
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.d.layout, nil
}

// Frame returns the pixels of area: those of the same Seq while nothing in it changes. Each
// Frame has pixels of its own, which are spoiled when it is released.
func (s *screen) Frame(ctx context.Context, area platform.Rect, cursor bool) (*platform.Frame, error) {
	d := s.d
	if err := d.begin(ctx, "screen.frame"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if area.Empty() || area.Intersect(d.layout.Whole()) != area {
		return nil, fmt.Errorf("fake: the area %v is not of the desktop", area)
	}
	k := frameKey{area, cursor}
	if f := d.last[k]; f != nil && f.Epoch == d.layout.Epoch {
		return lend(f), nil
	}
	f := &platform.Frame{Area: area, Epoch: d.layout.Epoch, Seq: d.seq, At: now(), Stride: area.Width * 4}
	f.Pix = make([]byte, f.Stride*area.Height)
	for y := range area.Height {
		for x := range area.Width {
			p := platform.Point{X: area.X + x, Y: area.Y + y}
			c, ok := d.pix[p]
			if !ok {
				c = d.ground
			}
			if cursor && p == d.pointer {
				c = 0xffffff
			}
			at := f.Pix[y*f.Stride+x*4:]
			at[0], at[1], at[2], at[3] = byte(c), byte(c>>8), byte(c>>16), 255
		}
	}
	d.last[k] = f
	return lend(f), nil
}

// lend returns f with pixels that turn into rubbish when they are released, so that who
// reads on is found out.
func lend(f *platform.Frame) *platform.Frame {
	l := *f
	pix := slices.Clone(f.Pix)
	l.Pix, l.Free = pix, func() {
		for i := range pix {
			pix[i] = byte(i*7) ^ 0x5a
		}
	}
	return &l
}

// Changes delivers what Paint and SetLayout change within area.
func (s *screen) Changes(ctx context.Context, area platform.Rect) (<-chan platform.Rect, error) {
	d := s.d
	if err := d.begin(ctx, "screen.changes"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	all := add(d, &d.screenWatch, ctx, 1)
	d.mu.Unlock()
	mine := make(chan platform.Rect, 1)
	go func() {
		defer close(mine)
		for r := range all {
			if r = r.Intersect(area); r.Empty() {
				continue
			}
			select {
			case mine <- r:
			default:
				select {
				case old := <-mine:
					r = r.Union(old)
				default:
				}
				mine <- r // this goroutine is the only sender: there is room now
			}
		}
	}()
	return mine, nil
}
