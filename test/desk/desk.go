package desk

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Within bounds every wait; it is never what a test measures.
const Within = 60 * time.Second

// TB is what a desk needs of a test; testing.TB is one.
type TB interface {
	Helper()
	Cleanup(func())
	Failed() bool
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Monitor is one display of a desk, in pixels of the whole.
type Monitor struct {
	Name                string // such as "left"
	X, Y, Width, Height int
	MM                  int // its width in millimetres, which is what a display's scale shows in; default 96 dpi
}

// Options of StartX and StartXephyr. The zero value is one display of 1280x800
// with a window manager, D-Bus and AT-SPI.
type Options struct {
	// Size of the whole desktop, such as "1920x1080". Default: "1280x800".
	Size string
	// Monitors divide it; the first is the primary one. Default: one for all.
	Monitors []Monitor
	// NoWM leaves the window manager out, NoBus D-Bus and so AT-SPI.
	NoWM, NoBus bool
	// Env is added to the environment of everything on the desk, as NAME=VALUE.
	Env []string
	// Args are given to the X server besides.
	Args []string
}

// Desk is a running desktop. Its methods fail the test it was started for.
type Desk struct {
	T       TB
	Display string // such as ":42"
	Bus     string // address of the D-Bus session; "" without one
	A11y    string // address of the accessibility bus; "" without one
	Home    string
	Runtime string // XDG_RUNTIME_DIR
	// Env is the whole environment of a program on this desk.
	Env    []string
	Server *Process

	dir    string
	keeper *exec.Cmd
	hold   io.Closer // the keeper's input: it ends what is on the desk when this closes
	fixed  int       // number of fixtures
}

// StartX starts a desktop on an Xvfb of its own, for the length of the test.
func StartX(t TB, o Options) *Desk {
	t.Helper()
	Need(t, "Xvfb", "xprop", "xwininfo", "xdotool", "xrandr", "openbox", "dbus-daemon", "dbus-send")
	size := o.Size
	if size == "" {
		size = "1280x800"
	}
	d := open(t, o)
	d.serve(append([]string{
		"Xvfb", freeDisplay(t), "-displayfd", "3", "-screen", "0", size + "x24", "-dpi", "96", "-nolisten", "tcp", "-noreset",
	}, o.Args...))
	d.furnish(o)
	return d
}

// StartXephyr starts a desktop in a window on d: what is done to that window with
// d's mouse and keyboard (xdotool, say) comes out of the inner desktop's devices
// as a person's doing would. Window is that window's ID on d.
func (d *Desk) StartXephyr(o Options) (inner *Desk, window string) {
	d.T.Helper()
	Need(d.T, "Xephyr")
	size := o.Size
	if size == "" {
		size = "800x600"
	}
	before := ids(d.Windows())
	inner = open(d.T, o)
	inner.Env = setenv(inner.Env, "DISPLAY", d.Display)
	inner.serve(append([]string{
		"Xephyr", freeDisplay(d.T), "-displayfd", "3", "-screen", size + "x24", "-dpi", "96", "-nolisten", "tcp", "-noreset", "-no-host-grab",
	}, o.Args...))
	inner.furnish(o)
	w := d.newWindow(before, inner.Server, "")
	return inner, w.ID
}

// Need fails the test if a program is missing, naming its package; under -short
// it skips.
func Need(t TB, programs ...string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("X servers are started on Linux only")
	}
	if testing.Testing() && testing.Short() {
		t.Skipf("starts a desktop; run without -short")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			name := packages[p]
			if name == "" {
				name = p
			}
			t.Fatalf("this test needs %s: install the package %s (.ci/setup test installs all of them)", p, name)
		}
	}
}

// packages holds the Debian package of a program where it is not its name.
var packages = map[string]string{
	"Xvfb": "xvfb", "Xephyr": "xserver-xephyr", "xprop": "x11-utils", "xwininfo": "x11-utils", "xev": "x11-utils",
	"xrandr": "x11-xserver-utils", "xset": "x11-xserver-utils", "xmodmap": "x11-xserver-utils", "dbus-daemon": "dbus", "dbus-send": "dbus",
	"gtk3-demo": "gtk-3-examples", "gtk3-widget-factory": "gtk-3-examples", "gtk4-demo": "gtk-4-examples",
	"gtk4-widget-factory": "gtk-4-examples", "setxkbmap": "x11-xkb-utils", "swaymsg": "sway", "wl-copy": "wl-clipboard",
	"wl-paste": "wl-clipboard", "setpriv": "util-linux",
}

// keep ends everything whose environment has the mark $1, and removes the folder
// $2, when its input ends: when the desk is closed or the test's process died.
const keep = `trap '' INT TERM HUP
cat >/dev/null
# X servers that are asked to end remove their sockets.
kill -TERM $(for file in $(grep -lszxF "$1" /proc/[0-9]*/environ); do
	case $(cat "${file%environ}comm") in Xvfb|Xephyr) file=${file#/proc/}; echo "${file%/environ}" ;; esac
done) 2>/dev/null && sleep 0.2
tries=0
while [ $tries -lt 100 ]; do
	found=
	for file in $(grep -lszxF "$1" /proc/[0-9]*/environ); do
		pid=${file#/proc/}
		kill -9 "${pid%/environ}" 2>/dev/null && found=1
	done
	[ -n "$found" ] || break
	tries=$((tries + 1))
done
rm -rf "$2"`

// open makes the folders and the keeper. The folder's path is short: sockets'
// paths must be.
func open(t TB, o Options) *Desk {
	t.Helper()
	dir, err := os.MkdirTemp("", "desk")
	if err != nil {
		t.Fatalf("%v", err)
	}
	d := &Desk{T: t, dir: dir, Home: filepath.Join(dir, "home"), Runtime: filepath.Join(dir, "run")}
	for _, each := range []string{d.Home, d.Runtime, filepath.Join(dir, "bin")} {
		if err := os.Mkdir(each, 0o700); err != nil {
			t.Fatalf("%v", err)
		}
	}
	mark := "DESK_OF_TEST=" + rand.Text()
	d.keeper = exec.Command("sh", "-c", keep, "keep", mark, dir)
	if d.hold, err = d.keeper.StdinPipe(); err == nil {
		err = d.keeper.Start()
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(d.Close)
	d.Env = []string{
		mark, "HOME=" + d.Home, "XDG_RUNTIME_DIR=" + d.Runtime, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"),
		"TMPDIR=" + d.Runtime, "LANG=C.UTF-8",
		"XDG_SESSION_TYPE=x11", "GDK_BACKEND=x11", "QT_QPA_PLATFORM=xcb", "GSETTINGS_BACKEND=memory", "GIO_USE_VFS=local", "GTK_USE_PORTAL=0",
		// Drawing by the processor, without looking for a graphics card.
		"GSK_RENDERER=cairo", "LIBGL_ALWAYS_SOFTWARE=1", "QT_XCB_GL_INTEGRATION=none",
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
	}
	d.Env = append(d.Env, o.Env...)
	return d
}

// freeDisplay names a display that no server has, such as ":4242". A server that is
// started without a number takes the lowest one whose socket it can bind, and looks at
// no lock: the number of a server that just ended would be the next one's.
func freeDisplay(t TB) string {
	t.Helper()
	const first = 100 // below are the displays of people, and Xwayland's
	for range 100 {
		random, _ := rand.Int(rand.Reader, big.NewInt(50_000)) // never fails
		n := strconv.FormatInt(first+random.Int64(), 10)
		_, lock := os.Lstat("/tmp/.X" + n + "-lock")
		_, socket := os.Lstat("/tmp/.X11-unix/X" + n)
		if errors.Is(lock, fs.ErrNotExist) && errors.Is(socket, fs.ErrNotExist) {
			return ":" + n
		}
	}
	t.Fatalf("no number for an X server is free in /tmp/.X11-unix")
	return ""
}

// serve starts the X server, which writes its display's number to descriptor 3.
func (d *Desk) serve(command []string) {
	d.T.Helper()
	d.Server = d.spawn(d.Command(command[0], command[1:]...), func(line string) { d.Display = ":" + line })
	d.Env = setenv(d.Env, "DISPLAY", d.Display)
}

// furnish adds what stands on the server.
func (d *Desk) furnish(o Options) {
	d.T.Helper()
	if len(o.Monitors) > 0 {
		d.SetMonitors(o.Monitors)
	}
	if !o.NoBus {
		d.spawn(d.Command("dbus-daemon", "--session", "--nofork", "--nopidfile",
			"--print-address=3", "--address=unix:path="+filepath.Join(d.Runtime, "bus")),
			func(line string) { d.Bus = line })
		d.Env = setenv(d.Env, "DBUS_SESSION_BUS_ADDRESS", d.Bus)
		answer := d.Run("dbus-send", "--session", "--print-reply=literal", "--dest=org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus.GetAddress")
		d.A11y = strings.TrimSpace(answer)
	}
	if !o.NoWM {
		d.StartWM()
	}
}

// StartWM starts the window manager.
func (d *Desk) StartWM() *Process {
	d.T.Helper()
	// It says that it is there before it is: windows that are opened in between are never shown. It
	// starts its own programs when it serves.
	ready := filepath.Join(d.dir, "wm-"+rand.Text())
	p := d.Start("openbox", "--sm-disable", "--startup", "touch "+ready)
	Await(d.T, "the window manager", func() bool {
		if p.Ended() {
			d.T.Fatalf("openbox ended: %v: %s", p.Err, tail(p.out.String(), 4000))
		}
		_, err := os.Stat(ready)
		return err == nil
	})
	return p
}

// SetMonitors divides the desktop anew; the first is the primary display.
func (d *Desk) SetMonitors(all []Monitor) {
	d.T.Helper()
	for line := range strings.Lines(d.Run("xrandr", "--listmonitors")) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[0], ":") && f[0] != "Monitors:" {
			_, _ = d.Try("xrandr", "--delmonitor", strings.TrimLeft(f[1], "+*")) // the server's own cannot be deleted, and goes by itself
		}
	}
	for i, m := range all {
		output, name := "none", m.Name
		if i == 0 {
			output, name = "screen", "*"+m.Name
			if d.Server.Name == "Xephyr" {
				output = "default"
			}
		}
		mm := m.MM
		if mm == 0 {
			mm = m.Width * 254 / 960
		}
		d.Run("xrandr", "--setmonitor", name,
			fmt.Sprintf("%d/%dx%d/%d+%d+%d", m.Width, mm, m.Height, max(1, m.Height*mm/m.Width), m.X, m.Y), output)
	}
}

// Close ends everything that was started on the desk. It is called when the test
// ends; calling it before is how a test has a display server die.
func (d *Desk) Close() {
	if d.hold == nil {
		return
	}
	_ = d.hold.Close()
	_ = d.keeper.Wait()
	d.hold = nil
}

// Getenv returns a variable of the desk's environment.
func (d *Desk) Getenv(name string) string {
	for _, e := range d.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func setenv(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, e := range env {
		if !strings.HasPrefix(e, name+"=") {
			out = append(out, e)
		}
	}
	return append(out, name+"="+value)
}

// Await waits until it is so.
func Await(t TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Within); ; time.Sleep(10 * time.Millisecond) {
		if so() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("slow: waited %s in vain for %s", Within, what)
		}
	}
}

// firstLine reads one line that a starting program writes to say it is there.
func firstLine(r io.Reader) string {
	line, _ := bufio.NewReader(r).ReadString('\n')
	return strings.TrimSpace(line)
}

// DisplayNumber returns 42 for ":42".
func (d *Desk) DisplayNumber() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(d.Display, ":"))
	return n
}
