package desk

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed testdata
var testdata embed.FS

var lookPath = exec.LookPath

// Toolkit names a fixture program.
type Toolkit string

// The fixture programs: one window each with the same widgets.
const (
	GTK3 Toolkit = "gtk3"
	GTK4 Toolkit = "gtk4"
	Qt   Toolkit = "qt"
	// Acts is a GTK 3 program with other widgets: "expander", "tree" with "branch 0"
	// and on, "area" with a context menu, "card" and "tray" to drag one onto the
	// other, "pane" with "line 0" and on, and "ask", which opens a dialog.
	Acts Toolkit = "acts"
)

// Box is a widget's place: of the desktop in GTK3 and Qt, of its window in GTK4,
// which does not know where that is.
type Box struct{ X, Y, Width, Height int }

// Event is one line that a fixture program wrote. Which fields are set depends on Kind: ready
// (Boxes), boxes (Boxes), key (Down, Keyval, Text, Code, State), button (Down, Button, X, Y,
// State), motion (X, Y), scroll (DX, DY), text (Widget, Text), clicked (Widget), toggled (Widget,
// On), value (Widget, Number), selected (Widget, Text), focus (Widget, On), menu (Text), state
// (answers a look: Text, Number, On, Boxes), close.
type Event struct {
	Kind   string         `json:"kind"`
	Widget string         `json:"widget"`
	Text   string         `json:"text"`
	Number float64        `json:"number"`
	On     bool           `json:"on"`
	Down   bool           `json:"down"`
	Keyval string         `json:"keyval"` // the key's name in X11, such as "Return"
	Code   int            `json:"code"`
	State  int            `json:"state"` // modifiers and buttons that are held, as in X11
	Button int            `json:"button"`
	X      float64        `json:"x"` // of the desktop; GTK4: of the window
	Y      float64        `json:"y"`
	DX     float64        `json:"dx"`
	DY     float64        `json:"dy"`
	Boxes  map[string]Box `json:"boxes"`
}

// Fixture is a running fixture program. Its widgets are named (also in the
// accessible tree, where the program can) "entry", "password", "text", "button",
// "check", "spin", "slider", "combo", "list" (rows "row 0" and on), "label" and
// the menu "File" with the items "Open" and "Quit".
type Fixture struct {
	*App
	Toolkit Toolkit
	file    string
	input   io.WriteCloser
}

// python is the system's, which its packages belong to; the first in PATH may be
// another.
const python = "/usr/bin/python3"

// needModule fails the test, naming the package, if the fixture cannot run.
func (d *Desk) needModule(kit Toolkit) {
	d.T.Helper()
	about := map[Toolkit][2]string{
		GTK3: {"import gi; gi.require_version('Gtk', '3.0'); from gi.repository import Gtk", "python3-gi gir1.2-gtk-3.0"},
		GTK4: {"import gi; gi.require_version('Gtk', '4.0'); from gi.repository import Gtk", "python3-gi gir1.2-gtk-4.0"},
		Qt:   {"from PyQt5 import QtWidgets", "python3-pyqt5"},
	}
	about[Acts] = about[GTK3]
	if _, err := os.Stat(python); err != nil {
		d.T.Fatalf("this test needs the package python3 (.ci/setup test installs it): %v", err)
	}
	if _, err := d.Try(python, "-c", about[kit][0]); err != nil {
		d.T.Fatalf("this test needs the packages %s (.ci/setup test installs them): %v", about[kit][1], err)
	}
}

// Fixture starts one; rows is the length of its list.
func (d *Desk) Fixture(kit Toolkit, rows int, args ...string) *Fixture {
	d.T.Helper()
	before := ids(d.Windows())
	f, p, title := d.startFixture(kit, rows, args...)
	f.App = &App{p, d.newWindow(before, p, title), d}
	f.Await("it to be ready", func(e Event) bool { return e.Kind == "ready" })
	return f
}

// startFixture starts the program; its window is not looked for.
func (d *Desk) startFixture(kit Toolkit, rows int, args ...string) (f *Fixture, p *Process, title string) {
	d.T.Helper()
	d.needModule(kit)
	d.fixed++
	base := filepath.Join(d.dir, fmt.Sprintf("%s-%d", kit, d.fixed))
	for _, name := range []string{string(kit) + ".py", "events.py"} {
		program, err := testdata.ReadFile("testdata/" + name)
		if err == nil {
			err = os.MkdirAll(base, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(base, name), program, 0o600)
		}
		if err != nil {
			d.T.Fatalf("%v", err)
		}
	}
	f = &Fixture{Toolkit: kit, file: filepath.Join(base, "events.jsonl")}
	title = fmt.Sprintf("desk %s %d", kit, d.fixed)
	cmd := d.Command(python, append([]string{filepath.Join(base, string(kit)+".py"), f.file, title, fmt.Sprint(rows)}, args...)...)
	var err error
	if f.input, err = cmd.StdinPipe(); err != nil {
		d.T.Fatalf("%v", err)
	}
	return f, d.spawn(cmd, nil), title
}

// Events returns everything that was written so far.
func (f *Fixture) Events() []Event {
	f.t.Helper()
	data, _ := os.ReadFile(f.file)
	var all []Event
	for _, line := range bytes.SplitAfter(data, []byte("\n")) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			f.t.Fatalf("%s wrote %q: %v", f.Toolkit, line, err)
		}
		all = append(all, e)
	}
	return all
}

// Await waits for an event among all that were written.
func (f *Fixture) Await(what string, is func(Event) bool) Event {
	f.t.Helper()
	return f.AwaitAfter(0, what, is)
}

// AwaitAfter waits for an event behind the first n.
func (f *Fixture) AwaitAfter(n int, what string, is func(Event) bool) Event {
	f.t.Helper()
	for deadline := time.Now().Add(Within); ; time.Sleep(10 * time.Millisecond) {
		all := f.Events()
		for _, e := range all[min(n, len(all)):] {
			if is(e) {
				return e
			}
		}
		if f.Ended() {
			f.t.Fatalf("%s ended (%v) while waiting for %s: %s", f.Toolkit, f.Err, what, tail(f.out.String(), 4000))
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("waited in vain for %s; the last events of %s are %+v", what, f.Toolkit, all[max(0, len(all)-20):])
		}
	}
}

// Do has the program do something itself: {"do":"text","widget":"entry","text":…},
// {"do":"title","text":…}, {"do":"hide"|"show"|"remove"|"disable"|"enable"|"focus","widget":…},
// {"do":"check","widget":…,"on":…}, {"do":"number","widget":…,"number":…},
// {"do":"rows","number":…}, {"do":"busy","number":seconds}, {"do":"quit"}. It returns when the
// program has read it.
func (f *Fixture) Do(order map[string]any) {
	f.t.Helper()
	f.ask(order)
}

// ask sends an order and waits for its answer.
func (f *Fixture) ask(order map[string]any) Event {
	f.t.Helper()
	n := len(f.Events())
	line, err := json.Marshal(order)
	if err == nil {
		_, err = f.input.Write(append(line, '\n'))
	}
	if err != nil {
		f.t.Fatalf("%v", err)
	}
	if order["do"] == "quit" {
		<-f.Done
		return Event{}
	}
	return f.AwaitAfter(n, fmt.Sprint("an answer to ", order), func(e Event) bool { return e.Kind == "state" })
}

// Read asks the program what a widget holds: text in Text, number in Number,
// checked in On.
func (f *Fixture) Read(widget string) Event {
	f.t.Helper()
	return f.ask(map[string]any{"do": "look", "widget": widget})
}

// Box asks where a widget is now.
func (f *Fixture) Box(widget string) Box {
	f.t.Helper()
	b, ok := f.ask(map[string]any{"do": "boxes"}).Boxes[widget]
	if !ok {
		f.t.Fatalf("%s has no %q on the screen", f.Toolkit, widget)
	}
	return b
}

// InstallQtEditor installs a small text editor written in Qt as "desk-qt-editor": it opens the file
// it is given and saves on Control+S. It returns where that is.
func (d *Desk) InstallQtEditor() string {
	d.T.Helper()
	d.needModule(Qt)
	program, err := testdata.ReadFile("testdata/editor_qt.py")
	file := filepath.Join(d.dir, "editor_qt.py")
	if err == nil {
		err = os.WriteFile(file, program, 0o600)
	}
	if err != nil {
		d.T.Fatalf("%v", err)
	}
	return d.Install("desk-qt-editor", fmt.Sprintf("exec %s %s \"$@\"", python, file))
}

// Install puts a shell script in front of the PATH of this desk, and returns where.
func (d *Desk) Install(name, script string) string {
	d.T.Helper()
	path := filepath.Join(d.dir, "bin", name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		d.T.Fatalf("%v", err)
	}
	return path
}
