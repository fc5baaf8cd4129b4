package person

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/input"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

// openInput makes events on a desk.
func openInput(t *testing.T, d *desk.Desk) *input.Input {
	t.Helper()
	in, err := input.New(x11test.Within(t), wire.Options{Display: d.Display}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// Under Xephyr the outer server's XTEST comes out of the inner one's devices, as a
// person's doing does; the inner one's own XTEST is a program's.
func TestPerson(t *testing.T) {
	t.Parallel()
	outer := desk.StartX(t, desk.Options{NoBus: true})
	inner, window := outer.StartXephyr(desk.Options{NoBus: true})
	p, err := New(x11test.Within(t), wire.Options{Display: inner.Display})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	ctx, cancel := context.WithCancel(x11test.Within(t))
	defer cancel()
	var touched, stopped atomic.Int64
	if err := p.Watch(ctx, "ctrl+alt+escape", func(time.Time) { touched.Add(1) }, func() { stopped.Add(1) }); err != nil {
		t.Fatal(err)
	}

	// Programs that do something within are no person.
	in := openInput(t, inner)
	f := inner.Fixture(desk.GTK3, 3)
	inner.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	outer.Activate(window)
	outer.Xdotool("mousemove", "640", "400")
	desk.Await(t, "the pointer's coming", func() bool { return touched.Load() > 0 })
	// A move may come twice. A key that the person presses after it comes after all of
	// it, and its release is the last of what they did.
	outer.Xdotool("key", "z")
	f.Await("the person's key", func(e desk.Event) bool { return e.Kind == "text" && e.Text == "z" })
	if err := p.conn.Sync(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "its release", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.down) == 0
	})
	if err := p.conn.Sync(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	quiet := touched.Load()
	for _, to := range []platform.Point{{X: 10, Y: 10}, {X: 300, Y: 200}} {
		if err := in.Move(x11test.Within(t), to); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Type(x11test.Within(t), "no person é漢😀"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"Control", "Alt", "Escape"} {
		if err := in.Key(x11test.Within(t), key, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Release(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	inner.Xdotool("key", "a")
	f.Await("what was typed", func(e desk.Event) bool { return e.Kind == "text" && e.Text == "zno person é漢😀a" })
	if err := p.conn.Sync(x11test.Within(t)); err != nil { // events come before what is answered later
		t.Fatal(err)
	}
	if n := touched.Load() - quiet; n != 0 || stopped.Load() != 0 {
		t.Errorf("programs counted as a person %d times, stopped %d", n, stopped.Load())
	}

	for _, doing := range [][]string{{"mousemove_relative", "5", "5"}, {"click", "1"}, {"click", "4"}, {"key", "x"}, {"keydown", "Shift_L"}, {"keyup", "Shift_L"}} {
		before, begun := touched.Load(), time.Now()
		outer.Xdotool(doing...)
		desk.Await(t, "the person's "+doing[0], func() bool { return touched.Load() > before })
		t.Logf("%s was noticed within %v of xdotool's start", doing[0], time.Since(begun))
	}
	outer.Xdotool("key", "Escape")
	outer.Xdotool("key", "ctrl+Escape")
	if stopped.Load() != 0 {
		t.Error("half of the hot key stopped")
	}
	outer.Xdotool("keydown", "Control_R", "keydown", "Alt_L", "key", "Escape", "keyup", "Alt_L", "keyup", "Control_R")
	desk.Await(t, "the hot key", func() bool { return stopped.Load() > 0 })
	if err := p.conn.Sync(x11test.Within(t)); err != nil || stopped.Load() != 1 {
		t.Errorf("the hot key stopped %d times: %v", stopped.Load(), err)
	}

	cancel()
	desk.Await(t, "the end of watching", func() bool { return !p.selected.Load() })
	before := touched.Load()
	outer.Xdotool("mousemove_relative", "7", "7")
	if err := p.Watch(x11test.Within(t), "nonsense+q", nil, nil); !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("a hot key that is none: %v", err)
	}
	if touched.Load() != before {
		t.Error("touched after the end")
	}
}

// A server that cannot tell says so.
func TestPersonWithoutXInput(t *testing.T) {
	numbers, err := deviceNumbers(make([]byte, 32))
	if len(numbers) != 0 || err != nil {
		t.Errorf("no devices: %v, %v", numbers, err)
	}
	short := make([]byte, 40)
	short[8] = 3
	if _, err := deviceNumbers(short); err == nil {
		t.Error("a list that ends early was read")
	}
}

func TestHotKeys(t *testing.T) {
	for _, s := range []string{"ctrl+alt+escape", "Control+Alt+Escape", " meta + F12 ", "Pause", "ctrl+shift+é"} {
		if _, err := parseHotKey(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"ctrl+", "+", "hyper+x", "ctrl+alt+\x00"} {
		if _, err := parseHotKey(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func FuzzDevices(f *testing.F) {
	one := make([]byte, 44)
	one[8], one[32] = 1, 4
	f.Add(one)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 32 {
			return
		}
		if all, err := deviceNumbers(b); err != nil && all != nil {
			t.Error("devices beside an error")
		}
	})
}

func TestPersonInACallThatEnded(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	ctx, cancel := context.WithCancel(x11test.Within(t))
	cancel()
	if _, err := New(ctx, wire.Options{Display: d.Display}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
