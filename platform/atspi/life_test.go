package atspi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// A frozen application costs its own elements and no others', is named, and is
// back when it goes on.
func TestFrozenApplication(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	frozen, fresh, well := d.Fixture(desk.GTK3, 3), d.Fixture(desk.Qt, 3), d.Fixture(desk.GTK4, 3)
	entry := named(t, a, frozen.PID, "textbox", "entry")
	named(t, a, well.PID, "button", "button")
	fresh.Freeze() // one that was never asked before
	frozen.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
	defer cancel()
	for range 3 {
		tree, err := a.Tree(ctx, platform.TreeQuery{Bounds: true, PerApp: 5 * time.Second})
		if err != nil {
			t.Fatalf("reading beside a frozen application: %v", err)
		}
		if len(tree.Hung) != 2 || !slices.ContainsFunc(tree.Hung, func(name string) bool { return strings.Contains(name, "gtk3") }) {
			t.Errorf("hung are %q", tree.Hung)
		}
		if !slices.ContainsFunc(tree.Elements, func(e platform.Element) bool { return e.PID == well.PID && e.Name == "button" }) {
			t.Errorf("the other application is not in\n%s", outline(tree))
		}
		for _, e := range tree.Elements {
			if (e.PID == frozen.PID || e.PID == fresh.PID) && e.Role != "application" {
				t.Errorf("a frozen application still shows %+v", e)
			}
		}
	}
	short, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := a.Tree(short, platform.TreeQuery{PID: fresh.PID}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reading whose time ended: %v", err)
	}
	if err := a.Do(ctx, entry.Ref, platform.Press); !errors.Is(err, platform.ErrHung) {
		t.Errorf("an action of a frozen application: %v", err)
	}
	frozen.Thaw()
	fresh.Thaw()
	named(t, a, frozen.PID, "textbox", "entry")
	find(t, a, fresh.PID, "Qt's button", func(e platform.Element) bool { return e.Name == "button" })
	if tree := read(t, a, platform.TreeQuery{}); len(tree.Hung) > 0 {
		t.Errorf("hung after all went on: %q", tree.Hung)
	}
}

// Of a list of 10,000 rows what is on the screen is read, and the application goes
// on all the while.
func TestLongLists(t *testing.T) {
	t.Parallel()
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4, desk.Qt} {
		t.Run(string(kit), func(t *testing.T) {
			t.Parallel()
			d := desk.StartX(t, desk.Options{})
			a := ears(t, d)
			f := d.Fixture(kit, 10_000)
			d.Activate(f.Window.ID)
			find(t, a, f.PID, "first row", func(e platform.Element) bool { return e.Name == "row 0" })
			tree := read(t, a, platform.TreeQuery{PID: f.PID, Bounds: true})
			rows := 0
			for _, e := range tree.Elements {
				if strings.HasPrefix(e.Name, "row ") && slices.Contains(e.States, "visible") {
					rows++
				}
			}
			if rows < 5 || len(tree.Elements) > 1000 {
				t.Errorf("%d rows are seen, of %d elements", rows, len(tree.Elements))
			}
			if kit != desk.GTK4 && !tree.Truncated { // whose lists hold what is on the screen only
				t.Error("that there is more was not told")
			}
			few := read(t, a, platform.TreeQuery{PID: f.PID, MaxElements: 12})
			if len(few.Elements) != 12 || !few.Truncated {
				t.Errorf("12 elements were asked for: %d, truncated %v", len(few.Elements), few.Truncated)
			}
			n := len(f.Events())
			f.Do(map[string]any{"do": "text", "widget": "entry", "text": "alive"})
			f.AwaitAfter(n, "the text", func(e desk.Event) bool { return e.Kind == "text" && e.Text == "alive" })
		})
	}
}

// Changes are told as they happen, by the elements they happened to; a receiver
// that sleeps gets them joined.
func TestEvents(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	button, entry := named(t, a, f.PID, "button", "button"), named(t, a, f.PID, "textbox", "entry")
	ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
	defer cancel()
	events, err := a.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, is func(platform.ElementEvent) bool) {
		t.Helper()
		for e := range events {
			if e.PID == f.PID && is(e) {
				return
			}
		}
		t.Fatalf("no event told of %s", what)
	}
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": "abc"})
	await("text", func(e platform.ElementEvent) bool { return e.Kind == "text" && e.Ref == entry.Ref })
	f.Do(map[string]any{"do": "focus", "widget": "button"})
	await("focus", func(e platform.ElementEvent) bool { return e.Kind == "focused" && e.Ref == button.Ref })
	f.Do(map[string]any{"do": "disable", "widget": "button"})
	await("a state", func(e platform.ElementEvent) bool { return e.Kind == "changed" && e.Ref == button.Ref })
	f.Do(map[string]any{"do": "remove", "widget": "button"})
	await("an element that went", func(e platform.ElementEvent) bool { return e.Kind == "removed" && e.Ref == button.Ref })

	// More than a receiver is held for comes as one.
	sleeper, end := context.WithCancel(t.Context())
	defer end()
	late, err := a.Events(sleeper)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		f.Do(map[string]any{"do": "text", "widget": "entry", "text": fmt.Sprint("number ", i)})
		f.Do(map[string]any{"do": "check", "widget": "check", "on": i%2 == 0})
	}
	count, joined := 0, false
	for !joined {
		select {
		case e := <-late:
			count++
			joined = e.Kind == "changed" && e.Ref == ""
		case <-ctx.Done():
			t.Fatalf("%d events came one by one", count)
		}
	}
	end()
	for range late { // it is closed
	}

	f.Kill()
	await("a program that ended", func(e platform.ElementEvent) bool { return e.Kind == "removed" })
	desk.Await(t, "the mirror of a program that ended to go", func() bool {
		a.session.mu.Lock()
		defer a.session.mu.Unlock()
		return len(a.session.apps) == 0
	})
	cancel()
	for range events {
	}
}

// Without anybody who asks, applications are not followed any more; the next
// question follows them again.
func TestIdle(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	a.options.Idle = 200 * time.Millisecond
	f := d.Fixture(desk.GTK3, 3)
	named(t, a, f.PID, "button", "button")
	registered := func() int {
		q := call(place{ifRegistry, pathRegistry}, ifRegistry+".GetRegisteredEvents")
		if err := ask(t.Context(), a.session.bus, nil, q); err != nil {
			t.Fatal(err)
		}
		list, _ := q.first().([][]any)
		return len(list)
	}
	desk.Await(t, "nobody to listen", func() bool { return registered() == 0 })
	desk.Await(t, "the mirrors to go", func() bool {
		a.session.mu.Lock()
		defer a.session.mu.Unlock()
		return len(a.session.apps) == 0
	})
	if _, err := a.Events(t.Context()); err != nil { // which goes on asking
		t.Fatal(err)
	}
	named(t, a, f.PID, "button", "button")
	if registered() == 0 {
		t.Error("nobody listens after a question")
	}
}

// A bus that ends is a lost connection, and a new one is found without a restart.
func TestLostBus(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	f := d.Fixture(desk.GTK3, 3)
	e := named(t, a, f.PID, "button", "button")
	events, err := a.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = a.session.bus.Close()
	for range events { // closed, not silent
	}
	named(t, a, f.PID, "button", "button")
	if err := a.Do(t.Context(), e.Ref, platform.Press); err != nil {
		t.Errorf("a ref after the connection was made anew: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Do(t.Context(), e.Ref, platform.Press); !errors.Is(err, platform.ErrLost) {
		t.Errorf("after the end: %v", err)
	}
}

// A missing part is named with the package that has it.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"unix:path=/nonexistent/bus", "tcp:host=localhost,port=1", "nonsense"} {
		a := New(Options{SessionBus: address})
		_, err := a.Tree(t.Context(), platform.TreeQuery{})
		var missing *platform.MissingError
		if !errors.As(err, &missing) || missing.Fix == "" {
			t.Errorf("%s: %v", address, err)
		}
		if err := a.Check(t.Context()); !errors.As(err, &missing) {
			t.Errorf("checking %s: %v", address, err)
		}
	}
}
