package desktop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

// table is a fake desktop and a handler, whose answers are held against the
// catalog and whose observations against the manifest.
type table struct {
	t *testing.T
	d *fake.Desktop
	h *Handler
}

func newTable(t *testing.T, o Options) *table {
	t.Helper()
	d := fake.New()
	o.Opener = d
	if o.QuietTime == 0 {
		o.QuietTime = time.Millisecond
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return &table{t, d, h}
}

// call makes a call in a lane, as the gateway would.
func (b *table) call(ctx context.Context, lane, tool, args string) (capabilities.Output, error) {
	b.t.Helper()
	tools, err := catalog.Embedded()
	if err != nil {
		b.t.Fatal(err)
	}
	id := capabilities.CapabilityID("tyrum.desktop." + tool)
	d, _ := tools.ByCapability(id)
	split, bad, err := d.SplitArgs([]byte(args))
	if err != nil || len(bad) > 0 {
		b.t.Errorf("%s %s: %v %v", tool, args, bad, err)
	}
	granted := d.Manifest.Keys()
	out, err := b.h.Handle(ctx, capabilities.Invocation{
		Capability: id, Lane: capabilities.LaneID(lane), Args: split.Canonical,
		Observe: func(key, _ string) {
			if !slices.Contains(granted, key) {
				b.t.Errorf("%s uses %s, which it does not declare", tool, key)
			}
		},
	})
	if err == nil {
		text, marshalErr := json.Marshal(out.Result)
		if bad := d.ValidateResult(text); marshalErr != nil || len(bad) > 0 {
			b.t.Errorf("%s gives %s: %v %v", tool, text, bad, marshalErr)
		}
		if len(out.Evidence) > 300 {
			b.t.Errorf("%s: evidence of %d bytes", tool, len(out.Evidence))
		}
	}
	return out, err
}

func (b *table) do(tool, args string) map[string]any {
	b.t.Helper()
	m, _ := b.full(tool, args)
	return m
}

func (b *table) full(tool, args string) (map[string]any, capabilities.Output) {
	b.t.Helper()
	out, err := b.call(b.t.Context(), "a", tool, args)
	if err != nil {
		b.t.Fatalf("%s %s: %v %v", tool, args, err, capabilities.AsError(err).Unwrap())
	}
	var m map[string]any
	text, _ := json.Marshal(out.Result)
	if err := json.Unmarshal(text, &m); err != nil {
		b.t.Fatal(err)
	}
	return m, out
}

func (b *table) refused(code capabilities.Code, tool, args string) *capabilities.Error {
	b.t.Helper()
	_, err := b.call(b.t.Context(), "a", tool, args)
	if capabilities.CodeOf(err) != code {
		b.t.Errorf("%s %s: %v, want %s", tool, args, err, code)
	}
	return capabilities.AsError(err)
}

// ops gives what the script saw since it had this many events.
func (b *table) ops(since int) []string {
	var list []string
	for _, e := range b.d.Events()[since:] {
		switch e.Op {
		case "input.button":
			list = append(list, fmt.Sprintf("%s %v at %d,%d", e.Button, e.Down, e.At.X, e.At.Y))
		case "input.key":
			list = append(list, fmt.Sprintf("%s %v", e.Key, e.Down))
		case "input.scroll":
			list = append(list, fmt.Sprintf("scroll %d %d", e.Right, e.DownBy))
		case "input.type":
			list = append(list, "type "+e.Text)
		}
	}
	return list
}

func (b *table) same(got []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%q, want %q", got, want)
	}
}

func (b *table) nothingHeld() {
	b.t.Helper()
	if keys, buttons := b.d.Held(); len(keys)+len(buttons) > 0 {
		b.t.Errorf("still down: %v %v", keys, buttons)
	}
}

var twoDisplays = []platform.Display{
	{ID: "L", Bounds: platform.Rect{X: -800, Y: 100, Width: 800, Height: 600}, Scale: 1},
	{ID: "R", Primary: true, Bounds: platform.Rect{X: 0, Y: 0, Width: 1600, Height: 1200}, Scale: 2},
}

// A point of a smaller image of a display left of the origin means the middle of
// what that pixel shows.
func TestPointsMeanWhatImagesShow(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(twoDisplays...)
	m, out := b.full("screenshot", `{"display": {"id": "L"}, "max_width": 200}`)
	frame := m["frame"].(map[string]any)
	if m["width"] != 200.0 || m["height"] != 150.0 || frame["x"] != -800.0 || frame["y"] != 100.0 || frame["width"] != 800.0 || frame["display"] != "L" {
		t.Errorf("%v", m)
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(out.Blobs[0].Bytes))
	if err != nil || c.Width != 200 || c.Height != 150 {
		t.Errorf("%v %v", c, err)
	}
	id := m["frame_id"].(string)
	for _, p := range []struct{ x, y, atX, atY int }{{0, 0, -798, 102}, {199, 149, -2, 698}, {100, 75, -398, 402}} {
		got := b.do("mouse", fmt.Sprintf(`{"action": "move", "x": %d, "y": %d, "frame_id": %q}`, p.x, p.y, id))
		at := got["pointer"].(map[string]any)
		if at["x"] != float64(p.atX) || at["y"] != float64(p.atY) || got["unbound"] != nil {
			t.Errorf("%v: %v", p, got)
		}
	}
	b.refused(capabilities.CodeOutsideDesktop, "mouse", fmt.Sprintf(`{"action": "click", "x": 200, "y": 10, "frame_id": %q}`, id))
	b.refused(capabilities.CodeOutsideDesktop, "mouse", `{"action": "click", "x": -10, "y": 50}`)
	b.refused(capabilities.CodeOutsideDesktop, "mouse", `{"action": "click", "x": 9e15, "y": 50}`)
	b.refused(capabilities.CodeStaleFrame, "mouse", `{"action": "click", "x": 1, "y": 1, "frame_id": "f1-none"}`)
	if got := b.do("mouse", `{"action": "move", "x": -10, "y": 150}`); got["unbound"] != true {
		t.Errorf("%v", got)
	}
}

// A change of the displays between the image and the click: nothing is clicked.
func TestChangedLayoutIsNeverClickedThrough(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(twoDisplays...)
	id := b.do("screenshot", `{"display": "all"}`)["frame_id"].(string)
	b.d.SetLayout(twoDisplays[1])
	before := len(b.d.Events())
	b.refused(capabilities.CodeStaleFrame, "mouse", fmt.Sprintf(`{"action": "click", "x": 900, "y": 300, "frame_id": %q}`, id))
	b.refused(capabilities.CodeStaleFrame, "mouse", fmt.Sprintf(`{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 300, "frame_id": %q}`, id))
	b.same(b.ops(before))
	b.refused(capabilities.CodeStaleFrame, "screenshot", fmt.Sprintf(`{"display": "all", "region": {"x": 0, "y": 0, "width": 10, "height": 10, "frame_id": %q}}`, id))
}

// The table of frames holds the last 256; those before are refused, not guessed.
func TestOldFramesAreForgotten(t *testing.T) {
	b := newTable(t, Options{})
	first := b.do("screenshot", `{"display": "primary", "max_width": 10}`)["frame_id"].(string)
	var second string
	for i := range maxFrames {
		b.d.Paint(platform.Rect{X: i, Width: 1, Height: 1}, 0xffffff)
		id := b.do("screenshot", `{"display": "primary", "max_width": 10}`)["frame_id"].(string)
		if i == 0 {
			second = id
		}
	}
	b.refused(capabilities.CodeStaleFrame, "mouse", fmt.Sprintf(`{"action": "click", "x": 1, "y": 1, "frame_id": %q}`, first))
	b.do("mouse", fmt.Sprintf(`{"action": "click", "x": 1, "y": 1, "frame_id": %q}`, second))
	if n := len(b.h.frames.byID); n != maxFrames {
		t.Errorf("%d frames are kept", n)
	}
}

func TestUnchangedScreenIsNotSentAgain(t *testing.T) {
	b := newTable(t, Options{})
	one, out := b.full("screenshot", `{"display": "primary"}`)
	id := one["frame_id"].(string)
	again, same := b.full("screenshot", fmt.Sprintf(`{"display": "primary", "if_changed_since": %q}`, id))
	if again["unchanged"] != true || again["frame_id"] != id || len(same.Blobs) != 0 {
		t.Errorf("%v, %d images", again, len(same.Blobs))
	}
	third, cached := b.full("screenshot", `{"display": "primary"}`)
	if third["frame_id"] != id || &cached.Blobs[0].Bytes[0] != &out.Blobs[0].Bytes[0] {
		t.Error("the same pixels were encoded again")
	}
	// Another part or size of it is another image.
	if m := b.do("screenshot", fmt.Sprintf(`{"display": "primary", "max_width": 100, "if_changed_since": %q}`, id)); m["unchanged"] != nil {
		t.Errorf("%v", m)
	}
	b.d.Paint(platform.Rect{X: 5, Y: 5, Width: 1, Height: 1}, 0xff0000)
	if m := b.do("screenshot", fmt.Sprintf(`{"display": "primary", "if_changed_since": %q}`, id)); m["unchanged"] != nil || m["frame_id"] == id {
		t.Errorf("%v", m)
	}
	b.do("screenshot", `{"display": "primary", "if_changed_since": "f1-gone"}`)
}

func TestScreenshotParts(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(twoDisplays...)
	b.d.AddWindow(platform.Window{Title: "Notes - Editor", Bounds: platform.Rect{X: 1500, Y: 1100, Width: 400, Height: 300}})
	for args, want := range map[string][4]float64{
		`{"display": "all"}`:                        {-800, 0, 2400, 1200},
		`{"display": "primary"}`:                    {0, 0, 1600, 1200},
		`{"display": "primary", "window": "notes"}`: {1500, 1100, 100, 100}, // what of it is on the desktop
		`{"display": "all", "region": {"x": -10.5, "y": 200, "width": 20, "height": 10.2}}`: {-11, 200, 21, 11},
	} {
		f := b.do("screenshot", args)["frame"].(map[string]any)
		if got := [4]float64{f["x"].(float64), f["y"].(float64), f["width"].(float64), f["height"].(float64)}; got != want {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
	id := b.do("screenshot", `{"display": "primary", "max_width": 400}`)["frame_id"].(string)
	part := b.do("screenshot", fmt.Sprintf(`{"display": "primary", "format": "jpeg", "region": {"x": 10, "y": 20, "width": 30, "height": 40, "frame_id": %q}}`, id))
	if f := part["frame"].(map[string]any); f["x"] != 40.0 || f["y"] != 80.0 || f["width"] != 120.0 || f["height"] != 160.0 || part["mime"] != "image/jpeg" {
		t.Errorf("%v", part)
	}
	e := b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": {"id": "X"}}`)
	if text := fmt.Sprint(e.Details); !strings.Contains(text, "L R") {
		t.Errorf("the displays are not named: %s", text)
	}
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "all", "region": {"x": -900, "y": 0, "width": 5, "height": 5}}`)
	b.refused(capabilities.CodeWindowNotFound, "screenshot", `{"display": "all", "window": "Paint"}`)
}

// However large a desktop says it is, nothing is read that could not be given.
func TestHostileSizes(t *testing.T) {
	b := newTable(t, Options{})
	b.d.SetLayout(platform.Display{ID: "big", Primary: true, Bounds: platform.Rect{Width: 1 << 20, Height: 1 << 20}})
	b.refused(capabilities.CodeResultTooLarge, "screenshot", `{"display": "all"}`)
	b.do("screenshot", `{"display": "all", "max_width": 1, "region": {"x": 0, "y": 0, "width": 100, "height": 3}}`)
	b.do("screenshot", `{"display": "all", "max_width": 1000000000, "region": {"x": 1e6, "y": 1e6, "width": 9e15, "height": 1}}`)
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "all", "region": {"x": 9e15, "y": -9e15, "width": 9e15, "height": 9e15}}`)
	b.d.SetLayout()
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "all"}`)
	b.refused(capabilities.CodeOutsideDesktop, "screenshot", `{"display": "primary"}`)
	b.refused(capabilities.CodeOutsideDesktop, "mouse", `{"action": "click", "x": 0, "y": 0}`)
}

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

// What an action did is told as far as it was seen.
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := b.call(ctx, "other", "mouse", `{"action": "click", "x": 1, "y": 1}`); capabilities.CodeOf(err) != capabilities.CodeOverloaded {
		t.Errorf("%v", err)
	}
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
	b.do("mouse", `{"action": "click", "x": 90, "y": 120}`)
	if m := b.do("snapshot", `{"outline": true}`); len(m["windows"].([]any)) != 0 || strings.Contains(m["outline"].(string), "Allow") || strings.Contains(m["outline"].(string), own) {
		t.Errorf("%v", m)
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
	b.d.Fail("clipboard.write", errors.New("can not write p4ss"))
	if e := b.refused(capabilities.CodeExecutionFailed, "clipboard-write", `{"text": "p4ss"}`); strings.Contains(e.Error(), "p4ss") {
		t.Error(e)
	}
}

// Missing parts, no desktop, a locked session, a lost server: each has its code
// and what to do, in calls and in readiness.
func TestReadinessAndRefusals(t *testing.T) {
	b := newTable(t, Options{})
	reasons := func() map[capabilities.CapabilityID]capabilities.Readiness {
		b.h.mu.Lock()
		b.h.ready = cachedReadiness{}
		b.h.mu.Unlock()
		all := map[capabilities.CapabilityID]capabilities.Readiness{}
		for _, r := range b.h.Readiness(t.Context()) {
			all[r.Capability] = r
		}
		if len(all) != len(b.h.Capabilities()) {
			t.Errorf("%d answers", len(all))
		}
		return all
	}
	for id, r := range reasons() {
		if !r.Ready() || r.Isolation != capabilities.ClassSession || r.Backend != "fake" || r.Degraded != "" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	b.d.SetLocked("The session is locked.")
	for id, r := range reasons() {
		if r.Ready() || !strings.Contains(r.Fix, "locked") {
			t.Errorf("%s: %+v", id, r)
		}
	}
	b.refused(capabilities.CodeSessionLocked, "screenshot", `{"display": "all"}`)
	b.refused(capabilities.CodeSessionLocked, "keyboard", `{"action": "type", "text": "x"}`)
	b.d.SetLocked("")

	b.d.SetMissing(platform.PartScreen, &platform.MissingError{What: "The screen may not be recorded.", Fix: "Allow it in the settings.", Permission: true})
	b.d.SetMissing(platform.PartPerson, &platform.MissingError{What: "XInput2 is missing.", Fix: "Update the server."})
	all := reasons()
	if r := all["tyrum.desktop.screenshot"]; r.Reason != capabilities.ReasonPermission || !strings.Contains(r.Fix, "settings") {
		t.Errorf("%+v", r)
	}
	if r := all["tyrum.desktop.keyboard"]; !r.Ready() || r.Degraded != DegradedPerson {
		t.Errorf("%+v", r)
	}
	if r := all["tyrum.desktop.query"]; !r.Ready() || r.Degraded != "" {
		t.Errorf("%+v", r)
	}
	if e := b.refused(capabilities.CodeDesktopUnavailable, "screenshot", `{"display": "all"}`); e.Hint != "Allow it in the settings." {
		t.Errorf("%+v", e)
	}
	b.d.Fail("open", &platform.MissingError{What: "There is no display.", Fix: "Log in."})
	if r := reasons()["tyrum.desktop.mouse"]; r.Reason != capabilities.ReasonBackendMissing || r.Fix != "There is no display. Log in." {
		t.Errorf("%+v", r)
	}
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "move", "x": 1, "y": 1}`)
}

// A display server that goes away under a call: the next one has a new one, and
// what only looks does not even fail.
func TestLostDesktop(t *testing.T) {
	b := newTable(t, Options{})
	b.do("screenshot", `{"display": "all"}`)
	lost := 0
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && lost == 0 {
			lost++
			d.Lose()
			d.Fail("input.button", platform.ErrLost)
		}
	}
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "click", "x": 5, "y": 5}`)
	b.d.Fail("input.button", nil)
	b.do("mouse", `{"action": "click", "x": 5, "y": 5}`)
	if b.d.Opens() < 2 || !b.d.Watched() {
		t.Error("the new desktop's person is not watched")
	}
}

func hammer(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// 64 lanes at once: no press and release of one is parted by another's.
func TestManyLanes(t *testing.T) {
	b := newTable(t, Options{})
	before := len(b.d.Events())
	hammer(64, func(i int) {
		lane := fmt.Sprintf("l%d", i)
		for _, c := range [][2]string{
			{"mouse", fmt.Sprintf(`{"action": "click", "x": %d, "y": 1, "duration_ms": 1}`, i)},
			{"screenshot", `{"display": "primary", "max_width": 64}`}, {"snapshot", `{"outline": true}`},
			{"keyboard", fmt.Sprintf(`{"action": "type", "text": "%d"}`, i)},
		} {
			if _, err := b.call(t.Context(), lane, c[0], c[1]); err != nil {
				t.Errorf("%s: %v", c[0], err)
			}
		}
	})
	ops := b.ops(before)
	clicks := 0
	for i, op := range ops {
		if at, ok := strings.CutPrefix(op, "left true at "); ok {
			clicks++
			if i+1 == len(ops) || ops[i+1] != "left false at "+at {
				t.Fatalf("%q was parted from its release: %q", op, ops[i:min(i+3, len(ops))])
			}
		}
	}
	if clicks != 64 {
		t.Errorf("%d clicks", clicks)
	}
	b.nothingHeld()
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
	for _, bad := range []string{"", "++", "+a", "a+", "Control+", "Control++a", "x+y", "Hyper+a", "Alt+Alt+a", "\x00", "ab", "\xff", "Alt+AltGr+Control+Meta+Shift+a+b"} {
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

// The person takes over: the running call ends within 100 ms with how far it
// came, nothing stays down, and calls are refused until they have rested.
func TestThePersonWins(t *testing.T) {
	const quiet = 300 * time.Millisecond
	b := newTable(t, Options{QuietTime: quiet})
	b.do("screenshot", `{"display": "all"}`) // the desktop is open, so watched
	began := make(chan struct{}, 1)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && e.Down {
			began <- struct{}{}
		}
	}
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "a", "mouse", `{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 700, "duration_ms": 60000}`)
		done <- err
	}()
	<-began
	b.d.OnEvent = nil
	touched := time.Now()
	b.d.Touch()
	err := <-done
	if took := time.Since(touched); took > 5*time.Second {
		t.Errorf("let go after %s", took)
	} else {
		t.Logf("let go after %s", took)
	}
	if capabilities.CodeOf(err) != capabilities.CodeInterruptedByPerson {
		t.Errorf("%v", err)
	}
	b.nothingHeld()
	e := b.refused(capabilities.CodeInterruptedByPerson, "keyboard", `{"action": "type", "text": "x"}`)
	if ms := e.Details.(map[string]any)["retry_after_ms"]; ms == nil {
		t.Errorf("%v", e.Details)
	}
	b.do("screenshot", `{"display": "all"}`) // looking goes on
	for time.Since(touched) < quiet {
		time.Sleep(time.Until(touched.Add(quiet)))
	}
	b.do("keyboard", `{"action": "type", "text": "x"}`)
}

// A call that merely comes while the person is at it waits for them, once.
func TestCallsWaitForThePersonToRest(t *testing.T) {
	b := newTable(t, Options{QuietTime: 50 * time.Millisecond})
	b.do("screenshot", `{"display": "all"}`)
	b.d.Touch()
	touched := time.Now()
	b.do("mouse", `{"action": "move", "x": 1, "y": 1}`)
	if time.Since(touched) < 40*time.Millisecond {
		t.Error("it did not wait")
	}
	long := newTable(t, Options{QuietTime: time.Hour})
	long.do("screenshot", `{"display": "all"}`)
	long.d.Touch()
	long.refused(capabilities.CodeInterruptedByPerson, "mouse", `{"action": "move", "x": 1, "y": 1}`)
}

// What a lane keeps down between its calls comes up when the person comes.
func TestThePersonTakesHeldButtons(t *testing.T) {
	b := newTable(t, Options{})
	b.do("mouse", `{"action": "down", "x": 10, "y": 10}`)
	b.d.Touch()
	b.eventually(func() bool { _, buttons := b.d.Held(); return len(buttons) == 0 })
}

func (b *table) eventually(ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(end) {
			b.t.Fatal("not within 30 s")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestStopKeys(t *testing.T) {
	stopped := make(chan string, 1)
	b := newTable(t, Options{Stop: func(reason string) { stopped <- reason }})
	b.do("screenshot", `{"display": "all"}`)
	began := make(chan struct{}, 1)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && e.Down {
			began <- struct{}{}
		}
	}
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "a", "mouse", `{"action": "click", "x": 1, "y": 1, "duration_ms": 60000}`)
		done <- err
	}()
	<-began
	if !b.d.PressHotKey() {
		t.Fatal("nobody watches for it")
	}
	// Pressing them is using the keyboard, too.
	if code := capabilities.CodeOf(<-done); code != capabilities.CodeStopped && code != capabilities.CodeInterruptedByPerson {
		t.Error(code)
	}
	if reason := <-stopped; !strings.Contains(reason, DefaultHotKey) {
		t.Error(reason)
	}
	b.nothingHeld()
}

// Cancelled, or out of time: whatever was down comes up.
func TestCancelMidDrag(t *testing.T) {
	b := newTable(t, Options{})
	for _, args := range []string{
		`{"action": "drag", "path": [{"x": 1, "y": 1}], "x": 900, "y": 700, "duration_ms": 60000, "modifiers": ["Shift"]}`,
		`{"action": "click", "x": 1, "y": 1, "duration_ms": 60000, "modifiers": ["Control"]}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
			if e.Op == "input.button" && e.Down {
				cancel()
			}
		}
		if _, err := b.call(ctx, "a", "mouse", args); capabilities.CodeOf(err) != capabilities.CodeCancelled {
			t.Errorf("%v", err)
		}
		b.nothingHeld()
	}
	b.d.OnEvent = nil
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.call(ctx, "a", "keyboard", `{"action": "press", "key": "Control+a", "hold_ms": 10000}`); capabilities.CodeOf(err) != capabilities.CodeDeadlineExceeded {
		t.Errorf("%v", err)
	}
	b.nothingHeld()
}

func TestCloseEndsCalls(t *testing.T) {
	b := newTable(t, Options{})
	began := make(chan struct{}, 1)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && e.Down {
			began <- struct{}{}
		}
	}
	done := make(chan error)
	go func() {
		_, err := b.call(t.Context(), "a", "mouse", `{"action": "click", "x": 1, "y": 1, "duration_ms": 60000}`)
		done <- err
	}()
	<-began
	_ = b.h.Close()
	_ = b.h.Close()
	if err := <-done; capabilities.CodeOf(err) != capabilities.CodeDesktopUnavailable {
		t.Errorf("%v", err)
	}
	b.nothingHeld()
	b.refused(capabilities.CodeDesktopUnavailable, "mouse", `{"action": "move", "x": 1, "y": 1}`)
}
