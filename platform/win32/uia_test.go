package win32

import (
	_ "embed"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

//go:embed testdata/uia-order.txt
var documentedOrder string

// order returns the documented order of the interfaces' methods.
func order(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for l := range strings.Lines(documentedOrder) {
		if name, methods, ok := strings.Cut(strings.TrimSpace(l), ": "); ok && !strings.HasPrefix(name, "#") {
			all[name] = strings.Fields(methods)
		}
	}
	if len(all) < 15 {
		t.Fatalf("the order of %d interfaces", len(all))
	}
	return all
}

// Every method that is called stands where Microsoft's header puts it.
func TestMethodOrder(t *testing.T) {
	documented := order(t)
	// The table's own places: those of books about it, so that a shifted list shows.
	for name, slot := range map[string]int{"IUIAutomation2.ElementFromHandle": 6, "IUIAutomation2.CreateTrueCondition": 21, "IUIAutomationElement.FindAll": 6,
		"IUIAutomationElement.get_CurrentControlType": 21, "IUIAutomationElement.get_CurrentName": 23, "IUIAutomationElement.get_CurrentBoundingRectangle": 43} {
		of, method, _ := strings.Cut(name, ".")
		if got := slices.Index(documented[of], method); got != slot {
			t.Errorf("the list has %s at %d, not %d", name, got, slot)
		}
	}
	for i, m := range methods {
		if m.name == "" {
			t.Errorf("method %d has no place", i)
			continue
		}
		if got := slices.Index(documented[m.of], m.name); got != int(m.slot) {
			t.Errorf("%s.%s is called at %d, and documented at %d", m.of, m.name, m.slot, got)
		}
	}
	for id, name := range patternIDs {
		if len(name) != 36 {
			t.Errorf("the interface of pattern %d: %q", id, name)
		}
	}
	if slices.Contains(fetched[:], 0) || len(slices.Compact(slices.Sorted(slices.Values(fetched[:])))) != len(fetched) {
		t.Error("a property is fetched twice or is none")
	}
}

func TestWords(t *testing.T) {
	for i := range controlWords {
		if f := (facts{control: firstControl + int32(i)}); !slices.Contains(platform.Roles, f.role()) {
			t.Errorf("%d has the role %q, which is no word of the seam", f.control, f.role())
		}
	}
	for _, c := range []struct {
		what    string
		f       facts
		role    string
		states  string
		actions string
		value   string
	}{
		{"a button", facts{control: 50000, enabled: true, focusable: true, invokes: true}, "button", "enabled focusable visible", "press", ""},
		{"one that stays down", facts{control: 50000, enabled: true, flips: true, toggle: 1}, "togglebutton", "enabled pressed visible", "press toggle", ""},
		{"a box half checked", facts{control: 50002, enabled: true, flips: true, toggle: 2}, "checkbox", "enabled mixed visible", "press toggle", ""},
		{"a checked box", facts{control: 50002, flips: true, toggle: 1}, "checkbox", "checked visible", "press toggle", ""},
		{"a field", facts{control: 50004, enabled: true, valued: true, value: "text"}, "textbox", "editable enabled visible", "", "text"},
		{"a field to read", facts{control: 50004, enabled: true, valued: true, readonly: true, value: "text"}, "textbox", "enabled readonly visible", "", "text"},
		{"a password", facts{control: 50004, enabled: true, valued: true, password: true, value: "secret"}, "textbox", "editable enabled protected visible", "", ""},
		{"an editor", facts{control: 50030, enabled: true, focusable: true, valued: true}, "textbox", "editable enabled focusable multiline visible", "", ""},
		{"a page", facts{control: 50030, enabled: true}, "document", "enabled visible", "", ""},
		{"a closed combobox", facts{control: 50003, enabled: true, expands: true}, "combobox", "collapsed enabled visible", "press expand collapse", ""},
		{"an open branch", facts{control: 50024, enabled: true, expands: true, expand: 1, selects: true, selected: true}, "treeitem", "enabled expanded selectable selected visible", "expand collapse select", ""},
		{"a leaf", facts{control: 50024, enabled: true, expands: true, expand: 3, selects: true}, "treeitem", "enabled selectable visible", "select", ""},
		{"a radio button", facts{control: 50013, enabled: true, selects: true, selected: true}, "radio", "checked enabled visible", "press select", ""},
		{"a slider", facts{control: 50015, enabled: true, ranges: true, number: 2.5}, "slider", "enabled visible", "", "2.5"},
		{"a dialog", facts{control: 50032, enabled: true, modal: true, active: true}, "dialog", "active enabled modal visible", "", ""},
		{"far below", facts{control: 50007, enabled: true, offscreen: true, selects: true}, "listitem", "enabled offscreen selectable", "select", ""},
		{"what nobody knows", facts{control: 7}, "generic", "visible", "", ""},
	} {
		e := c.f.element("ref", 3, "App", "hwnd:0x1", true)
		if e.Role != c.role || strings.Join(e.States, " ") != c.states || strings.Join(e.Actions, " ") != c.actions || e.Value != c.value {
			t.Errorf("%s: %+v", c.what, e)
		}
	}
}

// An element, whatever its application says, keeps to the seam's words and bounds,
// and a protected field's value is in nothing of it.
func TestElementHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts{
			control: rapid.Int32Range(49990, 50050).Draw(t, "control"), name: rapid.String().Draw(t, "name"), help: string(rapid.SliceOf(rapid.Byte()).Draw(t, "help")),
			value: rapid.StringMatching(`secret[a-z]{8}`).Draw(t, "value"), number: rapid.Float64().Draw(t, "number"),
			expand: rapid.Int32Range(-1, 5).Draw(t, "expand"), toggle: rapid.Int32Range(-1, 4).Draw(t, "toggle"),
		}
		for _, b := range []*bool{&f.focused, &f.focusable, &f.enabled, &f.password, &f.offscreen, &f.required, &f.expands, &f.invokes, &f.ranges, &f.selects, &f.flips,
			&f.valued, &f.readonly, &f.multiselect, &f.modal, &f.selected, &f.active} {
			*b = rapid.Bool().Draw(t, "bool")
		}
		e := f.element(elementRef(4, rapid.SliceOf(rapid.Int32()).Draw(t, "runtime")), -1, "", "", true)
		if !slices.Contains(platform.Roles, e.Role) || !slices.IsSorted(e.States) || len(slices.Compact(slices.Clone(e.States))) != len(e.States) {
			t.Fatalf("%+v", e)
		}
		for _, s := range e.States {
			if !slices.Contains(platform.States, s) {
				t.Fatalf("%q is no state", s)
			}
		}
		if f.password && e.Value != "" || len(e.Ref) > 512 || len(e.Name) > maxText || len(e.Description) > maxText {
			t.Fatalf("%+v", e)
		}
	})
}

func TestRefs(t *testing.T) {
	if got := elementRef(12, []int32{42, 0x1F0, -1}); got != "uia:12:2a.1f0.-1" {
		t.Error(got)
	}
	if elementRef(12, nil) != "" || elementRef(1, make([]int32, 600)) != "" {
		t.Error("a name without a number, or one that is too long")
	}
	if pid, ok := appOf(appRef(77)); !ok || pid != 77 {
		t.Error(pid, ok)
	}
	for _, ref := range []string{"", "uia:12:2a", "uia:app:", "uia:app:-1", "uia:app:x", "app:1"} {
		if _, ok := appOf(ref); ok {
			t.Errorf("%q is an application", ref)
		}
	}
}

func TestResults(t *testing.T) {
	for hr, want := range map[uint32]error{
		0: nil, 1: nil, 0x80040201: platform.ErrGone, 0x800706BA: platform.ErrGone, 0x80040200: platform.ErrCannot, 0x80131509: platform.ErrCannot,
		0x80004002: platform.ErrCannot, 0x80131505: platform.ErrHung,
	} {
		if got := resultError("Invoke", hr); got != want {
			t.Errorf("0x%X is %v, not %v", hr, got, want)
		}
	}
	if got := resultError("Invoke", 0x8000FFFF); got == nil || got.Error() != "win32: Invoke answered 0x8000FFFF" {
		t.Error(got)
	}
}

func TestEventKinds(t *testing.T) {
	for _, r := range eventRanges {
		if r[0] > r[1] {
			t.Errorf("%x", r)
		}
		for e := r[0]; e <= r[1]; e++ {
			if !slices.Contains([]string{"added", "removed", "changed", "focused", "window", "text"}, eventKind(uint32(e), 0)) || eventKind(uint32(e), objectCursor) != "" {
				t.Errorf("0x%X is %q", e, eventKind(uint32(e), 0))
			}
		}
	}
	// A reader that does not keep up gets one for many, and the newest.
	c := make(chan platform.ElementEvent, 4)
	for i := range 100 {
		hand(c, platform.ElementEvent{PID: i + 1, Kind: "text"})
	}
	var got []platform.ElementEvent
	for len(c) > 0 {
		got = append(got, <-c)
	}
	if last := got[len(got)-1]; last.PID != 100 || !slices.ContainsFunc(got, func(e platform.ElementEvent) bool { return e.PID == 0 && e.Kind == "changed" }) {
		t.Errorf("%+v", got)
	}
}

func TestClip(t *testing.T) {
	if got := capabilities.Clip("aé", 2); got != "a" {
		t.Errorf("%q", got)
	}
	if got := capabilities.Clip("a\xff", math.MaxInt); got != "a\uFFFD" {
		t.Errorf("%q", got)
	}
}
