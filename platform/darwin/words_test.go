package darwin

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/platform"
)

func TestKeys(t *testing.T) {
	used := map[uint16]string{}
	for _, name := range platform.KeyNames {
		k, ok := keyOf(name)
		if !ok || k.anyhow || k.char != 0 {
			t.Errorf("%s is %+v", name, k)
		}
		if was, double := used[k.code]; double {
			t.Errorf("%s and %s are both key %d", name, was, k.code)
		}
		used[k.code] = name
	}
	for r, code := range ansi {
		if was, double := used[code]; double && r != ' ' {
			t.Errorf("%q and %s are both key %d", r, was, code)
		}
		used[code] = string(r)
		if k, ok := keyOf(strings.ToUpper(string(r))); !ok || k.code != code {
			t.Errorf("%q in capitals is %+v", r, k)
		}
	}
	for name, want := range map[string]key{"a": {code: 0, char: 'a'}, "A": {code: 0, char: 'A'}, "é": {char: 'é', anyhow: true}, "CONTROL": {code: 59, flag: flagControl}} {
		if k, ok := keyOf(name); !ok || k != want {
			t.Errorf("%s is %+v", name, k)
		}
	}
	for _, name := range []string{"", "ab", "nonsense", "\xff", "\n"} {
		if k, ok := keyOf(name); ok {
			t.Errorf("%q is %+v", name, k)
		}
	}
}

func TestHotkeys(t *testing.T) {
	if flags, code, ok := hotkeyOf("ctrl+alt+escape"); !ok || flags != flagControl|flagAlt || code != 53 {
		t.Errorf("%x, %d, %v", flags, code, ok)
	}
	if flags, code, ok := hotkeyOf("Cmd+Shift+K"); !ok || flags != flagCommand|flagShift || code != 40 {
		t.Errorf("%x, %d, %v", flags, code, ok)
	}
	for _, bad := range []string{"ctrl+nonsense", "ctrl", "a+ctrl", "a+b", "ctrl+é", "ctrl+", ""} {
		if _, _, ok := hotkeyOf(bad); ok {
			t.Errorf("%q is a hot key", bad)
		}
	}
}

func TestWords(t *testing.T) {
	for role, w := range roleWords {
		if !slices.Contains(platform.Roles, w) {
			t.Errorf("%s is %q, which is no role", role, w)
		}
	}
	for role, w := range subroleWords {
		if !slices.Contains(platform.Roles, w) {
			t.Errorf("%s is %q, which is no role", role, w)
		}
	}
	for name, kind := range notifications {
		if !slices.Contains([]string{"added", "removed", "changed", "focused", "window", "text"}, kind) || !strings.HasPrefix(name, "AX") {
			t.Errorf("%s is %q", name, kind)
		}
	}
	seen := platform.Rect{Width: 9, Height: 9}
	for _, c := range []struct {
		what                         string
		f                            facts
		role, name, states, do, show string
	}{
		{"a button", facts{role: "AXButton", title: " OK ", bounds: seen, enabled: true, knowsEnabled: true, actions: []string{"AXPress", "AXShowMenu", "Name:x"}},
			"button", "OK", "enabled focusable visible", "press show_menu", ""},
		{"a checked box", facts{role: "AXCheckBox", description: "Loud", numbered: true, number: 1, bounds: seen, actions: []string{"AXPress"}},
			"checkbox", "Loud", "checked enabled focusable visible", "press", ""},
		{"a half checked one that is off", facts{role: "AXCheckBox", numbered: true, number: 2, bounds: seen, knowsEnabled: true}, "checkbox", "", "focusable mixed visible", "", ""},
		{"a field", facts{role: "AXTextField", text: "abc", settable: true, focused: true, bounds: seen}, "textbox", "", "editable enabled focusable focused visible", "", "abc"},
		{"a password", facts{role: "AXTextField", subrole: "AXSecureTextField", text: "secret", settable: true, bounds: seen}, "textbox", "", "editable enabled focusable protected visible", "", ""},
		{"a text", facts{role: "AXStaticText", text: "Hello", bounds: seen}, "label", "Hello", "enabled visible", "", "Hello"},
		{"a slider", facts{role: "AXSlider", numbered: true, number: 0.5, bounds: seen, actions: []string{"AXIncrement", "AXDecrement"}}, "slider", "", "enabled visible", "increment decrement", "0.5"},
		{"a branch", facts{role: "AXRow", subrole: "AXOutlineRow", knowsExpands: true, knowsSelected: true, selected: true, bounds: seen}, "treeitem", "", "collapsed enabled selectable selected visible", "expand collapse", ""},
		{"a sheet", facts{role: "AXSheet", bounds: seen}, "dialog", "", "enabled modal visible", "", ""},
		{"a minimised window", facts{role: "AXWindow", subrole: "AXStandardWindow", title: "Doc", minimized: true, bounds: seen}, "window", "Doc", "enabled offscreen", "", ""},
		{"what nobody knows", facts{role: "AXNew"}, "generic", "", "enabled offscreen", "", ""},
	} {
		e := c.f.element("ax:1:1", 0, "App", "cg:1", true)
		if e.Role != c.role || e.Name != c.name || strings.Join(e.States, " ") != c.states || strings.Join(e.Actions, " ") != c.do || e.Value != c.show {
			t.Errorf("%s: %+v", c.what, e)
		}
	}
	for native, w := range actionWords {
		if nativeAction(w) != native {
			t.Errorf("%s is %s is %s", native, w, nativeAction(w))
		}
	}
}

// An element, whatever its application says, keeps to the seam's words and bounds,
// and a protected field's value is in nothing of it.
func TestElementHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts{
			role: rapid.SampledFrom(append(slices.Sorted(func(yield func(string) bool) {
				for r := range roleWords {
					if !yield(r) {
						return
					}
				}
			}), "", "AXOther")).Draw(t, "role"),
			subrole: rapid.SampledFrom([]string{"", "AXSecureTextField", "AXSwitch", "AXDialog", "AXToggle"}).Draw(t, "subrole"),
			title:   string(rapid.SliceOf(rapid.Byte()).Draw(t, "title")), text: rapid.StringMatching(`secret[a-z]{8}`).Draw(t, "text"),
			number: rapid.Float64().Draw(t, "number"), actions: rapid.SliceOf(rapid.SampledFrom([]string{"AXPress", "AXPick", "x", ""})).Draw(t, "actions"),
		}
		for _, b := range []*bool{&f.numbered, &f.enabled, &f.knowsEnabled, &f.focused, &f.selected, &f.expanded, &f.knowsSelected, &f.knowsExpands, &f.modal, &f.main, &f.minimized, &f.settable} {
			*b = rapid.Bool().Draw(t, "bool")
		}
		e := f.element(elementRef(4, 5), -1, "", "", true)
		if !slices.Contains(platform.Roles, e.Role) || !slices.IsSorted(e.States) {
			t.Fatalf("%+v", e)
		}
		for _, s := range e.States {
			if !slices.Contains(platform.States, s) {
				t.Fatalf("%q is no state", s)
			}
		}
		if f.protected() && (strings.Contains(e.Value, f.text) || strings.Contains(e.Name, f.text)) {
			t.Fatalf("a protected field tells: %+v", e)
		}
	})
}

func TestAnswers(t *testing.T) {
	for code, want := range map[int32]error{0: nil, -25202: platform.ErrGone, -25204: platform.ErrHung, -25205: platform.ErrCannot, -25206: platform.ErrCannot, -25212: platform.ErrCannot} {
		if got := axError("x", code); got != want {
			t.Errorf("%d is %v, not %v", code, got, want)
		}
	}
	var missing *platform.MissingError
	if err := axError("x", -25211); !errors.As(err, &missing) || !missing.Permission || !strings.Contains(missing.Fix, "Accessibility") {
		t.Errorf("%v", err)
	}
	if err := axError("AXUIElementCreate", -1); err == nil || err.Error() != "darwin: AXUIElementCreate answered -1" {
		t.Error(err)
	}
	for _, p := range []permission{screenRecording, accessibility, inputMonitoring, locationServices} {
		if m := lacks(p); !m.Permission || !strings.Contains(m.Fix, p.page) || !strings.Contains(m.Fix, p.pane) || len(m.Fix) > 300 {
			t.Errorf("%v", m)
		}
	}
}

func TestRefs(t *testing.T) {
	if n, ok := windowNumber(windowRef(77)); !ok || n != 77 {
		t.Error(n, ok)
	}
	for _, ref := range []string{"", "cg:", "cg:0", "cg:-1", "cg:x", "x11:1", "cg:99999999999"} {
		if n, ok := windowNumber(ref); ok {
			t.Errorf("%q is window %d", ref, n)
		}
	}
}

// Each pixel of a display comes back from its point, and no display lies over
// another, whatever their scales.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l layout
		x := float64(rapid.IntRange(-3000, 0).Draw(t, "left"))
		for i := range rapid.IntRange(1, 3).Draw(t, "displays") {
			w, h := rapid.IntRange(600, 3000).Draw(t, "width"), rapid.IntRange(400, 2000).Draw(t, "height")
			by := rapid.SampledFrom([]float64{1, 1.5, 2, 3}).Draw(t, "scale")
			l = append(l, screen{id: uint32(i), points: rect{x, float64(rapid.IntRange(-500, 500).Draw(t, "top")), float64(w), float64(h)},
				width: int(float64(w) * by), height: int(float64(h) * by)})
			x += float64(w)
		}
		for i, s := range l {
			b := l.bounds(s)
			for _, other := range l[i+1:] {
				if !b.Intersect(l.bounds(other)).Empty() {
					t.Fatalf("%+v lies over %+v", b, l.bounds(other))
				}
			}
			p := platform.Point{X: b.X + rapid.IntRange(0, b.Width-1).Draw(t, "x"), Y: b.Y + rapid.IntRange(0, b.Height-1).Draw(t, "y")}
			at, ok := l.toPoint(p)
			if back := l.toPixel(at); !ok || back != p {
				t.Fatalf("%+v is %+v is %+v", p, at, back)
			}
			r := platform.Rect{X: b.X + 10, Y: b.Y + 20, Width: 300, Height: 200}
			if back := l.toPixels(l.toPoints(r)); back != r {
				t.Fatalf("%+v is %+v is %+v", r, l.toPoints(r), back)
			}
		}
		if _, ok := l.toPoint(platform.Point{X: 1 << 20, Y: 0}); ok {
			t.Fatal("a pixel on no display has a point")
		}
	})
	for _, r := range []rect{{math.NaN(), 0, math.NaN(), 1}, {0, 0, -1, 5}, {math.Inf(1), 0, 5, 5}, {0, 0, math.Inf(1), 5}} {
		l := layout{{points: rect{0, 0, 100, 100}, width: 200, height: 200}}
		if p := l.toPixels(r); p.Width < 0 || p.Width > 2*farthest || p.X > 2*farthest {
			t.Errorf("%+v is %+v", r, p)
		}
	}
}
