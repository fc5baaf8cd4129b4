package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

// bench is a fake desktop with an application on it, and a handler.
type bench struct {
	t testing.TB
	d *fake.Desktop
	h *Handler

	window, button, check, radio, field, secret, slider, row, label string
	clicked                                                         atomic.Int32
}

const editorPID = 100

func newBench(t testing.TB) *bench {
	t.Helper()
	d := fake.New()
	h, err := New(Options{Opener: d, QuietTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	b := &bench{t: t, d: d, h: h}
	b.window = d.AddWindow(platform.Window{Title: "notes.txt - Text Editor", App: "Mousepad", PID: editorPID, Bounds: platform.Rect{X: 100, Y: 100, Width: 600, Height: 400}})
	app := d.AddElement(platform.Element{Role: "application", Name: "Mousepad", App: "Mousepad", PID: editorPID, States: []string{"enabled", "visible"}})
	win := b.add(app, "window", "notes.txt - Text Editor", platform.Rect{X: 100, Y: 100, Width: 600, Height: 400})
	b.button = b.add(win, "button", "Save", platform.Rect{X: 110, Y: 110, Width: 40, Height: 20}, fake.OnPress(func(d *fake.Desktop) { b.clicked.Add(1) }))
	b.check = b.add(win, "checkbox", "Wrap lines", platform.Rect{X: 110, Y: 140, Width: 40, Height: 20}, fake.OnPress(func(*fake.Desktop) {}))
	b.radio = b.add(win, "option", "Large", platform.Rect{X: 110, Y: 170, Width: 40, Height: 20})
	d.EditElement(b.radio, func(e *platform.Element) { e.States = append(e.States, "selectable") })
	b.field = b.add(win, "textbox", "Name", platform.Rect{X: 110, Y: 200, Width: 200, Height: 20})
	d.EditElement(b.field, func(e *platform.Element) { e.States = append(e.States, "editable", "focusable") })
	b.secret = b.add(win, "textbox", "Password", platform.Rect{X: 110, Y: 230, Width: 200, Height: 20})
	d.EditElement(b.secret, func(e *platform.Element) { e.States = append(e.States, "editable", "focusable", "protected") })
	b.slider = b.add(win, "slider", "Size", platform.Rect{X: 110, Y: 260, Width: 200, Height: 20}, fake.Numeric(10, 0, 100, 5))
	b.row = b.add(win, "canvas", "Drawing", platform.Rect{X: 110, Y: 300, Width: 200, Height: 50})
	b.label = b.add(win, "label", "Ready", platform.Rect{X: 110, Y: 380, Width: 200, Height: 20})
	return b
}

func (b *bench) add(parent, role, name string, at platform.Rect, options ...fake.Option) string {
	return b.d.AddElement(platform.Element{
		Role: role, Name: name, App: "Mousepad", PID: editorPID, Window: b.window, Bounds: at, States: []string{"enabled", "visible"},
	}, append(options, fake.Under(parent))...)
}

// call makes a call and returns its output with the result as JSON reads it.
func (b *bench) call(tool string, args any) (map[string]any, capabilities.Output, error) {
	b.t.Helper()
	return b.callWithin(30*time.Second, tool, args)
}

func (b *bench) callWithin(most time.Duration, tool string, args any) (map[string]any, capabilities.Output, error) {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), most)
	defer cancel()
	out, err := b.h.Handle(ctx, capabilities.Invocation{Capability: capabilities.CapabilityID("tyrum.desktop." + tool), Lane: "l1", Args: raw})
	if err != nil {
		return nil, out, err
	}
	text, err := json.Marshal(out.Result)
	if err != nil {
		b.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		b.t.Fatal(err)
	}
	return m, out, nil
}

// act acts and fails the test if that is refused.
func (b *bench) act(target any, action map[string]any) (map[string]any, capabilities.Output) {
	b.t.Helper()
	m, out, err := b.call("act", map[string]any{"target": target, "action": action})
	if err != nil {
		b.t.Fatalf("%v %v: %v (%+v, %v)", target, action, err, capabilities.AsError(err).Details, errors.Unwrap(err))
	}
	return m, out
}

func (b *bench) refused(code capabilities.Code, tool string, args any) *capabilities.Error {
	b.t.Helper()
	m, _, err := b.call(tool, args)
	if capabilities.CodeOf(err) != code {
		b.t.Fatalf("%s %v gives %v, %v; want %s", tool, args, m, err, code)
	}
	return capabilities.AsError(err)
}

// soon waits for what the application does after the call saw its first effect.
func (b *bench) soon(what string, so func() bool) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s did not come", what)
		}
	}
}

func kind(k string, more ...any) map[string]any {
	m := map[string]any{"kind": k}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

func TestClickByElement(t *testing.T) {
	b := newBench(t)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "accessibility.do" && e.Ref == b.button {
			d.EditElement(b.label, func(e *platform.Element) { e.Name = "Saved" })
		}
	}
	m, out := b.act(`window:"Text Editor" >> role:button && name:"Save"`, kind("click"))
	b.soon("the click", func() bool { return b.clicked.Load() == 1 })
	if m["route"] != "accessibility" || out.Effect != capabilities.EffectConfirmed || m["moved_pointer"] != nil {
		t.Errorf("%v, %+v", m, out)
	}
	// A short ref goes on meaning the button when it is made anew.
	ref := m["resolved_element_ref"].(string)
	if !selector.ShortRef(ref) {
		t.Fatalf("%q is no short ref", ref)
	}
	b.d.RemoveElement(b.button)
	win := ""
	tree, err := caller(b.h).tree(t.Context(), platform.TreeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tree.Elements {
		if e.Role == "window" {
			win = e.Ref
		}
	}
	b.refused(capabilities.CodeStaleRef, "act", map[string]any{"target": ref, "action": kind("click")})
	b.button = b.add(win, "button", "Save", platform.Rect{X: 110, Y: 110, Width: 40, Height: 20}, fake.OnPress(func(d *fake.Desktop) { b.clicked.Add(1) }))
	if m, _ = b.act(map[string]any{"kind": "ref", "ref": ref}, kind("click")); m["resolved_element_ref"] != ref {
		t.Errorf("after the button was made anew: %v", m)
	}
	b.soon("the second click", func() bool { return b.clicked.Load() == 2 })
}

func TestClickThatDoesNothingSaysSo(t *testing.T) {
	b := newBench(t)
	_, out := b.act(`name:Save`, kind("click"))
	if out.Effect != capabilities.EffectSuspectNoop {
		t.Errorf("%+v", out)
	}
}

// The button of a dialog that closes answers for a moment longer, as nothing in particular.
func TestClickThatTakesItsButtonDown(t *testing.T) {
	b := newBench(t)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "accessibility.do" && e.Ref == b.button {
			d.EditElement(b.button, func(e *platform.Element) { e.Role, e.Name = "unknown", "" })
		}
	}
	m, out := b.act(`name:Save`, kind("click"))
	if node := m["node"].(map[string]any); node["role"] != "button" || node["name"] != "Save" {
		t.Errorf("clicked %v", node)
	}
	if out.Effect != capabilities.EffectConfirmed || !strings.Contains(fmt.Sprint(out.Evidence), "went away") {
		t.Errorf("%+v", out)
	}
}

func TestClickByPointer(t *testing.T) {
	b := newBench(t)
	other := b.d.AddWindow(platform.Window{Title: "Over it", PID: 200, Bounds: platform.Rect{X: 0, Y: 0, Width: 800, Height: 800}})
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "input.button" && !e.Down {
			d.EditElement(b.row, func(e *platform.Element) { e.Name = "Drawn" })
		}
	}
	m, out := b.act(`role:canvas`, kind("click"))
	if m["route"] != "synthetic_input" || m["moved_pointer"] != true || m["took_focus"] != true || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	d, _ := b.d.Open(t.Context())
	if at, _ := d.Input.Pointer(t.Context()); at != (platform.Point{X: 640, Y: 400}) {
		t.Errorf("the pointer stays at %v", at)
	}
	windows, _ := d.Windows.List(t.Context())
	if !focusedIn(windows, other) {
		t.Errorf("the focus was not put back: %+v", windows)
	}
	for _, e := range b.d.Events() {
		if e.Op == "input.button" && (e.At != platform.Point{X: 210, Y: 325}) {
			t.Errorf("a button at %v", e.At)
		}
	}
}

func TestOwnWindowsAreNotMatched(t *testing.T) {
	b := newBench(t)
	own := b.d.AddWindow(platform.Window{Title: "Approve?", App: "Handrail", PID: 300, Own: true, Bounds: platform.Rect{X: 105, Y: 105, Width: 300, Height: 300}})
	app := b.d.AddElement(platform.Element{Role: "application", Name: "Handrail", App: "Handrail", PID: 300})
	allow := b.d.AddElement(platform.Element{Role: "button", Name: "Allow", App: "Handrail", PID: 300, Window: own, States: []string{"enabled", "visible"},
		Bounds: platform.Rect{X: 110, Y: 110, Width: 40, Height: 20}}, fake.Under(app), fake.OnPress(func(*fake.Desktop) { t.Error("pressed") }))
	if m, _, err := b.call("query", map[string]any{"selector": `role:button`, "limit": 10}); err != nil || m["total"] != 1.0 {
		t.Errorf("%v, %v", m, err)
	}
	b.refused(capabilities.CodeElementNotFound, "act", map[string]any{"target": `name:Allow`, "action": kind("click")})
	b.refused(capabilities.CodeOwnWindow, "act", map[string]any{"target": map[string]any{"kind": "ref", "ref": allow}, "action": kind("click")})
	b.refused(capabilities.CodeOwnWindow, "query", map[string]any{"selector": map[string]any{"kind": "ref", "ref": allow}})
	b.refused(capabilities.CodeOwnWindow, "act", map[string]any{"target": map[string]any{"kind": "ref", "ref": own}, "action": kind("close")})
	b.refused(capabilities.CodeWindowNotFound, "act", map[string]any{"target": `window:"Approve?"`, "action": kind("close")})
	// An element that lies below one is not clicked through it.
	b.refused(capabilities.CodeOwnWindow, "act", map[string]any{"target": `name:Save`, "action": kind("middle_click")})
}

func TestToggling(t *testing.T) {
	b := newBench(t)
	for _, step := range []struct{ kind, route string }{
		{"check", "accessibility"}, {"check", "none"}, {"toggle", "accessibility"}, {"uncheck", "none"}, {"toggle", "accessibility"}, {"uncheck", "accessibility"},
	} {
		m, out := b.act(`name:"Wrap lines"`, kind(step.kind))
		if m["route"] != step.route || out.Effect != capabilities.EffectConfirmed {
			t.Errorf("%s: %v, %+v", step.kind, m, out)
		}
	}
	b.refused(capabilities.CodeActionUnsupported, "act", map[string]any{"target": `name:Save`, "action": kind("check")})
}

func TestSelecting(t *testing.T) {
	b := newBench(t)
	for _, route := range []string{"accessibility", "none"} {
		if m, out := b.act(`name:Large`, kind("select")); m["route"] != route || out.Effect != capabilities.EffectConfirmed {
			t.Errorf("%v, %+v", m, out)
		}
	}
}

const unicodeText = "é漢😀 ñß→Ω"

func TestFields(t *testing.T) {
	b := newBench(t)
	text := func(want string) {
		t.Helper()
		if got := b.d.TextOf(b.field); got != want {
			t.Errorf("the field holds %q, want %q", got, want)
		}
	}
	m, out := b.act(`role:textbox && name:Name`, kind("type", "text", unicodeText))
	text(unicodeText)
	if m["route"] != "accessibility" || out.Effect != capabilities.EffectConfirmed || strings.Contains(fmt.Sprint(m, out.Evidence), "漢") {
		t.Errorf("%v, %+v", m, out)
	}
	m, out = b.act(`name:Name`, kind("type", "text", " and more"))
	text(unicodeText + " and more")
	if m["route"] != "synthetic_input" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	m, out = b.act(`name:Name`, kind("set_value", "value", "new"))
	text("new")
	if m["route"] != "accessibility" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	if m, _ = b.act(`name:Name`, kind("set_value", "value", "new")); m["route"] != "none" {
		t.Errorf("%v", m)
	}
	_, out = b.act(`name:Name`, kind("clear"))
	text("")
	if out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%+v", out)
	}
	// A field whose application ignores what is set is typed into.
	b.d.Fail("accessibility.settext", fmt.Errorf("ignored: %w", platform.ErrCannot))
	m, out = b.act(`name:Name`, kind("set_value", "value", unicodeText))
	text(unicodeText)
	if m["route"] != "synthetic_input" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	b.d.Fail("accessibility.settext", nil)
	// The contents of a protected field are never told or read.
	_, out = b.act(`name:Password`, kind("set_value", "value", "hunter2"))
	if b.d.TextOf(b.secret) != "hunter2" || out.Effect != capabilities.EffectUnverifiable {
		t.Errorf("%+v", out)
	}
	b.d.EditElement(b.field, func(e *platform.Element) { e.States = append(e.States, "readonly") })
	b.refused(capabilities.CodeActionUnsupported, "act", map[string]any{"target": `name:Name`, "action": kind("type", "text", "x")})
}

func TestNumbers(t *testing.T) {
	b := newBench(t)
	d, _ := b.d.Open(t.Context())
	for _, step := range []struct {
		action map[string]any
		want   float64
	}{
		{kind("set_value", "value", "42"), 42}, {kind("increment"), 47}, {kind("decrement"), 42}, {kind("set_value", "value", "100"), 100}, {kind("increment"), 100},
	} {
		_, out := b.act(`role:slider`, step.action)
		if now, _, _, _, _ := d.Accessibility.Number(t.Context(), b.slider); now != step.want || out.Effect != capabilities.EffectConfirmed {
			t.Errorf("%v: %v, %+v", step.action, now, out)
		}
	}
	b.refused(capabilities.CodeInvalidArguments, "act", map[string]any{"target": `role:slider`, "action": kind("set_value", "value", "101")})
	b.refused(capabilities.CodeInvalidArguments, "act", map[string]any{"target": `role:slider`, "action": kind("set_value", "value", "much")})
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	e := b.refused(capabilities.CodeElementNotFound, "act", map[string]any{"target": `role:button && name:Sve`, "action": kind("click")})
	if !strings.Contains(fmt.Sprint(e.Details), `"Save"`) {
		t.Errorf("%+v", e.Details)
	}
	e = b.refused(capabilities.CodeElementNotUnique, "act", map[string]any{"target": `role:textbox`, "action": kind("click")})
	if !strings.Contains(fmt.Sprint(e.Details), `"Name"`) || !strings.Contains(fmt.Sprint(e.Details), `"Password"`) {
		t.Errorf("%+v", e.Details)
	}
	b.refused(capabilities.CodeStaleRef, "act", map[string]any{"target": `e999`, "action": kind("click")})
	b.d.EditElement(b.button, func(e *platform.Element) { e.States = []string{"visible"} })
	b.refused(capabilities.CodeElementDisabled, "act", map[string]any{"target": `name:Save`, "action": kind("click")})
	for _, args := range []map[string]any{
		{"action": kind("click")},
		{"target": "e1", "action": kind("click", "text", "x")},
		{"target": "e1", "action": kind("drag")},
		{"target": "e1", "action": kind("drag", "to", "e2", "x", 1, "y", 2)},
		{"target": "e1", "action": kind("move", "x", 1)},
		{"target": "e1", "action": kind("resize", "width", 1)},
		{"target": "e1", "action": kind("set_value")},
		{"target": "e1", "action": kind("type")},
		{"target": "e1", "action": kind("menu")},
		{"target": "e1", "action": kind("scroll")},
		{"target": "e1", "action": kind("launch", "app", "x")},
		{"action": kind("launch")},
		{"target": `ocr:"x"`, "action": kind("type", "text", "x")},
		{"target": "e1", "action": kind("click"), "then_wait": map[string]any{}},
		{"target": "e1", "action": kind("click"), "then_wait": map[string]any{"window": "x", "state": "checked"}},
	} {
		b.refused(capabilities.CodeInvalidArguments, "act", args)
	}
}

func TestHungApplications(t *testing.T) {
	b := newBench(t)
	m, _ := b.act(`name:Save`, kind("hover"))
	ref := m["resolved_element_ref"].(string)
	b.d.AddWindow(platform.Window{Title: "Other", App: "Other", PID: 500, Bounds: platform.Rect{X: 0, Y: 0, Width: 10, Height: 10}})
	app := b.d.AddElement(platform.Element{Role: "application", Name: "Other", App: "Other", PID: 500, States: []string{"visible"}})
	b.d.AddElement(platform.Element{Role: "button", Name: "Go", App: "Other", PID: 500, States: []string{"enabled", "visible"}}, fake.Under(app))
	b.d.SetHung(editorPID, true)
	for _, target := range []string{`name:Save`, ref} {
		if e := b.refused(capabilities.CodeAppHung, "act", map[string]any{"target": target, "action": kind("click")}); !strings.Contains(fmt.Sprint(e.Details), "Mousepad") {
			t.Errorf("%+v", e.Details)
		}
	}
	if m, _, err := b.call("query", map[string]any{"selector": `name:Go`}); err != nil || m["total"] != 1.0 || fmt.Sprint(m["hung"]) != "[Mousepad]" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestArrangingWindows(t *testing.T) {
	b := newBench(t)
	other := b.d.AddWindow(platform.Window{Title: "Other", PID: 500, Bounds: platform.Rect{X: 0, Y: 0, Width: 50, Height: 50}})
	for _, target := range []any{`window:"Text Editor"`, `name:Save`, b.window} {
		if s, ok := target.(string); ok && s == b.window {
			target = map[string]any{"kind": "ref", "ref": s}
		}
		m, out := b.act(target, kind("activate"))
		if w := m["window"].(map[string]any); w["focused"] != true || out.Effect != capabilities.EffectConfirmed || m["route"] != "window_manager" {
			t.Errorf("%v: %v, %+v", target, m, out)
		}
		if m, _ = b.act(target, kind("activate")); m["route"] != "none" {
			t.Errorf("%v: %v", target, m)
		}
		b.act(map[string]any{"kind": "ref", "ref": other}, kind("activate"))
	}
	m, out := b.act(`window:"Text Editor"`, kind("move", "x", 5, "y", 6))
	if fmt.Sprint(m["window"].(map[string]any)["bounds"]) != "map[height:400 width:600 x:5 y:6]" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	m, out = b.act(`window:"Text Editor"`, kind("resize", "width", 300, "height", 200))
	if fmt.Sprint(m["window"].(map[string]any)["bounds"]) != "map[height:200 width:300 x:5 y:6]" || out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%v, %+v", m, out)
	}
	if _, out = b.act(`window:"Text Editor"`, kind("minimize")); out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%+v", out)
	}
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "windows.close" {
			d.RemoveWindow(e.Ref)
		}
	}
	if _, out = b.act(`window:"Text Editor"`, kind("close")); out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%+v", out)
	}
	b.refused(capabilities.CodeWindowNotFound, "act", map[string]any{"target": `window:"Text Editor"`, "action": kind("close")})
}

func TestLaunching(t *testing.T) {
	b := newBench(t)
	b.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "windows.launch" {
			d.AddWindow(platform.Window{Title: "Calculator", PID: 10_001, Bounds: platform.Rect{Width: 10, Height: 10}})
		}
	}
	m, out, err := b.call("act", map[string]any{"action": kind("launch", "app", "calc"), "then_wait": map[string]any{}})
	if err != nil || m["wait"].(map[string]any)["status"] != "satisfied" || m["pid"] != 10001.0 || out.Effect != capabilities.EffectConfirmed || m["route"] != "system_api" {
		t.Errorf("%v, %+v, %v", m, out, err)
	}
	b.h.o.LaunchAllow = []string{"other"}
	b.refused(capabilities.CodeDeniedByNode, "act", map[string]any{"action": kind("launch", "app", "calc")})
}

func TestMenus(t *testing.T) {
	b := newBench(t)
	tree, err := caller(b.h).tree(t.Context(), platform.TreeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	win := tree.Elements[1].Ref
	bar := b.add(win, "menubar", "", platform.Rect{X: 100, Y: 100, Width: 600, Height: 10})
	var mu sync.Mutex
	var chosen []string
	chose := func(i int, name string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(chosen) > i && chosen[i] == name
		}
	}
	item := func(parent, role, name string) string {
		return b.add(parent, role, name, platform.Rect{X: 100, Y: 100, Width: 30, Height: 10}, fake.OnPress(func(d *fake.Desktop) {
			mu.Lock()
			chosen = append(chosen, name)
			mu.Unlock()
			d.EditElement(b.label, func(e *platform.Element) { e.Name = "Chose " + name })
		}))
	}
	file := item(bar, "menu", "File")
	item(file, "menuitem", "Save")
	item(file, "menuitem", "Save As…")
	var view string
	view = b.add(bar, "menu", "View", platform.Rect{X: 140, Y: 100, Width: 30, Height: 10}, fake.OnPress(func(*fake.Desktop) {
		item(view, "menuitem", "Zoom In")
	}))
	_, out := b.act(`window:"Text Editor"`, kind("menu", "path", []string{"File", "Save As"}))
	b.soon("the item", chose(0, "Save As…"))
	if out.Effect != capabilities.EffectConfirmed {
		t.Errorf("%+v", out)
	}
	m, _, err := b.call("act", map[string]any{"action": kind("menu", "path", []string{"view", "zoom in"})})
	if err != nil {
		t.Errorf("%v, %v", m, err)
	}
	b.soon("the item of the opened menu", func() bool { return chose(1, "Zoom In")() || chose(2, "Zoom In")() })
	e := b.refused(capabilities.CodeElementNotFound, "act", map[string]any{"action": kind("menu", "path", []string{"File", "Print"})})
	if fmt.Sprint(e.Details) != "map[items:[Save Save As]]" {
		t.Errorf("%v", e.Details)
	}
	e = b.refused(capabilities.CodeElementNotFound, "act", map[string]any{"action": kind("menu", "path", []string{"Edit", "Print"})})
	if fmt.Sprint(e.Details) != "map[items:[File View]]" {
		t.Errorf("%v", e.Details)
	}
}

func TestDragAndScroll(t *testing.T) {
	b := newBench(t)
	b.act(`role:canvas`, kind("drag", "to", `name:Ready`))
	var ends []platform.Point
	for _, e := range b.d.Events() {
		if e.Op == "input.button" {
			ends = append(ends, e.At)
		}
	}
	if fmt.Sprint(ends) != "[{210 325} {210 390}]" {
		t.Errorf("dragged %v", ends)
	}
	m, _ := b.act(`role:canvas`, kind("scroll", "lines", 6, "direction", "up"))
	if m["route"] != "synthetic_input" || m["moved_pointer"] != true {
		t.Errorf("%v", m)
	}
	for _, e := range b.d.Events() {
		if e.Op == "input.scroll" && e.DownBy != -2 {
			t.Errorf("%+v", e)
		}
	}
	b.d.EditElement(b.label, func(e *platform.Element) { e.States = []string{"enabled", "offscreen", "visible"} })
	for _, route := range []string{"accessibility", "none"} {
		if m, out := b.act(`name:Ready`, kind("scroll", "into_view", true)); m["route"] != route || out.Effect != capabilities.EffectConfirmed {
			t.Errorf("%v, %+v", m, out)
		}
	}
}
