package win32

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// node makes an element of a control type with more properties.
func node(id int32, control int, name string, more map[uintptr]any, patterns ...uintptr) *fakeNode {
	n := &fakeNode{props: map[uintptr]any{
		30000: []int32{42, id}, 30003: control, 30005: name, 30010: true,
	}, area: rect{10 * id, 20, 10*id + 9, 40}, patterns: map[uintptr]bool{}}
	for k, v := range more {
		n.props[k] = v
	}
	for _, p := range patterns {
		n.patterns[p] = true
	}
	return n
}

// fixture is a window with one of each.
type fixture struct {
	*fakeUIA
	a                                                            *Accessibility
	w                                                            platform.Window
	button, field, secret, slider, box, combo, item, page, label *fakeNode
	old                                                          *fakeNode
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{w: notepad(t)}
	f.button = node(2, 50000, " OK ", map[uintptr]any{30009: true, 30031: true, 30013: "what it does"}, 10000)
	f.field = node(3, 50004, "Name", map[uintptr]any{30043: true, 30045: "é漢😀", 30046: false, 30009: true, 30008: true}, 10002)
	f.field.text = "é漢😀"
	f.secret = node(4, 50004, "Password", map[uintptr]any{30043: true, 30045: "hidden-value", 30019: true}, 10002, 10014)
	f.secret.text = "hidden-value"
	f.slider = node(5, 50015, "Volume", map[uintptr]any{30033: true, 30047: 2.5}, 10003)
	f.slider.number = 2.5
	f.box = node(6, 50002, "Loud", map[uintptr]any{30041: true, 30086: 1}, 10015)
	f.combo = node(7, 50003, "Voice", map[uintptr]any{30028: true, 30070: 0}, 10005)
	f.item = node(9, 50007, "Row", map[uintptr]any{30036: true, 30079: true, 30022: true}, 10010, 10017)
	f.page = node(10, 50030, "Text", map[uintptr]any{}, 10014)
	f.page.text = strings.Repeat("é漢😀", 1000)
	f.label = node(11, 50020, "A label", nil)
	f.old = node(12, 50025, "Old", nil, 10018)
	root := node(1, 50032, "Window", nil).add(f.button, f.field, f.secret, f.slider, f.box, f.combo,
		node(8, 50008, "List", map[uintptr]any{30060: true}).add(f.item), f.page, f.label, f.old)
	h, err := window(f.w.Ref)
	if err != nil {
		t.Fatal(err)
	}
	f.fakeUIA = newFakeUIA(t, h, root)
	f.a = newAccessibility(object(f.object("IUIAutomation2", nil)), make(chan struct{}))
	t.Cleanup(f.a.Close)
	if err := f.a.run(t.Context(), time.Minute, f.a.prepare); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) tree(t *testing.T, q platform.TreeQuery) platform.Tree {
	t.Helper()
	q.PID, q.Bounds = f.w.PID, true
	if q.PerApp == 0 {
		q.PerApp = time.Minute
	}
	tree, err := f.a.Tree(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// line is an element in short.
func line(e platform.Element) string {
	return strings.TrimSpace(strings.Join([]string{e.Role, e.Name, strings.Join(e.States, ","), strings.Join(e.Actions, ","), e.Value}, "|"))
}

func ref(t *testing.T, tree platform.Tree, name string) string {
	t.Helper()
	for _, e := range tree.Elements {
		if e.Name == name {
			return e.Ref
		}
	}
	t.Fatalf("no %q in %+v", name, tree.Elements)
	return ""
}

var fixtureLines = []string{
	"application|notepad|enabled,visible||",
	"window|Window|enabled,visible||",
	"button|OK|enabled,focusable,visible|press|",
	"textbox|Name|editable,enabled,focusable,focused,visible||é漢😀",
	"textbox|Password|editable,enabled,protected,visible||",
	"slider|Volume|enabled,visible||2.5",
	"checkbox|Loud|checked,enabled,visible|press,toggle|",
	"combobox|Voice|collapsed,enabled,visible|press,expand,collapse|",
	"list|List|enabled,multiselectable,visible||",
	"listitem|Row|enabled,offscreen,selectable,selected|select|",
	"document|Text|enabled,visible||",
	"label|A label|enabled,visible||",
	"generic|Old|enabled,visible||",
}

func TestElements(t *testing.T) {
	f := newFixture(t)
	if f.put["focus"] != 0 || f.put["connection"] != 2000 || f.put["transaction"] != 5000 || len(f.put) != 3 {
		t.Errorf("%v", f.put)
	}
	for _, by := range []string{"in one call", "by steps"} {
		f.a.large[f.w.PID] = by == "by steps"
		tree := f.tree(t, platform.TreeQuery{})
		var lines []string
		for i, e := range tree.Elements {
			if i > 1 { // whether notepad has the front is not this test's
				lines = append(lines, line(e))
			} else {
				lines = append(lines, strings.Replace(line(e), "active,", "", 1))
			}
			if e.Parent >= i || e.PID != f.w.PID || e.App != "notepad" || i > 0 && (e.Window != f.w.Ref || e.Parent < 0) {
				t.Errorf("%s: %d: %+v", by, i, e)
			}
		}
		if !slices.Equal(lines, fixtureLines) || tree.Truncated || len(tree.Hung) != 0 {
			t.Errorf("%s: %+v\n%s", by, tree, strings.Join(lines, "\n"))
		}
		item := tree.Elements[9]
		if tree.Elements[item.Parent].Role != "list" || !item.Bounds.Empty() || tree.Elements[2].Bounds != (platform.Rect{X: 20, Y: 20, Width: 9, Height: 20}) ||
			tree.Elements[2].Description != "what it does" {
			t.Errorf("%s: %+v", by, tree.Elements)
		}
		some := f.tree(t, platform.TreeQuery{MaxElements: 4})
		if len(some.Elements) != 4 || !some.Truncated {
			t.Errorf("%s: of 4 at most: %+v", by, some)
		}
		for i, e := range some.Elements {
			if e.Ref != tree.Elements[i].Ref {
				t.Errorf("%s: %q was %q", by, e.Ref, tree.Elements[i].Ref)
			}
		}
		below, err := f.a.Tree(t.Context(), platform.TreeQuery{Root: ref(t, tree, "List"), PerApp: time.Minute})
		if err != nil || len(below.Elements) != 2 || below.Elements[1].Name != "Row" || below.Elements[0].Parent != -1 || below.Elements[1].Parent != 0 {
			t.Errorf("%s: below the list: %+v, %v", by, below, err)
		}
		e, err := f.a.Element(t.Context(), ref(t, tree, "OK"))
		if err != nil || line(e) != fixtureLines[2] || e.Window != f.w.Ref {
			t.Errorf("%s: %+v, %v", by, e, err)
		}
		if app, err := f.a.Element(t.Context(), tree.Elements[0].Ref); err != nil || line(app) != fixtureLines[0] {
			t.Errorf("%s: %+v, %v", by, app, err)
		}
	}
	if _, err := f.a.Element(t.Context(), appRef(1<<30)); !errors.Is(err, platform.ErrGone) {
		t.Errorf("an application that is not there: %v", err)
	}
	f.a.Close()
	f.a.Close()
	if left := f.leaks(); len(left) != 0 {
		t.Errorf("not released: %v", left)
	}
	if _, err := f.a.Element(t.Context(), "uia:1:2"); !errors.Is(err, platform.ErrLost) {
		t.Errorf("after Close: %v", err)
	}
}

func TestElementActs(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	tree := f.tree(t, platform.TreeQuery{})
	of := func(name string) string { return ref(t, tree, name) }
	f.old.text = "Press"
	for _, c := range []struct {
		what string
		err  error
		n    *fakeNode
		did  string
	}{
		{"press", f.a.Do(ctx, of("OK"), platform.Press), f.button, "invoke"},
		{"press a box", f.a.Do(ctx, of("Loud"), platform.Press), f.box, "toggle"},
		{"toggle", f.a.Do(ctx, of("Loud"), "toggle"), f.box, "toggle"},
		{"press what is closed", f.a.Do(ctx, of("Voice"), platform.Press), f.combo, "expand"},
		{"collapse", f.a.Do(ctx, of("Voice"), "collapse"), f.combo, "collapse"},
		{"press a row", f.a.Do(ctx, of("Row"), platform.Press), f.item, "select"},
		{"select", f.a.Select(ctx, of("Row"), false), f.item, "select"},
		{"select beside", f.a.Select(ctx, of("Row"), true), f.item, "add"},
		{"reveal", f.a.Reveal(ctx, of("Row")), f.item, "reveal"},
		{"focus", f.a.Focus(ctx, of("Name")), f.field, "focus"},
		{"press an old one", f.a.Do(ctx, of("Old"), platform.Press), f.old, "default"},
	} {
		did := c.n.done()
		if c.err != nil || !slices.Contains(did, c.did) {
			t.Errorf("%s: %v, %v", c.what, did, c.err)
		}
	}
	f.old.text = "" // no default action
	for what, err := range map[string]error{
		"press a label": f.a.Do(ctx, of("A label"), platform.Press), "press nothing": f.a.Do(ctx, of("Old"), platform.Press), "reveal": f.a.Reveal(ctx, of("OK")),
		"nonsense": f.a.Do(ctx, of("OK"), "nonsense"), "select": f.a.Select(ctx, of("OK"), false), "set": f.a.SetText(ctx, of("OK"), "x"),
		"number": f.a.SetNumber(ctx, of("OK"), 1), "an application": f.a.Focus(ctx, tree.Elements[0].Ref),
	} {
		if !errors.Is(err, platform.ErrCannot) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const text = "Grüße, мир, 漢字 😀\n\"x\""
	if err := f.a.SetText(ctx, of("Name"), text); err != nil || f.field.text != text {
		t.Errorf("%q, %v", f.field.text, err)
	}
	if err := f.a.SetText(ctx, of("Name"), ""); err != nil || f.field.text != "" {
		t.Errorf("%q, %v", f.field.text, err)
	}
	f.field.text = text
	if got, err := f.a.Text(ctx, of("Name"), 5); err != nil || got != "Grüße" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := f.a.Text(ctx, of("Text"), 4); err != nil || got != "é漢😀é" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := f.a.Text(ctx, of("A label"), 100); err != nil || got != "A label" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := f.a.Text(ctx, of("Password"), 100); err != nil || got != "" {
		t.Errorf("a protected field told %d characters: %v", len(got), err)
	}
	if err := f.a.SetNumber(ctx, of("Volume"), 7.25); err != nil {
		t.Error(err)
	}
	value, least, most, step, err := f.a.Number(ctx, of("Volume"))
	if value != 7.25 || least != -1 || most != 10 || step != 0.25 || err != nil {
		t.Error(value, least, most, step, err)
	}
	f.button.mu.Lock()
	f.button.gone = true
	f.button.mu.Unlock()
	for range 2 {
		if _, err := f.a.Element(ctx, of("OK")); !errors.Is(err, platform.ErrGone) {
			t.Errorf("an element that is gone: %v", err)
		}
	}
	f.a.Close()
	if left := f.leaks(); len(left) != 0 {
		t.Errorf("not released: %v", left)
	}
}

// An application that does not answer is named, and costs nobody else anything.
func TestElementsHung(t *testing.T) {
	f := newFixture(t)
	ref := ref(t, f.tree(t, platform.TreeQuery{}), "OK")
	wait := make(chan struct{})
	f.root.wait, f.button.wait = wait, wait
	tree := f.tree(t, platform.TreeQuery{PerApp: 100 * time.Millisecond})
	if !slices.Equal(tree.Hung, []string{"notepad"}) {
		t.Errorf("%+v", tree)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.a.Element(ctx, ref); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was called off: %v", err)
	}
	close(wait)
	// From now on it is read step by step, until it is small enough again.
	if tree := f.tree(t, platform.TreeQuery{}); len(tree.Elements) != len(fixtureLines) || len(tree.Hung) != 0 {
		t.Errorf("%+v", tree)
	}
	f.a.mu.Lock()
	large := f.a.large[f.w.PID]
	f.a.mu.Unlock()
	if large {
		t.Error("a small application is still read step by step")
	}
	f.a.Close()
	if left := f.leaks(); len(left) != 0 {
		t.Errorf("not released: %v", left)
	}
}

// The parts of this system are opened, or said to be missing.
func TestUIAHere(t *testing.T) {
	a, err := NewAccessibility()
	var missing *platform.MissingError
	// Wine 8 has none, and Wine 10 one that is not whole; each says what it lacks. Any other
	// failure is a defect of ours.
	if errors.As(err, &missing) {
		if missing.Fix == "" || !strings.Contains(missing.What, "UI Automation") {
			t.Errorf("it does not say what is missing, or the fix: %+v", missing)
		}
		t.Log(err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	w := notepad(t)
	tree, err := a.Tree(t.Context(), platform.TreeQuery{PID: w.PID, PerApp: time.Minute})
	if err != nil || len(tree.Elements) < 2 {
		t.Errorf("notepad's elements: %+v, %v", tree, err)
	}
}

func TestElementEvents(t *testing.T) {
	a := newAccessibility(0, make(chan struct{}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen, err := a.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := notepad(t)
	late := time.After(time.Minute)
	for {
		select {
		case e := <-seen:
			if e.PID != w.PID {
				continue
			}
		case <-late:
			t.Fatal("an application opened a window and nobody was told")
		}
		break
	}
	cancel()
	for range seen { // ends
	}
}
