package atspi

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

const many = "Hello Grüße Привет こんにちは 漢字 مرحبا 😀"

// The reading matches the windows of a GTK 3, a GTK 4 and a Qt program, and an action through their
// elements is what they say was done.
func TestToolkits(t *testing.T) {
	t.Parallel()
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4, desk.Qt} {
		t.Run(string(kit), func(t *testing.T) {
			t.Parallel()
			d := desk.StartX(t, desk.Options{})
			a := ears(t, d)
			f := d.Fixture(kit, 8)
			d.Activate(f.Window.ID)
			ctx := t.Context()
			get := func(role, name string) platform.Element { t.Helper(); return named(t, a, f.PID, role, name) }

			button := get("button", "button")
			for _, want := range []string{"enabled", "focusable", "visible"} {
				if !slices.Contains(button.States, want) {
					t.Errorf("the button is %v, not %s", button.States, want)
				}
			}
			look, _ := f.Look()
			if button.PID != f.PID || button.Window != "x11:"+f.Window.ID {
				t.Errorf("the button is in process %d, window %s; not in %d, %s", button.PID, button.Window, f.PID, f.Window.ID)
			}
			box := f.Box("button")
			if kit == desk.GTK4 {
				box.X, box.Y = box.X+look.X, box.Y+look.Y
			}
			if c := button.Bounds.Center(); c.X < box.X || c.X >= box.X+box.Width || c.Y < box.Y || c.Y >= box.Y+box.Height || button.Bounds.Width > box.Width {
				t.Errorf("the button is at %+v, not at %+v", button.Bounds, box)
			}
			one, err := a.Element(ctx, button.Ref)
			if one.Parent = button.Parent; err != nil || one.Name != button.Name || one.Bounds != button.Bounds || one.Window != button.Window ||
				!slices.Equal(one.States, button.States) || !slices.Equal(one.Actions, button.Actions) {
				t.Errorf("read alone the button is %+v (%v), not %+v", one, err, button)
			}
			n := len(f.Events())
			if err := a.Do(ctx, button.Ref, platform.Press); err != nil {
				t.Errorf("pressing: %v", err)
			}
			f.AwaitAfter(n, "the click", func(e desk.Event) bool { return e.Kind == "clicked" && e.Widget == "button" })
			if err := a.Do(ctx, button.Ref, "fly"); !errors.Is(err, platform.ErrCannot) {
				t.Errorf("a button that flies: %v", err)
			}

			for _, widget := range []string{"entry", "text"} {
				e := get("textbox", widget)
				if err := a.SetText(ctx, e.Ref, many); err != nil {
					t.Errorf("setting the text of %s: %v", widget, err)
				}
				desk.Await(t, "the text of "+widget, func() bool { return f.Read(widget).Text == many })
				if text, err := a.Text(ctx, e.Ref, 1000); text != many || err != nil {
					t.Errorf("%s has %q (%v)", widget, text, err)
				}
				if text, err := a.Text(ctx, e.Ref, 8); text != "Hello Gr" || err != nil {
					t.Errorf("%s begins with %q (%v)", widget, text, err)
				}
				if e := get("textbox", widget); e.Value != many {
					t.Errorf("%s shows %q", widget, e.Value)
				}
				f.Do(map[string]any{"do": "text", "widget": widget, "text": "second"})
				if text, err := a.Text(ctx, e.Ref, 1000); text != "second" || err != nil {
					t.Errorf("%s then has %q (%v)", widget, text, err)
				}
			}
			if err := a.SetText(ctx, button.Ref, "x"); !errors.Is(err, platform.ErrCannot) {
				t.Errorf("a button's text: %v", err)
			}

			// A protected field takes a text and never tells it.
			password := get("textbox", "password")
			if err := a.SetText(ctx, password.Ref, "hush hush"); err != nil {
				t.Errorf("setting a password: %v", err)
			}
			desk.Await(t, "the password", func() bool { return f.Read("password").Text == "hush hush" })
			if text, err := a.Text(ctx, password.Ref, 100); text != "" || !errors.Is(err, platform.ErrCannot) {
				t.Errorf("the password was given: %q (%v)", text, err)
			}
			tree := read(t, a, platform.TreeQuery{PID: f.PID, Bounds: true})
			if all := outline(tree); strings.Contains(all, "hush") || strings.Contains(all, "●●") || strings.Contains(all, "••") {
				t.Errorf("the password is in\n%s", all)
			}
			if i := slices.IndexFunc(tree.Elements, func(e platform.Element) bool { return e.Name == "password" }); !slices.Contains(tree.Elements[i].States, "protected") {
				t.Errorf("the password's field is %v", tree.Elements[i].States)
			}

			for widget, role := range map[string]string{"slider": "slider", "spin": "spinbutton"} {
				e := get(role, widget)
				if err := a.SetNumber(ctx, e.Ref, 42); err != nil {
					t.Errorf("setting %s: %v", widget, err)
				}
				desk.Await(t, widget+" to be 42", func() bool { return math.Round(f.Read(widget).Number) == 42 })
				value, least, most, _, err := a.Number(ctx, e.Ref)
				if value != 42 || least != 0 || most < 99 || err != nil {
					t.Errorf("%s is %v of %v to %v (%v)", widget, value, least, most, err)
				}
				if e := get(role, widget); e.Value != "42" {
					t.Errorf("%s shows %q", widget, e.Value)
				}
			}
			if _, _, _, _, err := a.Number(ctx, button.Ref); !errors.Is(err, platform.ErrCannot) {
				t.Errorf("a button's number: %v", err)
			}

			for i, colour := range []string{"red", "green", "blue"} {
				f.Do(map[string]any{"do": "choose", "number": i})
				e := find(t, a, f.PID, "choice of "+colour, func(e platform.Element) bool { return e.Role == "combobox" && e.Value == colour })
				if one, err := a.Element(ctx, e.Ref); err != nil || one.Value != colour {
					t.Errorf("read alone, the choice of %s is %q (%v)", colour, one.Value, err)
				}
			}

			check := get("checkbox", "check")
			if err := a.Do(ctx, check.Ref, platform.Press); err == nil {
				desk.Await(t, "the check", func() bool { return f.Read("check").On })
			} else if kit == desk.GTK4 && errors.Is(err, platform.ErrCannot) {
				f.Do(map[string]any{"do": "check", "widget": "check", "on": true}) // it publishes no action for these
			} else {
				t.Errorf("pressing the check box: %v", err)
			}
			find(t, a, f.PID, "checked box", func(e platform.Element) bool { return e.Ref == check.Ref && slices.Contains(e.States, "checked") })

			if err := a.Focus(ctx, button.Ref); kit == desk.GTK4 && errors.Is(err, platform.ErrCannot) {
				f.Do(map[string]any{"do": "focus", "widget": "button"}) // it says no to everybody
			} else if err != nil {
				t.Errorf("focusing: %v", err)
			}
			find(t, a, f.PID, "focused button", func(e platform.Element) bool { return e.Ref == button.Ref && slices.Contains(e.States, "focused") })

			if kit != desk.GTK4 {
				row := find(t, a, f.PID, "row", func(e platform.Element) bool { return e.Name == "row 3" })
				if err := a.Select(ctx, row.Ref, false); err != nil && kit == desk.GTK3 {
					t.Errorf("selecting a row: %v", err)
				} else if err == nil {
					desk.Await(t, "the row to be selected", func() bool { return f.Read("list").Text == "row 3" })
				}
			}

			f.Do(map[string]any{"do": "disable", "widget": "button"})
			find(t, a, f.PID, "disabled button", func(e platform.Element) bool { return e.Ref == button.Ref && !slices.Contains(e.States, "enabled") })
			f.Do(map[string]any{"do": "hide", "widget": "button"})
			absent(t, a, f.PID, button.Ref)
			f.Do(map[string]any{"do": "show", "widget": "button"})
			get("button", "button")
			f.Do(map[string]any{"do": "remove", "widget": "button"})
			absent(t, a, f.PID, button.Ref)
			desk.Await(t, "the button to be gone", func() bool {
				_, err := a.Element(ctx, button.Ref)
				return errors.Is(err, platform.ErrGone)
			})
			if err := a.Do(ctx, button.Ref, platform.Press); !errors.Is(err, platform.ErrGone) {
				t.Errorf("pressing what is gone: %v", err)
			}

			entry := get("textbox", "entry")
			f.Kill()
			for what, err := range map[string]error{
				"press": a.Do(ctx, entry.Ref, platform.Press), "text": a.SetText(ctx, entry.Ref, "x"), "focus": a.Focus(ctx, entry.Ref),
				"select": a.Select(ctx, entry.Ref, false), "number": a.SetNumber(ctx, entry.Ref, 1),
			} {
				if !errors.Is(err, platform.ErrGone) {
					t.Errorf("%s in a program that ended: %v", what, err)
				}
			}
			if _, err := a.Tree(ctx, platform.TreeQuery{Root: entry.Ref}); !errors.Is(err, platform.ErrGone) {
				t.Errorf("the tree of an element that is gone: %v", err)
			}
		})
	}
}

// absent waits until an element is in no reading any more.
func absent(t *testing.T, a *Accessibility, pid int, ref string) {
	t.Helper()
	for deadline := time.Now().Add(desk.Within); ; time.Sleep(20 * time.Millisecond) {
		tree := read(t, a, platform.TreeQuery{PID: pid, Bounds: true})
		i := slices.IndexFunc(tree.Elements, func(e platform.Element) bool { return e.Ref == ref })
		if i < 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v is still in\n%s", tree.Elements[i], outline(tree))
		}
	}
}
