package x11test

import (
	"context"
	"testing"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/test/desk"
)

// Within is the time that a test gives a desk.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), desk.Within)
	t.Cleanup(cancel)
	return ctx
}

// Dial connects to a desk, until the test ends.
func Dial(t testing.TB, d *desk.Desk) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(Within(t), wire.Options{Display: d.Display})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Bare is an X server with nothing on it.
func Bare(t testing.TB, size string, args ...string) *desk.Desk {
	return desk.StartX(t, desk.Options{Size: size, NoWM: true, NoBus: true, Args: args})
}

// Painter fills areas of a window that covers the screen.
type Painter struct {
	t  testing.TB
	C  *wire.Conn
	W  xproto.Window
	gc xproto.Gcontext
}

// NewPainter shows a window that covers the screen.
func NewPainter(t testing.TB, c *wire.Conn) *Painter {
	t.Helper()
	w, err := xproto.NewWindowId(c.X)
	if err != nil {
		t.Fatal(err)
	}
	gc, _ := xproto.NewGcontextId(c.X)
	s := c.Screen
	xproto.CreateWindow(c.X, s.RootDepth, w, s.Root, 0, 0, s.WidthInPixels, s.HeightInPixels, 0, xproto.WindowClassInputOutput, s.RootVisual,
		xproto.CwBackPixel|xproto.CwOverrideRedirect, []uint32{0, 1})
	xproto.CreateGC(c.X, gc, xproto.Drawable(w), 0, nil)
	xproto.MapWindow(c.X, w)
	if err := c.Sync(Within(t)); err != nil {
		t.Fatal(err)
	}
	return &Painter{t, c, w, gc}
}

// Fill paints an area.
func (p *Painter) Fill(r platform.Rect, colour uint32) {
	xproto.ChangeGC(p.C.X, p.gc, xproto.GcForeground, []uint32{colour})
	xproto.PolyFillRectangle(p.C.X, xproto.Drawable(p.W), p.gc,
		[]xproto.Rectangle{{X: int16(r.X), Y: int16(r.Y), Width: uint16(r.Width), Height: uint16(r.Height)}})
}

// Xterm opens a window that says its title and nothing else.
func Xterm(d *desk.Desk, title, geometry string) *desk.App {
	return d.AppTitled(title, "xterm", "-title", title, "-geometry", geometry, "-e", "sleep", "1000")
}

// NewWindow shows a managed window.
func NewWindow(t testing.TB, c *wire.Conn, r platform.Rect) xproto.Window {
	t.Helper()
	id, err := xproto.NewWindowId(c.X)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Screen
	xproto.CreateWindow(c.X, s.RootDepth, id, s.Root, int16(r.X), int16(r.Y), uint16(r.Width), uint16(r.Height), 0,
		xproto.WindowClassInputOutput, s.RootVisual, 0, nil)
	xproto.MapWindow(c.X, id)
	return id
}
