package desktop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

const notesPID = 7

// notes puts an application with a window on the table and returns the refs of its window, its
// window element and a field.
func (b *table) notes() (window, element, field string) {
	window = b.d.AddWindow(platform.Window{Title: "Notes", App: "Editor", PID: notesPID, Bounds: platform.Rect{X: 10, Y: 10, Width: 300, Height: 200}, Focused: true})
	app := b.d.AddElement(platform.Element{Role: "application", Name: "Editor", App: "Editor", PID: notesPID, States: []string{"enabled", "visible"}})
	put := func(under string, e platform.Element) string {
		e.App, e.PID, e.Window = "Editor", notesPID, window
		if e.States == nil {
			e.States = []string{"enabled", "visible"}
		}
		return b.d.AddElement(e, fake.Under(under))
	}
	element = put(app, platform.Element{Role: "window", Name: "Notes"})
	box := put(element, platform.Element{Role: "group"})
	save := put(box, platform.Element{Role: "button", Name: "Save", Actions: []string{"press"}})
	put(save, platform.Element{Role: "label", Name: "Save"})
	field = put(box, platform.Element{Role: "textbox", Name: "Title", Value: "one", States: []string{"editable", "enabled", "focused", "visible"}})
	put(box, platform.Element{Role: "textbox", Name: "Password", States: []string{"editable", "enabled", "protected", "visible"}})
	put(box, platform.Element{Role: "button", Name: "Print", States: []string{"visible"}})
	put(box, platform.Element{Role: "menu", Name: "Closed", States: []string{"enabled"}})
	list := put(box, platform.Element{Role: "list", Name: "Rows"})
	for i := range 20 {
		states := []string{"enabled", "visible"}
		if i >= 2 {
			states = []string{"enabled", "offscreen", "visible"}
		}
		put(list, platform.Element{Role: "listitem", Name: fmt.Sprintf("Row %d", i), States: states})
	}
	return window, element, field
}

func TestOutline(t *testing.T) {
	b := newTable(t, Options{})
	window, _, _ := b.notes()
	b.d.AddWindow(platform.Window{Title: "xterm", App: "XTerm", PID: 9, Bounds: platform.Rect{X: 400, Width: 10, Height: 10}})
	m := b.do("snapshot", `{"outline": true}`)
	want := `- window "xterm" [ref=` + b.ref(m, "xterm") + `] [app=XTerm] [focused]: no elements
- application "Editor" [ref=e1]
  - window "Notes" [ref=e2]
    - button "Save" [ref=e3]
    - textbox "Title" [ref=e4] [focused]: "one"
    - textbox "Password" [ref=e5] [protected]
    - button "Print" [ref=e6] [disabled]
    - list "Rows" [ref=e7]
      - listitem "Row 0" [ref=e8]
      - listitem "Row 1" [ref=e9]
      - (18 more, not on the screen)`
	if m["outline"] != want {
		t.Errorf("%s\nwant\n%s", m["outline"], want)
	}
	only := b.do("snapshot", fmt.Sprintf(`{"outline": true, "window": %q}`, window))
	if text := only["outline"].(string); strings.Contains(text, "xterm") || !strings.HasPrefix(text, `- window "Notes"`) || len(only["windows"].([]any)) != 1 {
		t.Errorf("%v", only)
	}
	if text := b.do("snapshot", `{"outline": true, "app": "edit"}`)["outline"].(string); strings.Contains(text, "xterm") || !strings.Contains(text, "Save") {
		t.Error(text)
	}
	b.refused(capabilities.CodeWindowNotFound, "snapshot", `{"window": "Paint"}`)
}

func (b *table) ref(m map[string]any, title string) string {
	for _, w := range m["windows"].([]any) {
		if w := w.(map[string]any); w["title"] == title {
			return w["ref"].(string)
		}
	}
	b.t.Fatalf("no window %s", title)
	return ""
}

func TestDiff(t *testing.T) {
	b := newTable(t, Options{})
	_, element, field := b.notes()
	first := b.do("snapshot", `{"outline": true}`)["snapshot_id"].(string)
	same := b.do("snapshot", fmt.Sprintf(`{"diff_since": %q}`, first))
	if same["outline"] != "(nothing changed)" || same["diff_of"] != first {
		t.Errorf("%v", same)
	}
	b.d.EditElement(field, func(e *platform.Element) { e.Value = "two" })
	b.d.AddElement(platform.Element{Role: "button", Name: "Undo", App: "Editor", PID: notesPID, States: []string{"enabled", "visible"}}, fake.Under(element))
	gone := b.d.AddWindow(platform.Window{Title: "Dialog", PID: 9, Bounds: platform.Rect{Width: 10, Height: 10}})
	changed := b.do("snapshot", fmt.Sprintf(`{"diff_since": %q}`, first))
	text := changed["outline"].(string)
	for _, want := range []string{`~     - textbox "Title"`, `: "two"`, `+     - button "Undo"`, `+ - window "Dialog"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "Save") || strings.Contains(text, "more") {
		t.Error(text)
	}
	b.d.RemoveWindow(gone)
	if text := b.do("snapshot", fmt.Sprintf(`{"diff_since": %q}`, changed["snapshot_id"]))["outline"].(string); !strings.Contains(text, `- - window "Dialog"`) {
		t.Error(text)
	}
	// One that is not kept any more: all of it, and no claim of a difference.
	if m := b.do("snapshot", `{"diff_since": "s9-none"}`); m["diff_of"] != nil || !strings.Contains(m["outline"].(string), "Save") {
		t.Errorf("%v", m)
	}
}

func TestTree(t *testing.T) {
	b := newTable(t, Options{})
	b.notes()
	m, out := b.full("snapshot", `{"include_tree": true, "include_image": true}`)
	text, _ := json.Marshal(m["tree"])
	for _, want := range []string{`"role":"desktop"`, `"name":"Save"`, `"ref":"e`, `"value":"one"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if m["outline"] != nil || len(out.Blobs) != 1 || m["frame_id"] == nil || m["width"] != 1280.0 {
		t.Errorf("%v", m)
	}
	if back := m["backend"].(map[string]any); back["mode"] != "hybrid" {
		t.Errorf("%v", back)
	}
	if m := b.do("snapshot", `{}`); m["tree"] != nil || m["outline"] != nil || m["mime"] != nil || len(m["windows"].([]any)) != 1 {
		t.Errorf("%v", m)
	}
}

// Hostile applications: deep, wide, endless names. The answer stays within its
// bounds and says that it is not all.
func TestSnapshotBounds(t *testing.T) {
	b := newTable(t, Options{})
	app := b.d.AddElement(platform.Element{Role: "application", Name: "Big", App: "Big", PID: 1, States: []string{"enabled", "visible"}})
	under := app
	for i := range 100 {
		under = b.d.AddElement(platform.Element{Role: "group", Name: fmt.Sprintf("level %d", i), PID: 1, States: []string{"enabled", "visible"}}, fake.Under(under))
	}
	long := make([]string, 60)
	for i := range long {
		long[i] = strings.Repeat("s", 100)
	}
	for range 400 {
		b.d.AddElement(platform.Element{Role: "button", Name: strings.Repeat("ä", 3000), PID: 1, States: append([]string{"enabled", "visible"}, long...), Actions: long}, fake.Under(app))
	}
	m, out := b.full("snapshot", `{"include_tree": true, "outline": true, "max_text_chars": 500, "max_nodes": 300}`)
	text, _ := json.Marshal(out.Result)
	if m["truncated"] != true || len([]rune(m["outline"].(string))) > 600 || len(text) > 2<<20 {
		t.Errorf("%d bytes, outline %d", len(text), len(m["outline"].(string)))
	}
	if m := b.do("snapshot", `{"include_tree": true, "outline": true}`); m["truncated"] != true {
		t.Error("not all was told, and nothing says so")
	}
	b.d.SetHung(1, true)
	if m := b.do("snapshot", `{"outline": true}`); fmt.Sprint(m["hung"]) != "[Big]" {
		t.Errorf("%v", m)
	}
	b.d.SetMissing(platform.PartAccessibility, &platform.MissingError{What: "No bus."})
	if m := b.do("snapshot", `{"include_tree": true}`); m["tree"] != nil || m["backend"].(map[string]any)["mode"] != "pixel" {
		t.Errorf("%v", m)
	}
}

func TestSnapshotsAreBounded(t *testing.T) {
	b := newTable(t, Options{})
	b.notes()
	for range 100 {
		b.do("snapshot", `{"outline": true}`)
	}
	if n := len(b.h.snapshots.list); n > maxSnapshots {
		t.Errorf("%d snapshots are kept", n)
	}
}
