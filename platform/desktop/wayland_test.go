//go:build linux

package desktop_test

import (
	"testing"

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
