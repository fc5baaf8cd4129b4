//go:build linux

package desktop_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/platformtest"
	"github.com/handrail-dev/handrail/test/desk"
)

// swayOracle is a fixture program under Sway: it knows places in its window, and
// Sway where that is.
type swayOracle struct {
	s *desk.Sway
	f *desk.Fixture
}

func (o swayOracle) Title() string { return o.f.Window.Title }
func (o swayOracle) Place(widget string) platform.Rect {
	o.s.AwaitSettled(o.f)
	w, ok := o.s.Window(o.f.Window.Title)
	if !ok {
		o.s.T.Fatalf("no window %q", o.f.Window.Title)
	}
	b := platform.Rect(o.f.Box(widget))
	b.X, b.Y = b.X+w.X, b.Y+w.Y
	return b
}
func (o swayOracle) FocusEntry() {
	o.s.Tell(`[title="` + o.f.Window.Title + `"] focus`)
	o.f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
	o.f.Do(map[string]any{"do": "focus", "widget": "entry"})
}
func (o swayOracle) Entry() string { return o.f.Read("entry").Text }
func (o swayOracle) Clicks() (n int) {
	for _, e := range o.f.Events() {
		if e.Kind == "clicked" && e.Widget == "button" {
			n++
		}
	}
	return n
}
func (o swayOracle) Clipboard() (string, bool) { return o.s.Clipboard() }
func (o swayOracle) Copy(text string)          { o.s.SetClipboard(text) }

func TestWayland(t *testing.T) {
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4} {
		t.Run(string(kit), func(t *testing.T) {
			s := desk.StartSway(t, desk.SwayOptions{})
			o := open(t, s.Desk, nil)
			// The seat gets its keyboard before the program starts, as a person's has one.
			if _, err := o.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			platformtest.Test(t, o, swayOracle{s, s.Fixture(kit, 5)})
		})
	}
}

// A lock program that tells nobody is seen by being there, on this desktop only.
func TestLockedBySwaylock(t *testing.T) {
	s := desk.StartSway(t, desk.SwayOptions{NoBus: true})
	desk.Need(t, "swaylock")
	away := map[string]string{"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere"}
	o := open(t, s.Desk, away)
	other := open(t, s.Desk, map[string]string{"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere", "WAYLAND_DISPLAY": "another"})
	if why := o.Locked(t.Context()); why != "" {
		t.Fatalf("locked by nobody: %s", why)
	}
	p := s.Start("swaylock", "--color", "000000")
	desk.Await(t, "the lock to be known", func() bool {
		if p.Ended() {
			t.Fatalf("swaylock ended: %v", p.Err)
		}
		return strings.Contains(o.Locked(t.Context()), "swaylock")
	})
	if why := other.Locked(t.Context()); why != "" {
		t.Errorf("another desktop is locked, too: %s", why)
	}
	p.Kill()
	desk.Await(t, "the end of the lock", func() bool { return o.Locked(t.Context()) == "" })
}

// shooter is the Screenshot interface of a portal: it returns the same image to all.
type shooter struct {
	conn *dbus.Conn
	file string
}

func (s shooter) Screenshot(from dbus.Sender, _ string, o map[string]dbus.Variant) (dbus.ObjectPath, *dbus.Error) {
	token, _ := o["handle_token"].Value().(string)
	path := dbus.ObjectPath("/org/freedesktop/portal/desktop/request/" + strings.ReplaceAll(string(from)[1:], ".", "_") + "/" + token)
	_ = s.conn.Emit(path, "org.freedesktop.portal.Request.Response", uint32(0), map[string]dbus.Variant{"uri": dbus.MakeVariant("file://" + s.file)})
	return path, nil
}

// A compositor that lets no program near is worked by the portal, if there is one;
// else each part is refused with the name of every interface that would have done.
func TestCompositorWithoutTheProtocols(t *testing.T) {
	d := desk.StartWeston(t)
	lacks := func(o interface {
		Open(context.Context) (*platform.Desktop, error)
	}, part platform.DesktopPart, words ...string) {
		t.Helper()
		got, err := o.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := got.Missing[part]
		if m == nil || m.Fix == "" {
			t.Fatalf("%s: %+v", part, got)
		}
		for _, word := range words {
			if !strings.Contains(m.What, word) {
				t.Errorf("%s: %q does not say %q", part, m.What, word)
			}
		}
	}
	none := open(t, d, map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"})
	lacks(none, platform.PartScreen, "zwlr_screencopy_manager_v1", "no desktop portal")
	lacks(none, platform.PartInput, "zwlr_virtual_pointer_manager_v1", "no desktop portal")

	bus := desk.StartX(t, desk.Options{NoWM: true})
	c, err := dbus.Connect(bus.Bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	image, err := os.ReadFile(filepath.Join("testdata", "weston.png"))
	if err != nil {
		t.Fatal(err)
	}
	shot := shooter{c, filepath.Join(t.TempDir(), "shot.png")}
	const path = "/org/freedesktop/portal/desktop"
	number := func(v uint32) *prop.Prop { return &prop.Prop{Value: v} }
	props := prop.Map{"org.freedesktop.portal.Screenshot": {"version": number(2)}}
	if _, err := prop.Export(c, path, props); err != nil {
		t.Fatal(err)
	}
	if err := c.Export(shot, path, "org.freedesktop.portal.Screenshot"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RequestName("org.freedesktop.portal.Desktop", 0); err != nil {
		t.Fatal(err)
	}
	there := map[string]string{"DBUS_SESSION_BUS_ADDRESS": bus.Bus}
	half := open(t, d, there)
	lacks(half, platform.PartInput, "zwp_virtual_keyboard_manager_v1", "org.freedesktop.portal.RemoteDesktop")
	got, err := half.Open(t.Context())
	if err != nil || got.Screen == nil || !strings.Contains(got.Name, "portals") {
		t.Fatalf("with the Screenshot portal: %+v, %v", got, err)
	}
	if err := os.WriteFile(shot.file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	frame, err := got.Screen.Frame(t.Context(), platform.Rect{X: 1000, Y: 590, Width: 2, Height: 1}, false)
	if err != nil || frame.Pix[2] != 0xC0 || frame.Pix[0] != 0x40 {
		t.Errorf("the image's corner: %+v, %v", frame, err)
	}
	if _, err := os.Stat(shot.file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the image stays: %v", err)
	}

	for iface, numbers := range map[string]map[string]*prop.Prop{
		"org.freedesktop.portal.RemoteDesktop": {"version": number(1), "AvailableDeviceTypes": number(3)}, "org.freedesktop.portal.ScreenCast": {"AvailableSourceTypes": number(1)},
	} {
		props[iface] = numbers
	}
	if _, err := prop.Export(c, path, props); err != nil {
		t.Fatal(err)
	}
	whole, err := open(t, d, there).Open(t.Context())
	if err != nil || whole.Input == nil || whole.Screen == nil {
		t.Fatalf("with all portals: %+v, %v", whole, err)
	}
	// This seat has no keyboard, so there is nothing that can be typed for sure.
	if n, err := whole.Input.Type(t.Context(), "a"); n != 0 || !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("typed %d: %v", n, err)
	}
}
