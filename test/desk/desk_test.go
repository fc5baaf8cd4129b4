package desk_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// six is text in six languages' scripts, and a character beyond the first plane.
const six = "Hello Grüße Привет こんにちは 漢字 مرحبا 😀"

func TestFixtures(t *testing.T) {
	t.Parallel()
	for _, kit := range []desk.Toolkit{desk.GTK3, desk.GTK4, desk.Qt} {
		t.Run(string(kit), func(t *testing.T) {
			t.Parallel()
			d := desk.StartX(t, desk.Options{})
			f := d.Fixture(kit, 50)
			d.Activate(f.Window.ID)
			f.Do(map[string]any{"do": "text", "widget": "entry", "text": six})
			if got := f.Read("entry").Text; got != six {
				t.Errorf("the entry has %q", got)
			}
			f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
			f.Do(map[string]any{"do": "focus", "widget": "entry"})
			d.Xdotool("type", "abc")
			f.Await("typed text", func(e desk.Event) bool { return e.Kind == "text" && e.Widget == "entry" && e.Text == "abc" })
			f.Await("the key", func(e desk.Event) bool { return e.Kind == "key" && e.Down && e.Keyval != "" && e.Text == "c" })

			b := f.Box("button")
			x, y := b.X+b.Width/2, b.Y+b.Height/2
			if kit == desk.GTK4 {
				w, _ := f.Look()
				x, y = x+w.X, y+w.Y
			}
			d.Xdotool("mousemove", fmt.Sprint(x), fmt.Sprint(y), "click", "1")
			f.Await("the click", func(e desk.Event) bool { return e.Kind == "clicked" && e.Widget == "button" })
			f.Await("the button", func(e desk.Event) bool { return e.Kind == "button" && e.Down && e.Button == 1 })
			if gx, gy := d.Pointer(); gx != x || gy != y {
				t.Errorf("the pointer is at %d,%d, not %d,%d", gx, gy, x, y)
			}
			f.Do(map[string]any{"do": "title", "text": "другое"})
			desk.Await(t, "the title", func() bool { return f.Title() == "другое" })
			f.Do(map[string]any{"do": "quit"})
		})
	}
}

func TestMonitorsAndClipboard(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{Size: "1600x900", NoBus: true, Monitors: []desk.Monitor{
		{Name: "left", Width: 1000, Height: 900}, {Name: "right", X: 1000, Y: 100, Width: 600, Height: 800},
	}})
	out := d.Run("xrandr", "--listmonitors")
	if !strings.Contains(out, "Monitors: 2") || !strings.Contains(out, "*left") || !strings.Contains(out, "600/") || !strings.Contains(out, "+1000+100") {
		t.Errorf("the monitors are %s", out)
	}
	owner := d.SetClipboard(six)
	if !slices.Contains(d.ClipboardTargets(), "UTF8_STRING") {
		t.Errorf("the clipboard's targets are %q", d.ClipboardTargets())
	}
	owner.Kill()
	if text, ok := d.Clipboard(); ok {
		t.Errorf("a clipboard without an owner has %q", text)
	}
}

// An act on Xephyr's window comes out of the inner desktop.
func TestXephyr(t *testing.T) {
	t.Parallel()
	outer := desk.StartX(t, desk.Options{NoBus: true})
	inner, window := outer.StartXephyr(desk.Options{NoBus: true})
	term, lines := inner.Xterm()
	inner.Activate(term.Window.ID)
	outer.Activate(window)
	desk.Await(t, "typed text", func() bool {
		outer.Xdotool("type", "--window", "0", "person\n")
		return slices.Contains(lines(), "person")
	})
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	for name, title := range map[string]string{"mousepad": "Mousepad", "gnome-calculator": "Calculator", "gtk3-widget-factory": "", "gtk4-widget-factory": ""} {
		a := d.App(name)
		if !strings.Contains(a.Window.Title, title) || a.Window.Width == 0 || a.Window.PID != a.PID {
			t.Errorf("%s (%d) shows %+v", name, a.PID, a.Window)
		}
		a.Freeze()
		a.Thaw()
		a.Kill()
	}
	c := d.Chromium("<title>one</title><script>document.title = 'two ' + innerWidth</script>")
	desk.Await(t, "the page's title", func() bool { return strings.HasPrefix(c.Title(), "two ") })
}

// The number of a killed server is nobody else's while its test runs.
func TestKilledServersNumberStaysTaken(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true, NoWM: true})
	d.KillServer()
	if next := desk.StartX(t, desk.Options{NoBus: true, NoWM: true}); next.Display == d.Display {
		t.Errorf("the next server has the killed one's number, %s", d.Display)
	}
	if _, err := d.Try("Xvfb", d.Display, "-nolisten", "tcp"); err == nil || !strings.Contains(err.Error(), "already active") {
		t.Errorf("a server that is given the killed one's number: %v", err)
	}
}

// killed is what TestNothingOutlivesATest runs: a test that is killed.
const killed = "HANDRAIL_DESK_KILLED"

func TestNothingOutlivesATest(t *testing.T) {
	if os.Getenv(killed) != "" {
		d := desk.StartX(t, desk.Options{})
		d.App("gtk3-demo")
		fmt.Printf("mark %s\n", d.Env[0])
		os.Stdout.Sync()
		_ = exec.Command("kill", "-9", fmt.Sprint(os.Getpid())).Run()
	}
	t.Parallel()
	desk.Need(t, "Xvfb")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestNothingOutlivesATest$", "-test.v")
	cmd.Env = append(os.Environ(), killed+"=1")
	out, err := cmd.Output()
	if err == nil {
		t.Fatalf("it was not killed: %s", out)
	}
	_, mark, _ := strings.Cut(string(out), "mark ")
	mark, _, _ = strings.Cut(mark, "\n")
	if !strings.HasPrefix(mark, "DESK_OF_TEST=") {
		t.Fatalf("no mark in %q", out)
	}
	desk.Await(t, "what was started to end", func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range files {
			if env, err := os.ReadFile(file); err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark) {
				return false
			}
		}
		return true
	})
}
