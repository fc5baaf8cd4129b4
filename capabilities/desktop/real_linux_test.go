package desktop

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/desk"
)

// acting is a desk with the fixture for acts on it, and a handler.
type acting struct {
	*bench
	desk *desk.Desk
	f    *desk.Fixture
}

func startActing(t *testing.T, o desk.Options) acting {
	t.Helper()
	d := desk.StartX(t, o)
	f := d.Fixture(desk.Acts, 0)
	a := acting{realBench(t, d), d, f}
	a.await(map[string]any{"selector": a.in(`role:button && name:ask`), "state": "enabled"})
	return a
}

// in is a selector for something in the program's window.
func (a acting) in(what string) string {
	return fmt.Sprintf(`window:%q >> %s`, a.f.App.Window.Title, what)
}

func (a acting) self() string { return fmt.Sprintf(`window:%q`, a.f.App.Window.Title) }

// confirmed acts, and wants a proof of the effect.
func (a acting) confirmed(target any, action map[string]any) map[string]any {
	a.t.Helper()
	m, out := a.act(target, action)
	a.t.Logf("%v %v: %v %s (%s)", target, action["kind"], m["route"], out.Effect, out.Evidence)
	if out.Effect != capabilities.EffectConfirmed {
		a.t.Errorf("%v %v: %v, %+v", target, action, m, out)
	}
	return m
}

// told wants the program to say it, after n of its events.
func (a acting) told(n int, kind, widget, text string, on bool) {
	a.t.Helper()
	a.f.AwaitAfter(n, kind+" of "+widget+text, func(e desk.Event) bool {
		return e.Kind == kind && e.Widget == widget && e.Text == text && e.On == on
	})
}

// An element that opens and closes does so, once, and says so.
func TestExpandAndCollapse(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	for target, widget := range map[string]string{a.in(`name:expander && !role:label`): "expander", a.in(`role:cell && name:"branch 1"`): "branch 1"} {
		n := len(a.f.Events())
		a.confirmed(target, kind("expand"))
		a.told(n, "toggled", widget, "", true)
		n = len(a.f.Events())
		a.confirmed(target, kind("expand")) // it is so already
		a.confirmed(target, kind("collapse"))
		a.told(n, "toggled", widget, "", false)
		for _, e := range a.f.Events()[n:] {
			if e.Kind == "toggled" && e.On {
				t.Errorf("%s was opened twice", widget)
			}
		}
	}
	a.refused(capabilities.CodeActionUnsupported, "act", map[string]any{"target": a.in(`name:ask && role:button`), "action": kind("expand")})
}

// The menu of an element shows, and its entry does what it says.
func TestShowMenu(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	n := len(a.f.Events())
	m, out := a.act(a.in(`role:button && name:area`), kind("show_menu"))
	t.Logf("%v %s (%s)", m["route"], out.Effect, out.Evidence)
	if out.Effect == capabilities.EffectSuspectNoop {
		t.Errorf("%v, %+v", m, out)
	}
	a.told(n, "menu", "", "shown", false)
	a.await(map[string]any{"selector": `role:menuitem && name:"Cut it"`, "state": "visible"})
	a.act(`role:menuitem && name:"Cut it"`, kind("click"))
	a.told(n, "menu", "", "Cut it", false)
}

// One element is dragged onto another, which gets what it carries.
func TestDragBetweenWidgets(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	n := len(a.f.Events())
	m, _ := a.act(a.in(`role:button && name:card`), kind("drag", "to", a.in(`role:button && name:tray`)))
	if m["route"] != "synthetic_input" || m["moved_pointer"] != true {
		t.Errorf("%v", m)
	}
	a.told(n, "text", "tray", "the card", false)
}

// A program that is slow gets its drags slowly: it has to notice the press before the
// pointer has left, and the drop before the button is up.
func TestDragInASlowProgram(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	slow, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-slow:
				return
			default:
				a.f.Do(map[string]any{"do": "busy", "number": 0.1})
			}
		}
	}()
	for range 3 {
		n := len(a.f.Events())
		a.act(a.in(`role:button && name:card`), kind("drag", "to", a.in(`role:button && name:tray`)))
		a.told(n, "text", "tray", "the card", false)
	}
	close(slow)
	<-done
}

// The wheel moves a pane there and back.
func TestScrollAPane(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	at := func() float64 { return a.f.Read("pane").Number }
	m, out := a.act(a.in(`role:scrollarea && name:pane`), kind("scroll", "direction", "down", "lines", 6))
	t.Logf("%v %s (%s)", m["route"], out.Effect, out.Evidence)
	desk.Await(t, "the pane to move", func() bool { return at() > 0 })
	a.act(a.in(`role:scrollarea && name:pane`), kind("scroll", "direction", "up", "pages", 20))
	desk.Await(t, "the pane to be back", func() bool { return at() == 0 })
}

// A button whose action ends only when its dialog is closed holds nobody up, and the
// dialog is there for elements and for the keyboard, which once stopped such programs
// for good.
func TestDialogOfAnAction(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	answer := map[string]func(){
		"yes": func() { a.act(`window:"A question" >> role:button && name:Yes`, kind("click")) },
		"no": func() {
			if _, _, err := a.call("keyboard", map[string]any{"action": "press", "key": "Alt+n"}); err != nil {
				t.Fatal(err)
			}
		},
	}
	for _, word := range []string{"yes", "no", "yes"} {
		n := len(a.f.Events())
		m, out := a.act(a.in(`role:button && name:ask`), kind("click"))
		t.Logf("%v %s (%s)", m["route"], out.Effect, out.Evidence)
		if m["route"] != "accessibility" || out.Effect != capabilities.EffectConfirmed {
			t.Errorf("%v, %+v", m, out)
		}
		a.told(n, "clicked", "ask", "", false)
		a.await(map[string]any{"selector": `window:"A question" >> role:button && name:Yes`, "state": "enabled"})
		answer[word]()
		a.told(n, "selected", "ask", word, false)
	}
	a.confirmed(a.in(`name:expander && !role:label`), kind("expand"))
}

// A window is moved, resized, minimized, brought back and closed, as other programs
// and the program itself see.
func TestWindowActs(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	id := a.f.App.Window.ID
	left, right, top, bottom := a.desk.Frame(id)
	a.confirmed(a.self(), kind("move", "x", 77, "y", 55))
	if w, _ := a.f.Look(); w.X != 77+left || w.Y != 55+top {
		t.Errorf("moved to 77,55 with a frame of %d,%d, it is at %d,%d", left, top, w.X, w.Y)
	}
	a.confirmed(a.self(), kind("resize", "width", 700, "height", 690))
	if w, _ := a.f.Look(); w.Width != 700-left-right || w.Height != 690-top-bottom {
		t.Errorf("resized to 700x690, its content has %dx%d", w.Width, w.Height)
	}
	n := len(a.f.Events())
	a.confirmed(a.self(), kind("minimize"))
	a.told(n, "toggled", "window", "", false)
	if _, shown := a.f.Look(); shown {
		t.Error("a minimized window is shown")
	}
	n = len(a.f.Events())
	a.confirmed(a.self(), kind("activate"))
	a.told(n, "toggled", "window", "", true)
	desk.Await(t, "the window to be active", func() bool { return a.desk.Active() == id })
	n = len(a.f.Events())
	a.confirmed(a.self(), kind("close"))
	a.told(n, "close", "", "", false)
	a.refused(capabilities.CodeWindowNotFound, "act", map[string]any{"target": a.self(), "action": kind("minimize")})
}

// An element that goes away between its finding and the act is told as gone, and
// nothing else gets the click.
func TestActsRaceToClose(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{})
	m, _, err := a.call("query", map[string]any{"selector": a.in(`role:button && name:card`)})
	if err != nil {
		t.Fatal(err)
	}
	ref := m["matches"].([]any)[0].(map[string]any)["element_ref"]
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.f.Kill()
	}()
	for {
		_, _, err := a.call("act", map[string]any{"target": ref, "action": kind("click")})
		if err == nil {
			continue // it was there still
		}
		switch code := capabilities.CodeOf(err); code {
		case capabilities.CodeStaleRef, capabilities.CodeElementNotFound, capabilities.CodeAppHung, capabilities.CodeWindowNotFound:
		default:
			t.Errorf("%s: %v", code, err)
		}
		break
	}
	<-ended
}

// Elements and pixels of a second display, which begins elsewhere.
func TestActsOnTwoDisplays(t *testing.T) {
	t.Parallel()
	a := startActing(t, desk.Options{Size: "1700x900", Monitors: []desk.Monitor{
		{Name: "left", Width: 1000, Height: 800}, {Name: "right", X: 1000, Y: 100, Width: 700, Height: 800, MM: 100},
	}})
	a.confirmed(a.self(), kind("move", "x", 1060, "y", 130))
	n := len(a.f.Events())
	m, _ := a.act(a.in(`role:button && name:card`), kind("drag", "to", a.in(`role:button && name:tray`)))
	t.Logf("%v", m["route"])
	a.told(n, "text", "tray", "the card", false)
	// The same by an image of that display only.
	b := a.f.Box("expander")
	shot, _, err := a.call("screenshot", map[string]any{"display": map[string]any{"id": "right"}, "max_width": 500})
	if err != nil {
		t.Fatal(err)
	}
	frame := shot["frame"].(map[string]any)
	scale := frame["image_width"].(float64) / frame["width"].(float64)
	n = len(a.f.Events())
	if _, _, err := a.call("mouse", map[string]any{"action": "click", "frame_id": shot["frame_id"],
		"x": (float64(b.X+12) - frame["x"].(float64)) * scale, "y": (float64(b.Y+b.Height/2) - frame["y"].(float64)) * scale}); err != nil {
		t.Fatal(err)
	}
	a.told(n, "toggled", "expander", "", true)
}

// A question about an act says which element its ref means, in which window, and whether
// what is typed there is hidden.
func TestDescribeATarget(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	d.Fixture(desk.GTK3, 20)
	b := realBench(t, d)
	for widget, want := range map[string]string{"button": "button", "entry": "text"} {
		m, _, err := b.call("wait-for", map[string]any{"selector": "name:" + widget, "state": "visible", "timeout_ms": desk.Within.Milliseconds()})
		if err != nil || m["status"] != "satisfied" {
			t.Fatalf("%v, %v", m, err)
		}
		match, _ := m["match"].(map[string]any)
		ref, _ := match["element_ref"].(string)
		args, _ := json.Marshal(map[string]any{"target": map[string]any{"kind": "ref", "ref": ref}, "action": kind("click")})
		got, err := b.h.Describe(t.Context(), capabilities.Invocation{Capability: "tyrum.desktop.act", Args: args})
		if err != nil || got.Field != widget || !strings.Contains(got.Role, want) || got.Window == "" || got.Password {
			t.Errorf("%s, %v: %+v, %v", widget, m["match"], got, err)
		}
	}
}

// How much was typed is told where the field that took it shows it, and nowhere else: not of
// keys that lead on into another field, not of a terminal, not where nothing is known.
func TestWhatWasTyped(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	f := d.Fixture(desk.GTK3, 20)
	b := realBench(t, d)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	b.await(map[string]any{"selector": "name:entry", "state": "focused", "timeout_ms": desk.Within.Milliseconds()})
	types := func(text string) *capabilities.Did {
		t.Helper()
		_, out, err := b.call("keyboard", map[string]any{"action": "type", "text": text})
		if err != nil {
			t.Fatal(err)
		}
		return out.Did
	}
	// A field that shows nothing yet when the call ends, on a busy machine, is no field that shows it.
	deadline := time.Now().Add(desk.Within)
	for {
		got := types("héllo 漢")
		if got != nil && got.Typed == 7 && got.App != "" {
			break
		}
		if got == nil || got.Typed != 0 || time.Now().After(deadline) {
			t.Fatalf("into a field: %+v", got)
		}
	}
	if got := types("a\tb"); got == nil || got.Typed != 0 || got.App == "" {
		t.Errorf("over two fields: %+v", got)
	}
	_, out := b.act("name:entry", kind("set_value", "value", "four"))
	if got := out.Did; got == nil || got.Typed != 4 || got.App == "" {
		t.Errorf("set: %+v", got)
	}
	f.Do(map[string]any{"do": "focus", "widget": "password"})
	b.await(map[string]any{"selector": "name:password", "state": "focused", "timeout_ms": desk.Within.Milliseconds()})
	if got := types("hunter2"); got == nil || got.Typed != 0 || got.App == "" {
		t.Errorf("into a password field: %+v", got)
	}
	_, out = b.act("name:password", kind("set_value", "value", "hunter2"))
	if got := out.Did; got == nil || got.Typed != 0 {
		t.Errorf("a password that is set: %+v", got)
	}
	term := d.AppTitled("shell", "xterm", "-T", "shell", "-e", "cat")
	d.Activate(term.Window.ID)
	if got := types("sudo's password"); got == nil || got.Typed != 0 || !strings.EqualFold(got.App, "xterm") {
		t.Errorf("into a terminal: %+v", got)
	}
}
