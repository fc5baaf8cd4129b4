package fake_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, d *fake.Desktop) *platform.Desktop {
	t.Helper()
	desk, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return desk
}

// notepad is a window with a field and a button that counts.
func notepad(d *fake.Desktop) (field, button string, pressed *int) {
	w := d.AddWindow(platform.Window{Title: "Notes", App: "Notepad", PID: 7, Bounds: platform.Rect{X: 100, Y: 100, Width: 400, Height: 300}})
	app := d.AddElement(platform.Element{Role: "application", Name: "Notepad", App: "Notepad", PID: 7})
	field = d.AddElement(platform.Element{Role: "textbox", Name: "Text", App: "Notepad", PID: 7, Window: w,
		States: []string{"editable", "enabled", "focusable", "visible"}, Bounds: platform.Rect{X: 110, Y: 110, Width: 380, Height: 200}}, fake.Under(app))
	pressed = new(int)
	button = d.AddElement(platform.Element{Role: "button", Name: "Save", App: "Notepad", PID: 7, Window: w,
		States: []string{"enabled", "focusable", "visible"}, Bounds: platform.Rect{X: 110, Y: 350, Width: 80, Height: 30}},
		fake.Under(app), fake.OnPress(func(*fake.Desktop) { *pressed++ }))
	return field, button, pressed
}

// The same thing by pixels and by elements.
func TestBothWays(t *testing.T) {
	d := fake.New()
	field, button, pressed := notepad(d)
	desk := open(t, d)
	ctx := t.Context()
	click := func(p platform.Point) {
		t.Helper()
		for _, err := range []error{desk.Input.Move(ctx, p), desk.Input.Button(ctx, platform.ButtonLeft, true), desk.Input.Button(ctx, platform.ButtonLeft, false)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	click(platform.Point{X: 150, Y: 150})
	if n, err := desk.Input.Type(ctx, "é漢😀"); n != 3 || err != nil {
		t.Fatalf("typed %d: %v", n, err)
	}
	click(platform.Point{X: 150, Y: 360})
	if err := desk.Accessibility.Do(ctx, button, platform.Press); err != nil {
		t.Fatal(err)
	}
	if *pressed != 2 {
		t.Errorf("the button was pressed %d times", *pressed)
	}
	if text, err := desk.Accessibility.Text(ctx, field, 2); text != "é漢" || err != nil {
		t.Errorf("read %q: %v", text, err)
	}
	if err := desk.Accessibility.SetText(ctx, field, "new"); err != nil || d.TextOf(field) != "new" {
		t.Errorf("the field holds %q: %v", d.TextOf(field), err)
	}
	tree, err := desk.Accessibility.Tree(ctx, platform.TreeQuery{Bounds: true})
	if err != nil || len(tree.Elements) != 3 || tree.Elements[2].Parent != 0 {
		t.Errorf("the tree is %+v: %v", tree, err)
	}
}

// The faulty one: what fails, hangs, goes or is missing says so as the seam does.
func TestFaults(t *testing.T) {
	d := fake.New()
	field, _, _ := notepad(d)
	desk := open(t, d)
	d.Fail("input.type", platform.ErrUntypable)
	if _, err := desk.Input.Type(t.Context(), "x"); !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("typing: %v", err)
	}
	d.Hang("screen.layout", true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := desk.Screen.Layout(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a layout that hangs: %v", err)
	}
	d.SetHung(7, true)
	if tree, err := desk.Accessibility.Tree(t.Context(), platform.TreeQuery{}); err != nil || !slices.Equal(tree.Hung, []string{"Notepad"}) {
		t.Errorf("a tree of what hangs: %+v %v", tree, err)
	}
	if _, err := desk.Accessibility.Element(t.Context(), field); !errors.Is(err, platform.ErrHung) {
		t.Errorf("an element of what hangs: %v", err)
	}
	d.RemoveElement(field)
	if _, err := desk.Accessibility.Element(t.Context(), field); !errors.Is(err, platform.ErrGone) {
		t.Errorf("an element that is gone: %v", err)
	}
	d.SetMissing(platform.PartPerson, &platform.MissingError{What: "No XInput2.", Fix: "Use another server."})
	d.Lose()
	if again := open(t, d); again == desk || again.Person != nil || again.Missing[platform.PartPerson] == nil {
		t.Errorf("reopened without a person: %+v", again)
	}
	if n := d.Opens(); n != 2 {
		t.Errorf("opened %d times", n)
	}
}

// A change is delivered, and a reader that does not read makes nothing wait.
func TestChanges(t *testing.T) {
	d := fake.New()
	desk := open(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	area := platform.Rect{X: 10, Y: 10, Width: 10, Height: 10}
	areas, err := desk.Screen.Changes(ctx, area)
	if err != nil {
		t.Fatal(err)
	}
	events, err := desk.Accessibility.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := desk.Screen.Frame(ctx, area, false)
	if same, _ := desk.Screen.Frame(ctx, area, false); same.Seq != before.Seq {
		t.Error("nothing changed, but the frame did")
	}
	for range 200 {
		d.Paint(platform.Rect{X: 15, Y: 15, Width: 50, Height: 1}, 0xff0000)
		d.AddElement(platform.Element{Role: "label"})
	}
	if r := <-areas; r != (platform.Rect{X: 15, Y: 15, Width: 5, Height: 1}) {
		t.Errorf("changed: %v", r)
	}
	if after, _ := desk.Screen.Frame(ctx, area, false); after.Seq == before.Seq || after.Pix[5*after.Stride+5*4+2] != 0xff {
		t.Error("the paint is not in the frame")
	}
	if e := <-events; e.Kind != "added" && e.Kind != "changed" {
		t.Errorf("event %+v", e)
	}
	var touched, stopped int
	if err := desk.Person.Watch(ctx, "ctrl+alt+escape", func(time.Time) { touched++ }, func() { stopped++ }); err != nil {
		t.Fatal(err)
	}
	d.Touch()
	d.PressHotKey()
	if touched != 2 || stopped != 1 {
		t.Errorf("touched %d, stopped %d", touched, stopped)
	}
	cancel()
	for range areas {
	}
	for range events {
	}
}
