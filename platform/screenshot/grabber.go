package screenshot

import (
	"context"
	"errors"
	"fmt"
	"image"
	"os"
	"runtime"

	"github.com/kbinani/screenshot"

	"github.com/handrail-dev/handrail/platform"
)

// Name is what a desktop says of its pixels that are read here.
const Name = "kbinani/screenshot"

// Grabber is a platform.Grabber by the library.
type Grabber struct {
	layout func(context.Context) (platform.Layout, error)

	turn  chan struct{} // holds a token while the library does nothing
	epoch uint64        // with the token: of the layout that from is of
	from  platform.Point
}

var _ platform.Grabber = (*Grabber)(nil)

// New tries the library on the desktop that layout tells of. It dials by the environment
// of the process: that this is the same desktop the caller has seen to.
func New(ctx context.Context, layout func(context.Context) (platform.Layout, error)) (*Grabber, error) {
	if runtime.GOOS == "linux" && os.Getenv("XDG_SESSION_TYPE") == "wayland" {
		return nil, errors.New("screenshot: in a Wayland session the library asks a portal, and waits for it without end")
	}
	g := &Grabber{layout: layout, turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	all, err := layout(ctx)
	if err != nil {
		return nil, err
	}
	whole := all.Whole()
	if err := g.Grab(ctx, platform.Rect{X: whole.X, Y: whole.Y, Width: 1, Height: 1}, false, make([]byte, 4)); err != nil {
		return nil, err
	}
	return g, nil
}

// Layout returns the displays, as New was told to ask for them.
func (g *Grabber) Layout(ctx context.Context) (platform.Layout, error) { return g.layout(ctx) }

// Grab copies the pixels of area into pix. The pointer is not drawn: the library has none.
func (g *Grabber) Grab(ctx context.Context, area platform.Rect, _ bool, pix []byte) error {
	if area.Empty() || len(pix) < area.Width*area.Height*4 {
		return fmt.Errorf("screenshot: %d bytes do not hold %d x %d pixels", len(pix), area.Width, area.Height)
	}
	all, err := g.layout(ctx)
	if err != nil {
		return err
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	type look struct {
		seen *image.RGBA
		err  error
	}
	done := make(chan look, 1)
	go func() { // the library knows no context: who comes next waits for its end
		defer func() { g.turn <- struct{}{} }()
		seen, err := g.look(all, area)
		done <- look{seen, err}
	}()
	select {
	case l := <-done:
		if l.err != nil {
			return fmt.Errorf("screenshot: %w", l.err)
		}
		for i := 0; i < area.Width*area.Height*4; i += 4 {
			p := l.seen.Pix[i:][:4]
			pix[i], pix[i+1], pix[i+2], pix[i+3] = p[2], p[1], p[0], 0
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look reads area by the library's coordinates; with the token.
func (g *Grabber) look(all platform.Layout, area platform.Rect) (*image.RGBA, error) {
	if g.epoch != all.Epoch || g.epoch == 0 {
		from, err := origin(all.Whole())
		if err != nil {
			return nil, err
		}
		g.epoch, g.from = all.Epoch, from
	}
	return screenshot.Capture(area.X-g.from.X, area.Y-g.from.Y, area.Width, area.Height)
}

// origin returns where the library's coordinates begin. On an X server that is its first
// display's corner, which it does not tell: what all its displays cover together tells it,
// if that is the whole desktop. Not for each look: on Windows each of its questions for
// displays keeps a callback for good, of which a process has a few thousand.
func origin(whole platform.Rect) (platform.Point, error) {
	var seen platform.Rect
	for i := range screenshot.NumActiveDisplays() {
		b := screenshot.GetDisplayBounds(i)
		seen = seen.Union(platform.Rect{X: b.Min.X, Y: b.Min.Y, Width: b.Dx(), Height: b.Dy()})
	}
	if seen.Empty() || seen.Width != whole.Width || seen.Height != whole.Height {
		return platform.Point{}, fmt.Errorf("the library sees a desktop of %d x %d pixels, not of %d x %d", seen.Width, seen.Height, whole.Width,
			whole.Height)
	}
	return platform.Point{X: whole.X - seen.X, Y: whole.Y - seen.Y}, nil
}

// Damage is nil: the library tells of none.
func (g *Grabber) Damage() <-chan platform.Rect { return nil }

// Close has nothing to end: each look's connection ended with it.
func (g *Grabber) Close() error { return nil }
