//go:build linux

package portal_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/capture"
	"github.com/handrail-dev/handrail/platform/platformtest"
	"github.com/handrail-dev/handrail/platform/portal"
	"github.com/handrail-dev/handrail/platform/wayland"
	"github.com/handrail-dev/handrail/test/desk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a Sway with a portal in front, and the parts of a desktop by it.
type rig struct {
	*desk.Sway
	b       *backend
	portal  *portal.Portal
	screen  *portal.Screen
	input   *portal.Input
	windows *wayland.Windows
	places  portal.Displays
}

func start(t *testing.T, outputs ...string) *rig {
	t.Helper()
	r := &rig{Sway: desk.StartSway(t, desk.SwayOptions{Outputs: outputs})}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var conns []*wayland.Conn
	for range 2 {
		c, err := wayland.Dial(t.Context(), wayland.Options{Display: r.Wayland})
		must(err)
		t.Cleanup(func() { _ = c.Close() })
		conns = append(conns, c)
	}
	out, err := wayland.NewOutputs(t.Context(), conns[0])
	must(err)
	hands, err := wayland.NewInput(t.Context(), conns[1], out, nil)
	must(err)
	r.windows, err = wayland.NewWindows(t.Context(), wayland.WindowsOptions{Options: wayland.Options{Display: r.Wayland, Runtime: r.Runtime}, Getenv: r.Getenv}, out)
	must(err)
	r.b = &backend{t: t, sway: r.Sway, hands: hands, lend: 3, layout: func() (platform.Layout, []platform.Rect) {
		all, err := out.Places(context.Background())
		if err != nil {
			t.Error(err)
		}
		return all.Layout, all.Logical
	}}
	r.b.startPortal()
	r.portal, err = portal.Dial(t.Context(), r.Bus)
	must(err)
	t.Cleanup(func() { _ = r.portal.Close() })
	r.places = func(ctx context.Context) (platform.Layout, []portal.Place, error) {
		all, err := out.Places(ctx)
		var places []portal.Place
		for i, l := range all.Logical {
			places = append(places, portal.Place{Physical: all.Displays[i].Bounds, Logical: l})
		}
		return all.Layout, places, err
	}
	r.screen, err = portal.NewScreen(t.Context(), r.portal, r.places)
	must(err)
	t.Cleanup(func() { _ = r.screen.Close() })
	r.input, err = portal.NewInput(t.Context(), r.portal, portal.InputOptions{Displays: r.places, Keycode: wayland.Keycode,
		Runes: func(ctx context.Context) (map[rune]bool, error) { return wayland.Runes(ctx, conns[0]) }})
	must(err)
	t.Cleanup(func() { _ = r.input.Close() })
	return r
}

// oracle is a fixture program under Sway.
type oracle struct {
	r *rig
	f *desk.Fixture
}

func (o oracle) Title() string { return o.f.Window.Title }
func (o oracle) Place(widget string) platform.Rect {
	o.r.AwaitSettled(o.f)
	w, ok := o.r.Window(o.f.Window.Title)
	if !ok {
		o.r.T.Fatalf("no window %q", o.f.Window.Title)
	}
	b := platform.Rect(o.f.Box(widget))
	b.X, b.Y = b.X+w.X, b.Y+w.Y
	return b
}
func (o oracle) FocusEntry() {
	o.r.Tell(`[title="` + o.f.Window.Title + `"] focus`)
	o.f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
	o.f.Do(map[string]any{"do": "focus", "widget": "entry"})
}
func (o oracle) Entry() string { return o.f.Read("entry").Text }
func (o oracle) Clicks() (n int) {
	for _, e := range o.f.Events() {
		if e.Kind == "clicked" && e.Widget == "button" {
			n++
		}
	}
	return n
}
func (o oracle) Clipboard() (string, bool) { return o.r.Sway.Clipboard() }
func (o oracle) Copy(text string)          { o.r.SetClipboard(text) }

// Types says that only the keys of the person's keyboard are to be had.
func (oracle) Types(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > 0x7e })
}

// opener returns the desktop of a rig; what is no portal's is missing.
type opener struct{ desk *platform.Desktop }

func (o opener) Open(context.Context) (*platform.Desktop, error) { return o.desk, nil }
func (o opener) Locked(context.Context) string                   { return "" }
func (o opener) Close() error                                    { return nil }

func TestFacesTheSuite(t *testing.T) {
	r := start(t)
	bus := capture.New(r.screen)
	t.Cleanup(func() { _ = bus.Close() })
	why := &platform.MissingError{What: "No portal gives it.", Fix: "None."}
	d := &platform.Desktop{Name: "portals", Screen: bus, Input: r.input, Windows: r.windows,
		Missing: map[platform.DesktopPart]*platform.MissingError{platform.PartPerson: why, platform.PartClipboard: why, platform.PartAccessibility: why}}
	platformtest.Test(t, opener{d}, oracle{r, r.Fixture(desk.GTK3, 5)})
	if n := r.b.dialogs(); n > 2 {
		t.Errorf("the person was asked %d times: %q", n, r.b.asked)
	}
	// Also of a call that was given up while the image was made.
	desk.Await(t, "every image's file to be gone", func() bool {
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		return !slices.ContainsFunc(r.b.shots, func(file string) bool { _, err := os.Stat(file); return err == nil })
	})
}

// Displays of different scales: the image of all is taken apart again, and the
// pointer comes to the pixel on either.
func TestTwoDisplays(t *testing.T) {
	r := start(t, "HEADLESS-1 resolution 400x300 position 0 0 background #204060 solid_color", "HEADLESS-2 resolution 640x400 position 400 30 scale 2 background #a01010 solid_color")
	ctx := t.Context()
	layout, err := r.screen.Layout(ctx)
	if err != nil || len(layout.Displays) != 2 {
		t.Fatalf("%+v, %v", layout, err)
	}
	whole := layout.Whole()
	pix := make([]byte, whole.Width*whole.Height*4)
	if err := r.screen.Grab(ctx, whole, false, pix); err != nil {
		t.Fatal(err)
	}
	for i, want := range [][3]byte{{0x60, 0x40, 0x20}, {0x10, 0x10, 0xa0}} {
		b := layout.Displays[i].Bounds
		for _, at := range []platform.Point{{X: b.X, Y: b.Y}, {X: b.X + b.Width - 1, Y: b.Y + b.Height - 1}} {
			if got := [3]byte(pix[((at.Y-whole.Y)*whole.Width+at.X-whole.X)*4:]); got != want {
				t.Errorf("display %d shows %v at %v, want %v", i, got, at, want)
			}
		}
	}
	for _, d := range layout.Displays {
		to := d.Bounds.Center()
		if err := r.input.Move(ctx, to); err != nil {
			t.Fatal(err)
		}
		desk.Await(t, "the pointer", func() bool {
			at, err := r.b.hands.Pointer(ctx)
			return err == nil && at == to
		})
	}
	if err := r.input.Move(ctx, platform.Point{X: -5, Y: 5000}); err == nil {
		t.Error("the pointer was sent to where no display is")
	}
}

// A person who refuses is not asked again at once, and one who ends the session is
// asked before the next event.
func TestThePersonDecides(t *testing.T) {
	r := start(t)
	ctx := t.Context()
	if err := r.input.Button(ctx, platform.ButtonLeft, true); err != nil {
		t.Fatal(err)
	}
	asked := r.b.dialogs()
	r.b.end()
	desk.Await(t, "the end of the session", func() bool {
		// The keys that it held are up; the next event asks anew.
		return r.input.Button(ctx, platform.ButtonLeft, true) == nil && r.b.dialogs() > asked
	})
	r.b.mu.Lock()
	r.b.refuse = 1
	r.b.mu.Unlock()
	asked = r.b.dialogs()
	r.b.end()
	var no *platform.MissingError
	desk.Await(t, "the refusal", func() bool { return errors.As(r.input.Scroll(ctx, 0, 1), &no) })
	if !no.Permission || !strings.Contains(no.What, "person") || no.Fix == "" {
		t.Errorf("%+v", no)
	}
	for range 3 {
		if err := r.input.Move(ctx, platform.Point{X: 5, Y: 5}); !errors.As(err, &no) {
			t.Errorf("%v", err)
		}
	}
	if n := r.b.dialogs(); n != asked+1 {
		t.Errorf("the person was asked %d times more", n-asked)
	}
}

// A session that ends while it begins leaves nobody waiting for the answer, and the next
// event begins another one.
func TestEndedWhileItBegins(t *testing.T) {
	r := start(t)
	ends := func(so bool) {
		r.b.mu.Lock()
		defer r.b.mu.Unlock()
		r.b.ends = so
	}
	ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
	defer cancel()
	ends(true)
	if err := r.input.Button(ctx, platform.ButtonLeft, true); err == nil || !strings.Contains(err.Error(), "ended the session") {
		t.Errorf("in a session that ended while it began: %v", err)
	}
	ends(false)
	asked := r.b.dialogs()
	if err := r.input.Button(ctx, platform.ButtonLeft, true); err != nil || r.b.dialogs() != asked+1 {
		t.Errorf("the next event: %v; the person was asked %d times more", err, r.b.dialogs()-asked)
	}
}

// A part that a session does not have is not claimed: a keyboard that the person took out, an
// interface that the portal lacks, a bus without a portal.
func TestMissing(t *testing.T) {
	r := start(t)
	r.b.mu.Lock()
	r.b.lend = 2
	r.b.mu.Unlock()
	var m *platform.MissingError
	if _, err := r.input.Type(t.Context(), ""); !errors.As(err, &m) || !m.Permission {
		t.Errorf("without a keyboard: %v", err)
	}
	if _, err := portal.Dial(t.Context(), "unix:path=/nowhere"); !errors.As(err, &m) || !strings.Contains(m.Fix, "xdg-desktop-portal") {
		t.Errorf("without a bus: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.screen.Grab(over, platform.Rect{Width: 1, Height: 1}, false, make([]byte, 4)); !errors.Is(err, context.Canceled) {
		t.Errorf("in a call that ended: %v", err)
	}
	runes, err := func() (map[rune]bool, error) {
		c, err := wayland.Dial(t.Context(), wayland.Options{Display: r.Wayland})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return wayland.Runes(t.Context(), c)
	}()
	if err != nil || !runes['a'] || !runes['~'] || slices.Contains([]bool{runes['漢'], runes[0], runes['\n']}, true) {
		t.Errorf("the keyboard has %d characters: %v", len(runes), err)
	}
	_ = r.portal.Close()
	if err := r.input.Scroll(t.Context(), 0, 1); !errors.Is(err, platform.ErrLost) {
		t.Errorf("after the bus ended: %v", err)
	}
}
