package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

func TestMouseActions(t *testing.T) {
	b := newTable(t, Options{})
	for args, want := range map[string][]string{
		`{"action": "click", "x": 5, "y": 6}`: {"left true at 5,6", "left false at 5,6"},
		`{"action": "click", "x": 5, "y": 6, "button": "right", "count": 2, "modifiers": ["Control", "Shift"]}`: {
			"Control true", "Shift true", "right true at 5,6", "right false at 5,6", "right true at 5,6", "right false at 5,6", "Shift false", "Control false"},
		`{"action": "scroll", "x": 5, "y": 6, "scroll_x": -2, "scroll_y": 7}`:                                  {"scroll -2 7"},
		`{"action": "drag", "path": [{"x": 1, "y": 2}, {"x": 50, "y": 60}], "x": 9, "y": 8, "duration_ms": 0}`: {"left true at 1,2", "left false at 9,8"},
		`{"action": "drag", "path": [{"x": 1, "y": 2}], "x": 90, "y": 8, "duration_ms": 40}`:                   {"left true at 1,2", "left false at 90,8"},
	} {
		before := len(b.d.Events())
		b.do("mouse", args)
		b.same(b.ops(before), want...)
		b.nothingHeld()
	}
	b.do("mouse", `{"action": "move", "x": 30, "y": 40}`)
	before := len(b.d.Events())
	b.do("mouse", `{"action": "drag", "x": 9, "y": 8}`) // the baseline's: from where it is
	b.same(b.ops(before), "left true at 30,40", "left false at 9,8")
	for _, bad := range []string{
		`{"action": "scroll", "x": 1, "y": 1}`, `{"action": "click", "x": 1, "y": 1, "scroll_y": 1}`,
		`{"action": "click", "x": 1, "y": 1, "path": [{"x": 1, "y": 1}]}`, `{"action": "drag", "x": 1, "y": 1, "count": 2}`,
	} {
		b.refused(capabilities.CodeInvalidArguments, "mouse", bad)
	}
}

// clicker counts the clicks that are made at once.
type clicker struct {
	platform.Input
	clicks []int
}

func (c *clicker) Click(_ context.Context, _ platform.Button, count int, apart time.Duration) error {
	if apart < time.Millisecond { // they would be one to some applications
		return errors.New("too close")
	}
	c.clicks = append(c.clicks, count)
	return nil
}

// Clicks that belong together are made at once where the input can, unless they are to
// take their time.
func TestSeveralClicksAtOnce(t *testing.T) {
	b := newTable(t, Options{})
	d, err := b.d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &clicker{Input: d.Input}
	d.Input = c
	before := len(b.d.Events())
	b.do("mouse", `{"action": "click", "x": 5, "y": 6, "count": 2}`)
	b.do("mouse", `{"action": "click", "x": 5, "y": 6, "count": 3, "modifiers": ["Shift"]}`)
	b.same(b.ops(before), "Shift true", "Shift false")
	b.do("mouse", `{"action": "click", "x": 5, "y": 6}`)
	b.do("mouse", `{"action": "click", "x": 5, "y": 6, "count": 2, "duration_ms": 2}`)
	b.same(b.ops(before)[2:], "left true at 5,6", "left false at 5,6", "left true at 5,6", "left false at 5,6", "left true at 5,6", "left false at 5,6")
	if !slices.Equal(c.clicks, []int{2, 3}) {
		t.Errorf("at once: %v", c.clicks)
	}
}

// The effect of an action is told as far as it was seen.
func TestMouseEffects(t *testing.T) {
	b := newTable(t, Options{})
	if _, out := b.full("mouse", `{"action": "move", "x": 5, "y": 6}`); out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s", out.Effect)
	}
	if _, out := b.full("mouse", `{"action": "click", "x": 5, "y": 6}`); out.Effect != capabilities.EffectSuspectNoop {
		t.Errorf("%s: %s", out.Effect, out.Evidence)
	}
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && !e.Down {
			d.Paint(platform.Rect{X: 10, Y: 10, Width: 5, Height: 5}, 0xffffff)
		}
	}
	if _, out := b.full("mouse", `{"action": "click", "x": 5, "y": 6}`); out.Effect != capabilities.EffectPartial {
		t.Errorf("%s: %s", out.Effect, out.Evidence)
	}
	b.d.Fail("screen.changes", &platform.MissingError{What: "No."})
	if _, out := b.full("mouse", `{"action": "click", "x": 5, "y": 6}`); out.Effect != capabilities.EffectUnverifiable {
		t.Errorf("%s: %s", out.Effect, out.Evidence)
	}
}

// A button stays down between calls of a lane, and no longer than that: other
// lanes wait, and it comes up with the lane.
func TestHeldButtons(t *testing.T) {
	b := newTable(t, Options{})
	if m := b.do("mouse", `{"action": "down", "x": 10, "y": 10}`); fmt.Sprint(m["held"]) != "[left]" {
		t.Errorf("%v", m)
	}
	b.do("mouse", `{"action": "move", "x": 20, "y": 30}`)
	b.do("keyboard", `{"action": "press", "key": "a"}`)
	if _, buttons := b.d.Held(); len(buttons) != 1 {
		t.Fatal("the button came up")
	}
	b.before(30*time.Millisecond, func(ctx context.Context) error {
		_, err := b.call(ctx, "other", "mouse", `{"action": "click", "x": 1, "y": 1}`)
		return otherThan(err, capabilities.CodeOverloaded)
	})
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "other", "mouse", `{"action": "click", "x": 1, "y": 1}`)
		done <- err
	}()
	if m := b.do("mouse", `{"action": "up", "x": 20, "y": 30}`); m["held"] != nil {
		t.Errorf("%v", m)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.nothingHeld()
	b.do("mouse", `{"action": "down", "x": 10, "y": 10}`)
	b.h.CloseLane("a")
	b.nothingHeld()
	b.h.CloseLane("a")
}

// A button that is down is not pressed: the call says so and does nothing, and the hold
// goes on.
func TestHeldButtonIsNotPressedAgain(t *testing.T) {
	b := newTable(t, Options{})
	b.d.AddElement(platform.Element{Role: "label", Name: "target", States: []string{"visible", "enabled"}, Bounds: platform.Rect{X: 40, Y: 40, Width: 20, Height: 20}})
	b.do("mouse", `{"action": "down", "x": 10, "y": 10}`)
	before := len(b.d.Events())
	for _, call := range [][2]string{
		{"mouse", `{"action": "click", "x": 20, "y": 20, "modifiers": ["Shift"]}`},
		{"mouse", `{"action": "down", "x": 20, "y": 20}`},
		{"mouse", `{"action": "drag", "x": 20, "y": 20, "path": [{"x": 5, "y": 5}]}`},
		{"act", `{"target": "name:target", "action": {"kind": "click"}}`},
		{"act", `{"target": "name:target", "action": {"kind": "drag", "x": 5, "y": 5}}`},
	} {
		e := b.refused(capabilities.CodeConflict, call[0], call[1])
		if !strings.Contains(e.Message, "left button is down") || !strings.Contains(e.Hint, "action up") {
			t.Errorf("%v: %v", call, e)
		}
		if _, buttons := b.d.Held(); len(buttons) != 1 {
			t.Fatalf("%v: held %v", call, buttons)
		}
	}
	b.same(b.ops(before))
	if m := b.do("mouse", `{"action": "click", "button": "right", "x": 10, "y": 10}`); fmt.Sprint(m["held"]) != "[left]" {
		t.Errorf("another button: %v", m)
	}
	b.do("act", `{"target": "name:target", "action": {"kind": "hover"}}`) // drags it there
	if _, buttons := b.d.Held(); len(buttons) != 1 {
		t.Errorf("held: %v", buttons)
	}
	// Any other failure lets go, as before.
	b.d.Fail("input.move", errors.New("broken"))
	b.refused(capabilities.CodeExecutionFailed, "mouse", `{"action": "move", "x": 20, "y": 20}`)
	b.nothingHeld()
	b.d.Fail("input.move", nil)
	b.do("mouse", `{"action": "click", "x": 10, "y": 10}`)
	b.nothingHeld()
}

func TestKeyboard(t *testing.T) {
	b := newTable(t, Options{})
	window := b.d.AddWindow(platform.Window{Title: "Secret title", Bounds: platform.Rect{Width: 100, Height: 100}, Focused: true})
	before := len(b.d.Events())
	m, out := b.full("keyboard", `{"action": "type", "text": "é漢😀\n"}`)
	if m["typed"] != 4.0 || m["window"] != window {
		t.Errorf("%v", m)
	}
	if text := fmt.Sprint(m, out.Evidence); strings.Contains(text, "漢") || strings.Contains(text, "Secret") {
		t.Errorf("the answer tells: %s", text)
	}
	b.do("keyboard", `{"action": "press", "key": "ctrl+Shift+K", "count": 2}`)
	b.do("keyboard", `{"action": "press", "key": "+"}`)
	b.do("keyboard", `{"action": "press", "key": "Control++"}`)
	b.same(b.ops(before), "type é漢😀\n", "Control true", "Shift true", "k true", "k false", "k true", "k false", "Shift false", "Control false",
		"+ true", "+ false", "Control true", "+ true", "+ false", "Control false")
	for _, bad := range []string{
		`{"action": "type"}`, `{"action": "press"}`, `{"action": "press", "key": ""}`, `{"action": "press", "key": "Hyper"}`,
		`{"action": "press", "key": "a+b"}`, `{"action": "press", "key": "Control+"}`, `{"action": "press", "key": "Control+Control+a"}`,
		`{"action": "type", "text": "x", "key": "a"}`, `{"action": "type", "text": "x", "count": 2}`, `{"action": "press", "key": "\u0007"}`,
	} {
		b.refused(capabilities.CodeInvalidArguments, "keyboard", bad)
	}
	b.d.Fail("input.type", platform.ErrUntypable)
	if e := b.refused(capabilities.CodeTextUntypable, "keyboard", `{"action": "type", "text": "hidden"}`); strings.Contains(e.Error()+fmt.Sprint(e.Details), "hidden") {
		t.Error(e)
	}
}

// Windows of this program are neither clicked, dragged over, typed into nor told.
func TestOwnWindows(t *testing.T) {
	b := newTable(t, Options{})
	own := b.d.AddWindow(platform.Window{Title: "Allow this?", Own: true, Focused: true, Bounds: platform.Rect{X: 100, Y: 100, Width: 50, Height: 50}})
	before := len(b.d.Events())
	b.refused(capabilities.CodeOwnWindow, "mouse", `{"action": "click", "x": 120, "y": 120}`)
	b.refused(capabilities.CodeOwnWindow, "mouse", `{"action": "scroll", "x": 120, "y": 120, "scroll_y": 1}`)
	b.refused(capabilities.CodeOwnWindow, "mouse", `{"action": "drag", "path": [{"x": 120, "y": 120}], "x": 1, "y": 1}`)
	b.refused(capabilities.CodeOwnWindow, "mouse", `{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 120, "y": 120}`)
	b.refused(capabilities.CodeOwnWindow, "mouse", `{"action": "down", "x": 120, "y": 120}`)
	b.refused(capabilities.CodeOwnWindow, "keyboard", `{"action": "type", "text": "y"}`)
	b.refused(capabilities.CodeOwnWindow, "keyboard", `{"action": "press", "key": "Enter"}`)
	b.refused(capabilities.CodeWindowNotFound, "screenshot", `{"display": "all", "window": "Allow"}`)
	b.same(b.ops(before))
	if _, out := b.full("mouse", `{"action": "click", "x": 90, "y": 120}`); out.Did.App != "" {
		t.Errorf("where there is no window: %+v", out.Did)
	}
	if m := b.do("snapshot", `{"outline": true}`); len(m["windows"].([]any)) != 0 || strings.Contains(m["outline"].(string), "Allow") || strings.Contains(m["outline"].(string), own) {
		t.Errorf("%v", m)
	}
	b.d.AddWindow(platform.Window{Title: "notes", App: "Mousepad", Bounds: platform.Rect{X: 200, Y: 100, Width: 50, Height: 50}})
	if _, out := b.full("mouse", `{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 220, "y": 120, "duration_ms": 0}`); out.Did.App != "Mousepad" {
		t.Errorf("the application that the mouse was used in: %+v", out.Did)
	}
}

func TestClipboardWrite(t *testing.T) {
	b := newTable(t, Options{})
	_, out := b.full("clipboard-write", `{"text": "p4ss"}`)
	text, ours, concealed, after := b.d.Copied()
	if text != "p4ss" || !ours || !concealed || after != time.Minute || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%q %v %v %v %s", text, ours, concealed, after, out.Effect)
	}
	if strings.Contains(fmt.Sprint(out), "p4ss") {
		t.Error("the answer tells the text")
	}
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "clipboard.write" {
			d.Copy("something else")
		}
	}
	if e := b.refused(capabilities.CodeExecutionFailed, "clipboard-write", `{"text": "p4ss"}`); strings.Contains(e.Error(), "p4ss") {
		t.Error(e)
	}
	b.d.OnEvent = nil
	b.d.Fail("clipboard.write", errors.New("cannot write p4ss"))
	if e := b.refused(capabilities.CodeExecutionFailed, "clipboard-write", `{"text": "p4ss"}`); strings.Contains(e.Error(), "p4ss") {
		t.Error(e)
	}
}

func TestChords(t *testing.T) {
	for chord, want := range map[string]string{
		"Enter": "Enter", "return": "Enter", "a": "a", "A": "A", "é": "é", " ": " ", "+": "+", "F12": "F12", "f5": "F5",
		"Control+A": "Control a", "ctrl+shift+k": "Control Shift k", "Alt++": "Alt +", "cmd+PageDown": "Meta PageDown", "Shift+Tab": "Shift Tab", "Shift": "Shift",
		"Control+Shift": "Control Shift",
	} {
		keys, err := parseChord(chord)
		if err != nil || strings.Join(keys, " ") != want {
			t.Errorf("%q: %q %v", chord, keys, err)
		}
	}
	for _, bad := range []string{"", "++", "+a", "a+", "Control+", "Control++a", "x+y", "Hyper+a", "Alt+Alt+a", "Control+Control", "Shift+Alt+Shift", "\x00", "ab", "\xff", "Alt+AltGr+Control+Meta+Shift+a+b"} {
		if keys, err := parseChord(bad); err == nil {
			t.Errorf("%q: %q", bad, keys)
		}
	}
}

func FuzzParseChord(f *testing.F) {
	for _, seed := range []string{"Control+Shift+K", "+", "Alt++", "é", "", "\x11", "Control+İ", "Control+K"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, chord string) {
		keys, err := parseChord(chord)
		if err != nil {
			if keys != nil {
				t.Errorf("%q: keys beside an error", chord)
			}
			return
		}
		again, err := parseChord(strings.Join(keys, "+"))
		if err != nil || !slices.Equal(keys, again) {
			t.Errorf("%q is %q, and that is %q %v", chord, keys, again, err)
		}
	})
}
