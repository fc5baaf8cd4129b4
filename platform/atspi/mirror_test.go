package atspi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// sameAsCold waits until the mirror holds what a first reading over a connection of its own holds.
// Applications tell of changes a moment after they made them.
func sameAsCold(t testing.TB, d *desk.Desk, a *Accessibility, q platform.TreeQuery) {
	t.Helper()
	for deadline := time.Now().Add(desk.Within); ; time.Sleep(10 * time.Millisecond) {
		b := New(a.options)
		mirror, cold := outline(read(t, a, q)), outline(read(t, b, q))
		_ = b.Close()
		if mirror == cold {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mirror differs from a first reading:\n%s", difference(mirror, cold))
		}
	}
}

// difference lists the lines that only one of the texts has.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out strings.Builder
	for _, line := range as {
		if !slices.Contains(bs, line) {
			fmt.Fprintf(&out, "mirror %s\n", line)
		}
	}
	for _, line := range bs {
		if !slices.Contains(as, line) {
			fmt.Fprintf(&out, "cold   %s\n", line)
		}
	}
	if out.Len() == 0 {
		return "the order of\n" + a + "\nand\n" + b
	}
	return out.String()
}

// After whatever happens in a real program, the mirror is what a first reading makes: with what
// events tell alone, too, which small programs do without.
func TestMirror(t *testing.T) {
	t.Parallel()
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4, desk.Qt} {
		t.Run(string(kit), func(t *testing.T) {
			t.Parallel()
			d := desk.StartX(t, desk.Options{})
			a := ears(t, d)
			f := d.Fixture(kit, 30)
			d.Activate(f.Window.ID)
			named(t, a, f.PID, "button", "button")
			a.session.few = 0 // events alone
			q := platform.TreeQuery{PID: f.PID, Bounds: true}
			widgets := []string{"entry", "text", "button", "check", "spin", "slider", "combo", "list", "label"}
			rapid.Check(t, func(r *rapid.T) {
				for range rapid.IntRange(1, 12).Draw(r, "steps") {
					widget := rapid.SampledFrom(widgets).Draw(r, "widget")
					switch do := rapid.SampledFrom([]string{"text", "hide", "show", "disable", "enable", "focus", "check", "number", "rows", "title", "read"}).Draw(r, "do"); do {
					case "text":
						f.Do(map[string]any{"do": do, "widget": rapid.SampledFrom([]string{"entry", "text"}).Draw(r, "field"), "text": rapid.StringMatching(`[a-zé漢]{0,12}`).Draw(r, "text")})
					case "check":
						f.Do(map[string]any{"do": do, "widget": "check", "on": rapid.Bool().Draw(r, "on")})
					case "number":
						f.Do(map[string]any{"do": do, "widget": rapid.SampledFrom([]string{"spin", "slider"}).Draw(r, "number"), "number": rapid.IntRange(0, 100).Draw(r, "value")})
					case "rows":
						f.Do(map[string]any{"do": do, "number": rapid.SampledFrom([]int{0, 1, 5, 30, 600}).Draw(r, "rows")})
					case "title":
						f.Do(map[string]any{"do": do, "text": rapid.StringMatching(`[a-z]{1,8}`).Draw(r, "title")})
					case "read":
						read(t, a, q) // in the middle of things
					default:
						f.Do(map[string]any{"do": do, "widget": widget})
					}
				}
				sameAsCold(t, d, a, q)
			})
			p := a.session.owner(owner(a, f.PID))
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.nodes) > 3000 {
				t.Errorf("the mirror holds %d elements of a program with a hundred", len(p.nodes))
			}
		})
	}
}

func owner(a *Accessibility, pid int) string {
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	for bus, p := range a.session.apps {
		if p.processID() == pid {
			return bus
		}
	}
	return ""
}
