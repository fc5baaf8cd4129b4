package desktop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/desk"
)

// Each refusal, seen by breaking the thing that it reports: on a real X server, with programs that
// stand in the way. A refusal that other tests of this package or the suite cause is not caused
// again here; TestEveryRefusalIsSeen holds that none is left out.

// python is the system's, which has GTK.
const python = "/usr/bin/python3"

// above is a window that stays in front of all others, of the size that its
// arguments say.
const above = `import gi, sys
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk
w = Gtk.Window(title="In the way")
w.set_keep_above(True)
w.set_default_size(int(sys.argv[1]), int(sys.argv[2]))
w.set_decorated(False)
w.move(0, 0)
w.show_all()
Gtk.main()`

// aloof is a window that the manager never gives the keyboard's focus, so that
// whichever has it keeps it, with a field that is not empty: it is typed into.
const aloof = `import gi
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk
w = Gtk.Window(title="Aloof")
w.set_accept_focus(False)
w.add(Gtk.Entry(text="before"))
w.show_all()
Gtk.main()`

// greedy is a clipboard manager that puts something of its own in place of whatever
// is copied.
const greedy = `import gi
gi.require_version("Gtk", "3.0")
gi.require_version("Gdk", "3.0")
from gi.repository import Gdk, Gtk
c = Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD)
c.connect("owner-change", lambda c, e: c.set_text("mine", -1) if c.wait_for_text() != "mine" else None)
w = Gtk.Window(title="Manager")
w.show_all()
Gtk.main()`

// until waits for a refusal, of a call that may succeed before what it runs into is
// in its way.
func (b *table) until(code capabilities.Code, tool, args string) {
	b.t.Helper()
	var got error
	desk.Await(b.t, string(code)+" of "+tool, func() bool {
		ctx, cancel := context.WithTimeout(b.t.Context(), desk.Within)
		defer cancel()
		_, got = b.call(ctx, "a", tool, args)
		return capabilities.CodeOf(got) == code
	})
	b.t.Log(got)
}

// Another window stays in front of the element, or keeps the keyboard's focus.
func TestWindowInTheWay(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	f := d.Fixture(desk.GTK3, 3)
	b := realTable(t, only(d), Options{QuietTime: time.Millisecond})
	b.do("wait-for", fmt.Sprintf(`{"selector": "role:button && name:button", "state": "enabled", "timeout_ms": %d}`, desk.Within.Milliseconds()))
	way := d.AppTitled("In the way", python, "-c", above, "1200", "800")
	desk.Await(t, "the window to be in front", func() bool {
		all := d.WindowIDs()
		return all[len(all)-1] == way.Window.ID
	})
	n := len(f.Events())
	t.Log(b.refused(capabilities.CodeElementObscured, "act", `{"target": "role:button && name:button", "action": {"kind": "middle_click"}}`))
	f.Read("entry") // the program has had whatever came
	for _, e := range f.Events()[n:] {
		if e.Kind == "button" && e.Button == 2 {
			t.Errorf("something was clicked: %+v", e)
		}
	}
	way.Kill()

	// A window that never takes the focus is worked by the pointer all the same, also
	// one that was behind another.
	d.AppTitled("Aloof", python, "-c", aloof)
	d.Activate(f.Window.ID)
	entry := `window:"Aloof" >> role:textbox`
	b.do("wait-for", fmt.Sprintf(`{"selector": %q, "state": "enabled", "timeout_ms": %d}`, entry, desk.Within.Milliseconds()))
	t.Log(b.refused(capabilities.CodeElementObscured, "act", fmt.Sprintf(`{"target": %q, "action": {"kind": "type", "text": "x"}}`, entry)))
	t.Log(b.refused(capabilities.CodeActionUnsupported, "act", `{"target": "window:\"Aloof\"", "action": {"kind": "activate"}}`))
	if got := b.do("act", fmt.Sprintf(`{"target": %q, "action": {"kind": "right_click"}}`, entry)); got["route"] != routeInput {
		t.Errorf("the field was clicked so: %v", got)
	}
	if text := f.Read("entry").Text; text != "" {
		t.Errorf("%q was typed into the window that has the focus", text)
	}
}

// A program keeps the pointer in its window; another has every copy replaced.
func TestProgramsThatHoldOn(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true, NoWM: true})
	b := realTable(t, only(d), Options{QuietTime: time.Millisecond})
	release := d.HoldPointer()
	b.refused(capabilities.CodeExecutionFailed, "mouse", `{"action": "click", "x": 600, "y": 500}`)
	b.refused(capabilities.CodeOwnWindow, "mouse", `{"action": "click", "x": 50, "y": 50}`)
	release()
	b.do("mouse", `{"action": "click", "x": 600, "y": 500}`)

	d.AppTitled("Manager", python, "-c", greedy)
	b.until(capabilities.CodeExecutionFailed, "clipboard-write", `{"text": "p4ss"}`)
	if text, _ := d.Clipboard(); text != "mine" {
		t.Errorf("the clipboard holds %q", text)
	}
}

// A modifier that is held makes other characters of all that is typed.
func TestKeyboardInTheWay(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	b := realTable(t, only(d), Options{QuietTime: time.Millisecond})
	d.Xdotool("keydown", "Control_L")
	b.until(capabilities.CodeTextUntypable, "keyboard", `{"action": "type", "text": "a"}`)
	d.Xdotool("keyup", "Control_L")
	b.do("keyboard", `{"action": "type", "text": "a"}`)
	desk.Await(t, "the text", func() bool { return f.Read("entry").Text == "a" })

	cancelled, cancel := context.WithCancel(t.Context())
	late := timed{t.Context(), make(chan struct{})}
	for _, held := range []struct {
		key string // held for longer than the call
		//lint:ignore containedctx one row of a table
		ctx  context.Context
		end  func()
		code capabilities.Code
	}{{"b", late, func() { close(late.over) }, capabilities.CodeDeadlineExceeded}, {"c", cancelled, cancel, capabilities.CodeCancelled}} {
		done := make(chan error, 1)
		go func() {
			_, err := b.call(held.ctx, "a", "keyboard", fmt.Sprintf(`{"action": "press", "key": %q, "hold_ms": 10000}`, held.key))
			done <- err
		}()
		is := func(down bool) func(desk.Event) bool {
			return func(e desk.Event) bool { return e.Kind == "key" && e.Keyval == held.key && e.Down == down }
		}
		f.Await(held.key+" to go down", is(true))
		held.end()
		f.Await(held.key+" to come up", is(false))
		if err := <-done; capabilities.CodeOf(err) != held.code {
			t.Errorf("the call that held %s: %v, want %s", held.key, err, held.code)
		}
	}
}

// timed is the time of a call, which is over when the test says so.
type timed struct {
	//lint:ignore containedctx a context of our own
	context.Context
	over chan struct{}
}

func (c timed) Done() <-chan struct{} { return c.over }

func (c timed) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// The refusals of a device that one conversation holds, of an owner, of a missing program, and of a
// session that is without AT-SPI or locked.
func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoWM: true})
	b := realTable(t, only(d), Options{QuietTime: time.Millisecond, LaunchAllow: []string{"mousepad"}})
	b.refused(capabilities.CodeDeniedByNode, "act", `{"action": {"kind": "launch", "app": "xterm"}}`)
	if all := d.Windows(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	b.refused(capabilities.CodeNotSupported, "query", `{"selector": "ocr:\"Total\""}`)
	b.do("mouse", `{"action": "down", "x": 5, "y": 5}`)
	b.refused(capabilities.CodeConflict, "mouse", `{"action": "click", "x": 5, "y": 5}`) // it is down
	b.before(500*time.Millisecond, func(ctx context.Context) error {
		_, err := b.call(ctx, "other", "mouse", `{"action": "click", "x": 1, "y": 1}`)
		return otherThan(err, capabilities.CodeOverloaded)
	})
	b.do("mouse", `{"action": "up", "x": 5, "y": 5}`)

	unlock := d.LockSession()
	b.until(capabilities.CodeSessionLocked, "screenshot", `{"display": "primary"}`)
	unlock()
	desk.Await(t, "the end of the lock", func() bool {
		_, err := b.call(t.Context(), "a", "screenshot", `{"display": "primary"}`)
		return err == nil
	})

	alone := realTable(t, only(desk.StartX(t, desk.Options{NoBus: true, NoWM: true})), Options{QuietTime: time.Millisecond})
	if e := alone.refused(capabilities.CodeDesktopUnavailable, "query", `{"selector": "role:button"}`); e.Hint == "" {
		t.Errorf("without a hint: %+v", e)
	}
	alone.do("screenshot", `{"display": "primary"}`)
}

// Every code that the family refuses with is seen on a real desktop, here or in the
// suite.
func TestEveryRefusalIsSeen(t *testing.T) {
	code := regexp.MustCompile(`capabilities\.(Code[A-Z]\w+)`)
	in := func(patterns ...string) map[string]bool {
		all := map[string]bool{}
		for _, pattern := range patterns {
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %v", pattern, err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if pattern == "*.go" && strings.HasSuffix(file, "_test.go") {
					continue
				}
				for _, m := range code.FindAllSubmatch(text, -1) {
					all[string(m[1])] = true
				}
			}
		}
		return all
	}
	given, seen := in("*.go"), in("*_linux_test.go", "../../suite/desktop/*.go")
	if len(given) < 20 {
		t.Fatalf("only %d codes are found", len(given))
	}
	// It takes a desktop of 67 megapixels: TestHostileSizes has one that exists in memory only.
	seen["CodeResultTooLarge"] = true
	// The first of the stop keys is a person's doing, which ends a call before the last
	// one does; what is called from then on the guard refuses: see test/e2e.
	seen["CodeStopped"] = true
	for c := range given {
		if c != "CodeOf" && !seen[c] {
			t.Errorf("no test has a real desktop refuse with %s", c)
		}
	}
}
