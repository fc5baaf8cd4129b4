package person

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

// A person's chord is heard; the same chord of a program's, by this program's hands and by
// xdotool, is not, and neither is one of which a part is the person's.
func TestChords(t *testing.T) {
	t.Parallel()
	outer := desk.StartX(t, desk.Options{NoBus: true})
	inner, window := outer.StartXephyr(desk.Options{NoBus: true})
	p, err := New(x11test.Within(t), wire.Options{Display: inner.Display})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if err := p.TellsKeys(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(x11test.Within(t))
	defer cancel()
	var yes, no, touched atomic.Int64
	if err := p.Watch(ctx, "", func(time.Time) { touched.Add(1) }, func() {}); err != nil {
		t.Fatal(err)
	}
	err = p.Chords(ctx, []string{"Control+Alt+Shift+Y", "Control+Alt+Shift+N"}, func(chord int) { []*atomic.Int64{&yes, &no}[chord].Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	in := openInput(t, inner)
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			if err := in.Key(x11test.Within(t), key, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Release(x11test.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	heard := func(what string, wantYes, wantNo int64) {
		t.Helper()
		if err := p.conn.Sync(x11test.Within(t)); err != nil { // events come before what is answered later
			t.Fatal(err)
		}
		if yes.Load() != wantYes || no.Load() != wantNo {
			t.Errorf("%s: heard yes %d and no %d times", what, yes.Load(), no.Load())
		}
	}
	press("Control", "Alt", "Shift", "y")
	inner.Xdotool("key", "ctrl+alt+shift+y", "ctrl+alt+shift+n")
	heard("programs", 0, 0)

	outer.Activate(window)
	outer.Xdotool("mousemove", "640", "400")
	outer.Xdotool("keydown", "Control_L", "keydown", "Alt_L", "keydown", "Shift_L")
	desk.Await(t, "the person's keys", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.real) == 3
	})
	press("y")
	inner.Xdotool("key", "y")
	heard("a program's last key", 0, 0)
	outer.Xdotool("keyup", "Control_L", "keyup", "Alt_L", "keyup", "Shift_L")
	for _, key := range []string{"Control", "Alt", "Shift"} {
		if err := in.Key(x11test.Within(t), key, true); err != nil {
			t.Fatal(err)
		}
	}
	before := touched.Load()
	outer.Xdotool("key", "y")
	desk.Await(t, "the person's key", func() bool { return touched.Load() > before })
	if err := in.Release(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	heard("a program's other keys", 0, 0)

	outer.Xdotool("key", "ctrl+alt+shift+y")
	desk.Await(t, "the person's yes", func() bool { return yes.Load() == 1 })
	outer.Xdotool("key", "ctrl+alt+shift+n")
	desk.Await(t, "the person's no", func() bool { return no.Load() == 1 })
	heard("the person", 1, 1)
}

// A keyboard that a program made (uinput), and one of another machine, is not known to be a
// person's; a Bluetooth keyboard and a server's own are.
func TestSourceOf(t *testing.T) {
	dir := t.TempDir()
	for name, at := range map[string]string{"event1": "devices/pci0000:00/usb1/input/input3/event1", "event2": "devices/virtual/input/input7/event2", "event3": "devices/virtual/misc/uhid/0005:046D:B33C.0002/input/input9/event3"} {
		device := filepath.Join(dir, at)
		if err := os.MkdirAll(device, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(device, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for node, want := range map[string]source{"": sourceReal, "/dev/input/event1": sourceReal, "/dev/input/event2": sourceUnsure, "/dev/input/event3": sourceReal, "/dev/input/event4": sourceUnsure} {
		if got := sourceOf(dir, node); got != want {
			t.Errorf("%q is %d, want %d", node, got, want)
		}
	}
}
