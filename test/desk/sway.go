package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Sway is a running Wayland desktop: Sway without a screen, which draws by the
// processor. Of the Desk in it what asks an X server does not work.
type Sway struct {
	*Desk
	Wayland string // the path of the compositor's socket
	Socket  string // of Sway's own
}

// SwayOptions of StartSway. The zero value is one display of 1280x800 with D-Bus
// and AT-SPI.
type SwayOptions struct {
	// Outputs are the lines of the configuration for the displays, such as
	// "HEADLESS-1 resolution 800x600 scale 2"; there are as many as there are lines.
	Outputs []string
	// NoBus leaves D-Bus and so AT-SPI out.
	NoBus bool
}

// StartSway starts one for the length of the test.
func StartSway(t TB, o SwayOptions) *Sway {
	t.Helper()
	Need(t, "sway", "swaymsg", "wl-copy", "wl-paste", "grim", "dbus-daemon", "dbus-send")
	if len(o.Outputs) == 0 {
		o.Outputs = []string{"HEADLESS-1 resolution 1280x800 position 0 0"}
	}
	d := open(t, Options{})
	s := &Sway{Desk: d}
	for name, value := range map[string]string{"XDG_SESSION_TYPE": "wayland", "GDK_BACKEND": "wayland", "QT_QPA_PLATFORM": "wayland"} {
		d.Env = setenv(d.Env, name, value)
	}
	// Sway does not run as root: it gets an account that owns nothing but its folder.
	run := filepath.Join(d.dir, "sway")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatalf("%v", err)
	}
	command := []string{"sway"}
	if os.Getuid() == 0 {
		Need(t, "setpriv")
		const nobody = 65534
		if err := errors.Join(os.Chmod(d.dir, 0o711), os.Chown(run, nobody, nobody)); err != nil {
			t.Fatalf("%v", err)
		}
		command = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sway"}
	}
	ready := filepath.Join(run, "ready")
	config := "xwayland disable\ndefault_border normal\nfocus_follows_mouse no\nseat * hide_cursor 0\n"
	for _, line := range o.Outputs {
		config += "output " + line + "\n"
	}
	config += fmt.Sprintf("exec sh -c 'echo \"$WAYLAND_DISPLAY $SWAYSOCK\" >%s.new && mv %s.new %s'\n", ready, ready, ready)
	file := filepath.Join(run, "config")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatalf("%v", err)
	}
	cmd := d.Command(command[0], append(command[1:], "-c", file)...)
	for name, value := range map[string]string{
		"HOME": run, "XDG_RUNTIME_DIR": run, "TMPDIR": run, "WLR_BACKENDS": "headless", "WLR_LIBINPUT_NO_DEVICES": "1", "WLR_RENDERER": "pixman",
		"WLR_HEADLESS_OUTPUTS": fmt.Sprint(len(o.Outputs)),
	} {
		cmd.Env = setenv(cmd.Env, name, value)
	}
	cmd.Dir = run
	d.Server = d.spawn(cmd, nil)
	Await(t, "sway", func() bool {
		if d.Server.Ended() {
			t.Fatalf("sway ended: %v: %s", d.Server.Err, tail(d.Server.out.String(), 4000))
		}
		text, err := os.ReadFile(ready)
		if err != nil {
			return false
		}
		display, socket, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		s.Wayland, s.Socket = filepath.Join(run, display), socket
		return true
	})
	d.Env = setenv(setenv(d.Env, "WAYLAND_DISPLAY", s.Wayland), "SWAYSOCK", s.Socket)
	d.furnish(Options{NoWM: true, NoBus: o.NoBus})
	return s
}

// SwayWindow is a window as swaymsg tells of it.
type SwayWindow struct {
	ID                  int64
	Title, App          string
	PID                 int
	Focused, Visible    bool
	X, Y, Width, Height int // of its content, in Sway's units
}

type swayBox struct{ X, Y, Width, Height int }

type swayNode struct {
	ID       int64
	Name     string
	PID      int
	AppID    string `json:"app_id"`
	Focused  bool
	Visible  bool
	Rect     swayBox
	Inside   swayBox    `json:"window_rect"`
	Nodes    []swayNode `json:"nodes"`
	Floating []swayNode `json:"floating_nodes"`
}

// Windows lists the windows.
func (s *Sway) Windows() []SwayWindow {
	s.T.Helper()
	var root swayNode
	if err := json.Unmarshal([]byte(s.Run("swaymsg", "-r", "-t", "get_tree")), &root); err != nil {
		s.T.Fatalf("%v", err)
	}
	var all []SwayWindow
	var walk func(n swayNode)
	walk = func(n swayNode) {
		if n.PID != 0 {
			all = append(all, SwayWindow{
				n.ID, n.Name, n.AppID, n.PID, n.Focused, n.Visible, n.Rect.X + n.Inside.X, n.Rect.Y + n.Inside.Y, n.Inside.Width, n.Inside.Height,
			})
		}
		for _, child := range slices.Concat(n.Nodes, n.Floating) {
			walk(child)
		}
	}
	walk(root)
	return all
}

// Window looks for the window of a title; false if there is none.
func (s *Sway) Window(title string) (SwayWindow, bool) {
	s.T.Helper()
	for _, w := range s.Windows() {
		if strings.Contains(w.Title, title) {
			return w, true
		}
	}
	return SwayWindow{}, false
}

// Tell has Sway do something.
func (s *Sway) Tell(command string) {
	s.T.Helper()
	s.Run("swaymsg", command)
}

// AwaitWindow waits for the window of a title, and until its place is settled.
func (s *Sway) AwaitWindow(p *Process, title string) (w SwayWindow) {
	s.T.Helper()
	Await(s.T, "the window "+title, func() bool {
		if p.Ended() {
			s.T.Fatalf("%s ended without a window (%v): %s", p.Name, p.Err, tail(p.out.String(), 4000))
		}
		var ok bool
		w, ok = s.Window(title)
		return ok && w.Visible && w.Width > 0
	})
	return w
}

// Fixture starts a fixture program. Its boxes are places in its window: a program
// under Wayland does not know where that is.
func (s *Sway) Fixture(kit Toolkit, rows int, args ...string) *Fixture {
	s.T.Helper()
	f, p, title := s.startFixture(kit, rows, args...)
	f.App = &App{p, Window{Title: title}, s.Desk}
	s.AwaitWindow(p, title)
	f.Await("it to be ready", func(e Event) bool { return e.Kind == "ready" })
	s.AwaitSettled(f)
	return f
}

// AwaitSettled waits until a fixture program has the size that Sway gave it: what
// it says of its widgets' places is true then.
func (s *Sway) AwaitSettled(f *Fixture) {
	s.T.Helper()
	Await(s.T, "the program to have its window's size", func() bool {
		w, ok := s.Window(f.Window.Title)
		missing := w.Width - f.Box("entry").Width // the field is as wide as the window, but for margins
		return ok && missing >= 0 && missing < 64
	})
}

// Clipboard reads the clipboard by wl-paste; ok is false if nobody offers text.
func (s *Sway) Clipboard() (text string, ok bool) {
	s.T.Helper()
	text, err := s.Try("wl-paste", "--no-newline", "--type", "text/plain;charset=utf-8")
	return text, err == nil
}

// ClipboardTypes lists what the clipboard offers.
func (s *Sway) ClipboardTypes() []string {
	s.T.Helper()
	out, _ := s.Try("wl-paste", "--list-types")
	return strings.Fields(out)
}

// SetClipboard puts text into the clipboard by wl-copy, which stays to serve it.
func (s *Sway) SetClipboard(text string) *Process {
	s.T.Helper()
	file := filepath.Join(s.dir, "clip.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.T.Fatalf("%v", err)
	}
	p := s.Start("sh", "-c", `exec wl-copy --foreground --type "text/plain;charset=utf-8" <"$1"`, "sh", file)
	Await(s.T, "wl-copy to own the clipboard", func() bool {
		if p.Ended() {
			s.T.Fatalf("wl-copy ended: %v", p.Err)
		}
		got, ok := s.Clipboard()
		return ok && got == text
	})
	return p
}

// Shot is a picture by grim: the pixels as PPM has them, three bytes each.
func (s *Sway) Shot(args ...string) (pix []byte, width, height int) {
	s.T.Helper()
	out := s.Run("grim", append(append([]string{"-t", "ppm"}, args...), "-")...)
	var most int
	n, err := fmt.Sscanf(out, "P6\n%d %d\n%d\n", &width, &height, &most)
	size := width * height * 3
	if err != nil || n != 3 || len(out) < size {
		s.T.Fatalf("grim gave no picture: %v", err)
	}
	return []byte(out[len(out)-size:]), width, height
}

// HoldInput returns the seat a keyboard, for as long as the test runs: what a program
// that starts on a seat without one does with its first keys is its own affair.
func (s *Sway) HoldInput() *Process {
	s.T.Helper()
	Need(s.T, "wtype")
	p := s.Start("wtype", "-s", fmt.Sprint(int(time.Hour/time.Millisecond)), "")
	Await(s.T, "the keyboard of wtype", func() bool {
		return strings.Contains(s.Run("swaymsg", "-r", "-t", "get_inputs"), "wtype")
	})
	return p
}
