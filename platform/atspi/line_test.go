package atspi

import (
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// Readings go by a line of their own where an application offers one, and give the
// same as by the bus; when the line ends they go on by the bus.
func TestReadingByLine(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a, other := ears(t, d), ears(t, d)
	f := d.Fixture(desk.GTK3, 40)
	named(t, a, f.PID, "button", "button")
	named(t, other, f.PID, "button", "button")
	one := func(a *Accessibility) (p *app) {
		for _, p = range a.session.apps {
			if p.processID() == f.PID {
				return p
			}
		}
		t.Fatal("the application is not known")
		return nil
	}
	line := func(p *app) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.line != nil
	}
	desk.Await(t, "a line", func() bool {
		read(t, a, platform.TreeQuery{PID: f.PID})
		return line(one(a))
	})
	one(other).hangUp()
	same := func() {
		t.Helper()
		for _, bounds := range []bool{true, false} {
			q := platform.TreeQuery{PID: f.PID, Bounds: bounds}
			desk.Await(t, "both ways to give the same", func() bool { // but for what changes between
				return outline(read(t, a, q)) == outline(read(t, other, q))
			})
		}
	}
	same()
	p := one(a)
	p.mu.Lock()
	c := p.line
	p.mu.Unlock()
	_ = c.Close() // as when the application ends it
	same()
	if line(p) || line(one(other)) {
		t.Error("a line that ended is still there")
	}
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": "by the bus"})
	find(t, a, f.PID, "the text", func(e platform.Element) bool { return e.Value == "by the bus" })
	f.Kill()
	desk.Await(t, "no application", func() bool { return len(read(t, a, platform.TreeQuery{PID: f.PID}).Elements) == 0 })
}
