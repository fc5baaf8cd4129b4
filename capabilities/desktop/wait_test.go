package desktop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

// meanwhile changes the desktop again and again until the test ends: before and
// after the call that waits has looked.
func (b *bench) meanwhile(change func(i int)) {
	b.t.Helper()
	ended, all := make(chan struct{}), make(chan struct{})
	b.t.Cleanup(func() { close(ended); <-all })
	go func() {
		defer close(all)
		for i := 1; ; i++ {
			select {
			case <-ended:
				return
			case <-time.After(20 * time.Millisecond):
				change(i)
			}
		}
	}()
}

func (b *bench) edit(ref string, states ...string) {
	b.d.EditElement(ref, func(e *platform.Element) { e.States = states })
}

func TestWaitingForElements(t *testing.T) {
	for _, c := range []struct {
		args   map[string]any
		change func(b *bench, i int)
	}{
		{map[string]any{"selector": "name:Saved"}, func(b *bench, _ int) {
			b.d.EditElement(b.label, func(e *platform.Element) { e.Name = "Saved" })
		}},
		{map[string]any{"selector": "name:Save", "state": "gone"}, func(b *bench, _ int) { b.d.RemoveElement(b.button) }},
		{map[string]any{"selector": "name:Save", "state": "hidden"}, func(b *bench, _ int) { b.edit(b.button, "enabled", "offscreen") }},
		{map[string]any{"selector": "name:Save", "state": "disabled"}, func(b *bench, _ int) { b.edit(b.button, "visible") }},
		{map[string]any{"selector": `name:"Wrap lines"`, "state": "checked"}, func(b *bench, _ int) { b.edit(b.check, "checked", "enabled", "visible") }},
		{map[string]any{"selector": "name:Name", "state": "focused"}, func(b *bench, _ int) { b.edit(b.field, "editable", "focused", "visible") }},
		{map[string]any{"selector": "name:Name", "state": "value", "value": "done 漢"}, func(b *bench, _ int) {
			b.d.EditElement(b.field, func(e *platform.Element) { e.Value = "done 漢" })
		}},
		{map[string]any{"selector": "role:label", "value": "42"}, func(b *bench, _ int) {
			b.d.EditElement(b.label, func(e *platform.Element) { e.Name = "42" })
		}},
		{map[string]any{"window": "Save As"}, func(b *bench, _ int) { b.d.AddWindow(platform.Window{Title: "Save As…", PID: 100}) }},
		{map[string]any{"window": "Text Editor", "state": "gone"}, func(b *bench, _ int) { b.d.RemoveWindow(b.window) }},
		{map[string]any{"window": "Text Editor", "state": "hidden"}, func(b *bench, _ int) {
			b.d.EditWindow(b.window, func(w *platform.Window) { w.Minimized = true })
		}},
		{map[string]any{"state": "changed", "region": map[string]any{"x": 0, "y": 0, "width": 50, "height": 50}}, func(b *bench, i int) {
			b.d.Paint(platform.Rect{X: 10, Y: 10, Width: 5, Height: 5}, uint32(i))
		}},
		{map[string]any{"state": "changed", "selector": "name:Ready"}, func(b *bench, i int) {
			b.d.Paint(platform.Rect{X: 120, Y: 385, Width: 5, Height: 5}, uint32(i))
		}},
	} {
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			b := newBench(t)
			c.args["timeout_ms"], c.args["poll_ms"] = 20_000, 10_000
			b.meanwhile(func(i int) { c.change(b, i) })
			m, _, err := b.call("wait-for", c.args)
			if err != nil || m["status"] != "satisfied" || m["elapsed_ms"].(float64) > 9000 {
				t.Errorf("%v, %v", m, err)
			}
		})
	}
}

func TestWaitingInVain(t *testing.T) {
	b := newBench(t)
	for _, args := range []map[string]any{
		{"selector": "name:Nothing"}, {"selector": "name:Save", "state": "gone"}, {"selector": "e99"}, {"window": "None"},
		{"selector": "name:Save", "state": "checked"}, {"state": "changed"},
	} {
		args["timeout_ms"] = 60
		if m, _, err := b.call("wait-for", args); err != nil || m["status"] != "timeout" {
			t.Errorf("%v: %v, %v", args, m, err)
		}
	}
	for _, args := range []map[string]any{
		{}, {"selector": "e1", "window": "x"}, {"state": "exists"}, {"selector": "e1", "state": "value"}, {"selector": "e1", "state": "nothing"},
		{"window": "x", "state": "checked"}, {"selector": "e1", "stable_ms": 5}, {"region": map[string]any{"x": 0, "y": 0, "width": 1, "height": 1}, "state": "visible"},
		{"selector": "role:"},
	} {
		b.refused(capabilities.CodeInvalidArguments, "wait-for", args)
	}
}

// A condition that was not met in time is told as it is, or by what comes closest.
func TestWaitingInVainTellsWhatIsThere(t *testing.T) {
	b := newBench(t)
	vain := func(args map[string]any) map[string]any {
		t.Helper()
		args["timeout_ms"] = 60
		m, _, err := b.call("wait-for", args)
		if err != nil || m["status"] != "timeout" {
			t.Fatalf("%v: %v, %v", args, m, err)
		}
		return m
	}
	for _, state := range []string{"disabled", "gone", "hidden"} {
		m := vain(map[string]any{"selector": "name:Save", "state": state})
		found, _ := m["match"].(map[string]any)
		node, _ := found["node"].(map[string]any)
		if node["name"] != "Save" || !strings.Contains(fmt.Sprint(node["states"]), "enabled") || m["nearest"] != nil {
			t.Errorf("%s: %v", state, m)
		}
	}
	m := vain(map[string]any{"selector": "name:Saves"})
	if near := fmt.Sprint(m["nearest"]); !strings.Contains(near, `button "Save"`) || m["match"] != nil {
		t.Errorf("%v", m)
	}
	if m := vain(map[string]any{"selector": "e99"}); m["nearest"] != nil || m["match"] != nil {
		t.Errorf("%v", m)
	}
}

// An application that does not answer is neither gone nor there.
func TestWaitingForTheHung(t *testing.T) {
	b := newBench(t)
	b.d.SetHung(editorPID, true)
	m, _, err := b.call("wait-for", map[string]any{"selector": "name:Save", "state": "gone", "timeout_ms": 60})
	if err != nil || m["status"] != "timeout" || fmt.Sprint(m["hung"]) != "[Mousepad]" {
		t.Errorf("%v, %v", m, err)
	}
	b.meanwhile(func(int) { b.d.SetHung(editorPID, false) })
	m, _, err = b.call("wait-for", map[string]any{"selector": "name:Save", "timeout_ms": 20_000, "poll_ms": 50})
	if err != nil || m["status"] != "satisfied" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestWaitingForRest(t *testing.T) {
	b := newBench(t)
	m, _, err := b.call("wait-for", map[string]any{"state": "stable", "stable_ms": 120, "timeout_ms": 20_000})
	if err != nil || m["status"] != "satisfied" || m["elapsed_ms"].(float64) < 100 {
		t.Fatalf("%v, %v", m, err)
	}
	// A change begins the rest anew; being painted with the same does not.
	d, err := b.h.desktop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := caller(b.h).waiter(t.Context(), d, &waitArgs{State: "stable", StableMS: 60_000}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for i, colour := range []uint32{1, 1, 2} {
		before := w.calm
		b.d.Paint(platform.Rect{X: 10, Y: 10, Width: 5, Height: 5}, colour)
		if ok, wake, err := w.holds(t.Context()); ok || err != nil || !wake.Equal(w.calm.Add(time.Minute)) {
			t.Errorf("%v, %v, %v", ok, wake, err)
		}
		if w.calm.After(before) != (i != 1) {
			t.Errorf("step %d: the rest began at %v, before at %v", i, w.calm, before)
		}
	}
}

func TestThenWait(t *testing.T) {
	b := newBench(t)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "accessibility.do" {
			go func() {
				time.Sleep(400 * time.Millisecond) // later than anything an act itself waits for
				d.EditElement(b.label, func(e *platform.Element) { e.Name = "Saved" })
			}()
		}
	}
	m, out, err := b.call("act", map[string]any{"target": "name:Save", "action": kind("click"), "then_wait": map[string]any{"selector": "name:Saved", "timeout_ms": 20_000}})
	if err != nil || m["wait"].(map[string]any)["status"] != "satisfied" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v, %v", m, out, err)
	}
	m, out, err = b.call("act", map[string]any{"target": "name:Save", "action": kind("hover"), "then_wait": map[string]any{"window": "Nothing", "timeout_ms": 20}})
	if err != nil || m["wait"].(map[string]any)["status"] != "timeout" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v, %v", m, out, err)
	}
}

// reader sees words where they are painted, in tests.
type reader struct{ words []platform.SeenText }

func (r reader) Read(_ context.Context, f *platform.Frame) ([]platform.SeenText, error) {
	var in []platform.SeenText
	for _, w := range r.words {
		if !f.Area.Intersect(w.Bounds).Empty() {
			in = append(in, w)
		}
	}
	return in, nil
}

func TestSeenText(t *testing.T) {
	b := newBench(t)
	b.refused(capabilities.CodeNotSupported, "query", map[string]any{"selector": `ocr:"Total"`})
	b.h.o.Reader = reader{[]platform.SeenText{
		{Text: "Total", Bounds: platform.Rect{X: 300, Y: 300, Width: 40, Height: 10}, Line: 1, Confidence: 0.9},
		{Text: "sum:", Bounds: platform.Rect{X: 345, Y: 300, Width: 40, Height: 10}, Line: 1, Confidence: 0.8},
		{Text: "Total", Bounds: platform.Rect{X: 300, Y: 400, Width: 40, Height: 10}, Line: 2, Confidence: 0.9},
		{Text: "Secret", Bounds: platform.Rect{X: 10, Y: 10, Width: 40, Height: 10}, Line: 3, Confidence: 0.9},
	}}
	m, _, err := b.call("query", map[string]any{"selector": `ocr:"total SUM"`, "limit": 5})
	if err != nil || m["total"] != 1.0 || !strings.Contains(fmt.Sprint(m["matches"]), "map[height:10 width:85 x:300 y:300]") {
		t.Errorf("%v, %v", m, err)
	}
	b.refused(capabilities.CodeElementNotUnique, "act", map[string]any{"target": `ocr:"Total"`, "action": kind("click")})
	m, _ = b.act(map[string]any{"kind": "ocr", "text": "total", "bounds": map[string]any{"x": 0, "y": 390, "width": 800, "height": 100}}, kind("click"))
	if m["x"] != 320.0 || m["y"] != 405.0 || m["mode"] != "pixel" || m["route"] != "synthetic_input" {
		t.Errorf("%v", m)
	}
	b.d.AddWindow(platform.Window{Title: "Approve?", PID: 300, Own: true, Bounds: platform.Rect{X: 0, Y: 0, Width: 100, Height: 100}})
	if m, _, err = b.call("query", map[string]any{"selector": `ocr:"secret"`}); err != nil || m["total"] != 0.0 {
		t.Errorf("what an own window shows was read: %v, %v", m, err)
	}
}
