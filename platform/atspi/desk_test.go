package atspi

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// TestMain has the mirror's sequences be long rather than many: what each costs is
// the first reading that it is held against at its end.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		_ = flag.Set("rapid.checks", "40")
	}
	goleak.VerifyTestMain(m)
}

// windows lists a desk's windows with its own oracles.
type windows struct {
	platform.Windows
	d *desk.Desk
}

func (w windows) List(context.Context) ([]platform.Window, error) {
	var all []platform.Window
	for _, one := range w.d.Windows() {
		box := platform.Rect{X: one.X, Y: one.Y, Width: one.Width, Height: one.Height}
		all = append(all, platform.Window{Ref: "x11:" + one.ID, Title: one.Title, PID: one.PID, Bounds: box, Content: box})
	}
	return all, nil
}

// ears opens a desk's elements.
func ears(t testing.TB, d *desk.Desk) *Accessibility {
	a := New(Options{Windows: windows{d: d}, SessionBus: d.Bus, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func read(t testing.TB, a *Accessibility, q platform.TreeQuery) platform.Tree {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), desk.Within)
	defer cancel()
	if q.PerApp == 0 {
		q.PerApp = desk.Within // a busy machine is no frozen application
	}
	tree, err := a.Tree(ctx, q)
	if err != nil {
		t.Fatalf("reading %+v: %v", q, err)
	}
	return tree
}

// find waits for the one element that is says, and returns it.
func find(t testing.TB, a *Accessibility, pid int, what string, is func(platform.Element) bool) platform.Element {
	t.Helper()
	for deadline := time.Now().Add(desk.Within); ; {
		tree := read(t, a, platform.TreeQuery{PID: pid, Bounds: true})
		if i := slices.IndexFunc(tree.Elements, is); i >= 0 {
			return tree.Elements[i]
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s in\n%s", what, outline(tree))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// named waits for an element by role and name.
func named(t testing.TB, a *Accessibility, pid int, role, name string) platform.Element {
	t.Helper()
	return find(t, a, pid, role+" "+name, func(e platform.Element) bool { return e.Role == role && e.Name == name })
}

func outline(tree platform.Tree) string {
	var b strings.Builder
	depth := make([]int, len(tree.Elements))
	for i, e := range tree.Elements {
		if e.Parent >= 0 {
			depth[i] = depth[e.Parent] + 1
		}
		fmt.Fprintf(&b, "%s%s %q value=%q %v %v %v %s\n", strings.Repeat("  ", depth[i]), e.Role, e.Name, e.Value, e.States, e.Bounds, e.Actions, e.Window)
	}
	fmt.Fprintf(&b, "hung %q, truncated %v\n", tree.Hung, tree.Truncated)
	return b.String()
}
