package desk

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is a top-level window as xprop and xwininfo tell of it.
type Window struct {
	ID                  string // such as "0x1400007"
	Title, Class        string
	PID                 int
	X, Y, Width, Height int // of its content, in pixels of the desktop
}

// Windows lists the windows: the lowest first with a window manager, all visible
// children of the root without one.
func (d *Desk) Windows() []Window {
	d.T.Helper()
	var all []Window
	for _, id := range d.WindowIDs() {
		if w, ok := d.window(id); ok {
			all = append(all, w)
		}
	}
	return all
}

var hexID = regexp.MustCompile(`0x[0-9a-f]+`)

// WindowIDs lists their IDs only, which is quicker.
func (d *Desk) WindowIDs() []string {
	d.T.Helper()
	if stacked := d.Run("xprop", "-root", "_NET_CLIENT_LIST_STACKING"); strings.Contains(stacked, "window id #") {
		_, list, _ := strings.Cut(stacked, "#")
		return hexID.FindAllString(list, -1)
	} else if strings.Contains(d.Run("xprop", "-root", "_NET_SUPPORTING_WM_CHECK"), "window id #") {
		return nil // a manager without windows
	}
	var all []string
	for line := range strings.Lines(d.Run("xwininfo", "-root", "-children")) {
		f := strings.Fields(line)
		if len(f) > 2 && hexID.MatchString(f[0]) {
			all = append(all, f[0])
		}
	}
	slices.Reverse(all)
	return all
}

var (
	propTitle = regexp.MustCompile(`(?m)^_NET_WM_NAME\(UTF8_STRING\) = "(.*)"$`)
	propName  = regexp.MustCompile(`(?m)^WM_NAME\([A-Z_0-9]+\) = "(.*)"$`)
	propClass = regexp.MustCompile(`(?m)^WM_CLASS\(STRING\) = "(.*?)"`)
	propPID   = regexp.MustCompile(`(?m)^_NET_WM_PID\(CARDINAL\) = (\d+)$`)
	infoNum   = regexp.MustCompile(`(?m)^\s+(Absolute upper-left X|Absolute upper-left Y|Width|Height):\s+(-?\d+)`)
)

// window reads one; ok is false if it is gone or not shown.
func (d *Desk) window(id string) (w Window, ok bool) {
	d.T.Helper()
	props, err := d.Try("xprop", "-id", id, "_NET_WM_NAME", "WM_NAME", "WM_CLASS", "_NET_WM_PID")
	if err != nil {
		return w, false
	}
	info, err := d.Try("xwininfo", "-id", id)
	if err != nil || !strings.Contains(info, "IsViewable") {
		return w, false
	}
	w.ID = id
	if m := propTitle.FindStringSubmatch(props); m != nil {
		w.Title = unescape(m[1])
	} else if m := propName.FindStringSubmatch(props); m != nil {
		w.Title = unescape(m[1])
	}
	if m := propClass.FindStringSubmatch(props); m != nil {
		w.Class = m[1]
	}
	if m := propPID.FindStringSubmatch(props); m != nil {
		w.PID, _ = strconv.Atoi(m[1])
	}
	for _, m := range infoNum.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "Width":
			w.Width = n
		case "Height":
			w.Height = n
		case "Absolute upper-left X":
			w.X = n
		default:
			w.Y = n
		}
	}
	return w, true
}

func unescape(s string) string { return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(s) }

func ids(all []Window) []string {
	out := make([]string, len(all))
	for i, w := range all {
		out[i] = w.ID
	}
	return out
}

// App is a program with its window.
type App struct {
	*Process
	Window Window
	desk   *Desk
}

// App starts a program and waits until its window is shown.
func (d *Desk) App(name string, args ...string) *App {
	d.T.Helper()
	return d.AppTitled("", name, args...)
}

// AppTitled is App, waiting for a window with that text in its title.
func (d *Desk) AppTitled(title, name string, args ...string) *App {
	d.T.Helper()
	before := ids(d.Windows())
	p := d.Start(name, args...)
	return &App{p, d.newWindow(before, p, title), d}
}

// newWindow waits for a window that was not there before.
func (d *Desk) newWindow(before []string, p *Process, title string) Window {
	d.T.Helper()
	for deadline := time.Now().Add(Within); ; time.Sleep(20 * time.Millisecond) {
		for _, id := range d.WindowIDs() {
			if slices.Contains(before, id) {
				continue
			}
			if w, ok := d.window(id); ok && strings.Contains(w.Title, title) && (w.Title != "" || w.Class != "") {
				return w
			}
		}
		if p.Ended() {
			d.T.Fatalf("%s ended without a window (%v): %s", p.Name, p.Err, tail(p.out.String(), 4000))
		}
		if time.Now().After(deadline) {
			d.T.Fatalf("%s shows no window titled %q on %s; there are %+v of\n%s", p.Name, title, d.Display, d.Windows(),
				d.Run("xwininfo", "-root", "-tree"))
		}
	}
}

// Look reads the window anew; ok is false if it is gone or not shown.
func (a *App) Look() (Window, bool) {
	a.t.Helper()
	return a.desk.window(a.Window.ID)
}

// Title reads the window's title, "" if it is gone.
func (a *App) Title() string {
	a.t.Helper()
	w, _ := a.desk.window(a.Window.ID)
	return w.Title
}

// Active returns the ID of the active window, "" if there is none.
func (d *Desk) Active() string {
	d.T.Helper()
	out := d.Run("xprop", "-root", "_NET_ACTIVE_WINDOW")
	_, list, _ := strings.Cut(out, "#")
	id := hexID.FindString(list)
	if id == "0x0" {
		return ""
	}
	return id
}

// Activate makes a window the active one, and waits until it is.
func (d *Desk) Activate(id string) {
	d.T.Helper()
	Await(d.T, "window "+id+" to be active", func() bool {
		if d.Active() == id {
			return true
		}
		_, _ = d.Try("xdotool", "windowactivate", id)
		return false
	})
}

// Frame returns the width of a window's frame as the manager says: left, right,
// top, bottom.
func (d *Desk) Frame(id string) (left, right, top, bottom int) {
	d.T.Helper()
	_, values, _ := strings.Cut(d.Run("xprop", "-id", id, "_NET_FRAME_EXTENTS"), "= ")
	_, _ = fmt.Sscanf(values, "%d, %d, %d, %d", &left, &right, &top, &bottom)
	return
}
