//go:build linux

package desktop_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/platformtest"
	"github.com/handrail-dev/handrail/test/desk"
)

// open makes an opener that sees d's environment, with some of it changed.
func open(t *testing.T, d *desk.Desk, change map[string]string) *desktop.Opener {
	t.Helper()
	o := desktop.New(desktop.Options{Log: slog.New(slog.DiscardHandler), Getenv: func(name string) string {
		if v, ok := change[name]; ok {
			return v
		}
		return d.Getenv(name)
	}})
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// oracle is a fixture program.
type oracle struct {
	d *desk.Desk
	f *desk.Fixture
}

func (o oracle) Title() string { return o.f.Title() }
func (o oracle) Place(widget string) platform.Rect {
	b := o.f.Box(widget)
	return platform.Rect(b)
}
func (o oracle) FocusEntry() {
	o.d.Activate(o.f.Window.ID)
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
func (o oracle) Clipboard() (string, bool) { return o.d.Clipboard() }
func (o oracle) Copy(text string)          { o.d.SetClipboard(text) }

func TestX11(t *testing.T) {
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.Qt} {
		t.Run(string(kit), func(t *testing.T) {
			d := desk.StartX(t, desk.Options{})
			platformtest.Test(t, open(t, d, nil), oracle{d, d.Fixture(kit, 5)})
		})
	}
}

// A missing part is named, and takes nothing else with it.
func TestMissing(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoBus: true})
	missing := func(o *desktop.Opener, words ...string) {
		t.Helper()
		_, err := o.Open(t.Context())
		var m *platform.MissingError
		if !errors.As(err, &m) || m.Fix == "" {
			t.Fatalf("not a MissingError with a fix: %v", err)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
	none := map[string]string{"DISPLAY": "", "DBUS_SESSION_BUS_ADDRESS": "", "XDG_RUNTIME_DIR": t.TempDir(), "WAYLAND_DISPLAY": "", "XDG_SESSION_TYPE": ""}
	missing(open(t, d, none), "DISPLAY", "xvfb")
	none["WAYLAND_DISPLAY"] = "wayland-0"
	missing(open(t, d, none), "Wayland", "wayland-0", "XDG_RUNTIME_DIR")
	none["WAYLAND_DISPLAY"], none["DISPLAY"] = "", ":4242"
	missing(open(t, d, none), ":4242")

	desk, err := open(t, d, map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if desk.Accessibility != nil || desk.Missing[platform.PartAccessibility] == nil || desk.Screen == nil || desk.Input == nil {
		t.Errorf("without a bus: %+v", desk)
	}
	t.Log(desk.Missing[platform.PartAccessibility])
	o := open(t, d, nil)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Open(t.Context()); !errors.Is(err, platform.ErrLost) {
		t.Errorf("opened after Close: %v", err)
	}
}

// A server that ends is lost everywhere, and the next one is opened.
func TestReopens(t *testing.T) {
	first, second := desk.StartX(t, desk.Options{NoBus: true, NoWM: true}), desk.StartX(t, desk.Options{NoBus: true, NoWM: true})
	display := map[string]string{"DISPLAY": first.Display, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}
	o := open(t, first, display)
	was, err := o.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.KillServer()
	desk.Await(t, "the loss", func() bool { _, err := was.Input.Pointer(t.Context()); return errors.Is(err, platform.ErrLost) })
	display["DISPLAY"] = second.Display
	var now *platform.Desktop
	desk.Await(t, "another desktop", func() bool {
		now, err = o.Open(t.Context())
		return err == nil && now != was
	})
	if _, err := now.Screen.Layout(t.Context()); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"move":  was.Input.Move(t.Context(), platform.Point{X: 1, Y: 1}),
		"write": was.Clipboard.Write(t.Context(), "x", false, 0),
		"list":  func() error { _, err := was.Windows.List(t.Context()); return err }(),
		"frame": func() error { _, err := was.Screen.Layout(t.Context()); return err }(),
	} {
		if !errors.Is(err, platform.ErrLost) {
			t.Errorf("%s of a desktop that was lost: %v", name, err)
		}
	}
}

// A caller who has no time to wait for the desktop has it opened all the same.
func TestOpensFromAfar(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoWM: true})
	o := open(t, d, nil)
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	var opened *platform.Desktop
	desk.Await(t, "the desktop", func() (ok bool) {
		var err error
		opened, err = o.Open(over)
		var m *platform.MissingError
		if err != nil && !(errors.As(err, &m) && m.Fix == "Wait a moment.") {
			t.Fatal(err)
		}
		return err == nil
	})
	if again, err := o.Open(t.Context()); again != opened || err != nil {
		t.Errorf("another one was opened, %v", err)
	}
	given, up := context.WithCancel(t.Context())
	up()
	if _, err := open(t, d, nil).Open(given); err != nil && !errors.Is(err, context.Canceled) { // and closed while it opens
		t.Errorf("given up: %v", err)
	}
}

// saver is a screen saver on a bus.
type saver struct{ active bool }

func (s *saver) GetActive() (bool, *dbus.Error) { return s.active, nil }

func TestLocked(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoWM: true})
	o := open(t, d, map[string]string{"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"})
	if why := o.Locked(t.Context()); why != "" {
		t.Fatalf("locked by nobody: %s", why)
	}
	c, err := dbus.Connect(d.Bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Export(&saver{true}, "/org/freedesktop/ScreenSaver", "org.freedesktop.ScreenSaver"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RequestName("org.freedesktop.ScreenSaver", 0); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the lock to be known", func() bool { return o.Locked(t.Context()) != "" })
	if _, err := c.ReleaseName("org.freedesktop.ScreenSaver"); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the end of the lock", func() bool { return o.Locked(t.Context()) == "" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = o.Locked(ctx) // does not hang
}
