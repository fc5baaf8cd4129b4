package atspi

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// hidden is a GTK 4 window with entries that hide their text, in every way there is.
const hidden = `
import gi
gi.require_version("Gtk", "4.0")
from gi.repository import Gtk
def fill(app):
    window = Gtk.ApplicationWindow(application=app, title="hidden text")
    box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
    def add(name, entry):
        entry.update_property([Gtk.AccessibleProperty.LABEL], [name])
        box.append(entry)
        return entry
    add("shown", Gtk.Entry(text="plain"))
    many = add("many", Gtk.TextView())
    many.get_buffer().set_text("first\nsecond")
    add("filled", Gtk.Entry(visibility=False, text="hunter2"))
    add("starred", Gtk.Entry(visibility=False, text="hunter2")).set_invisible_char("*")
    add("blank", Gtk.Entry(visibility=False, text="hunter2")).set_invisible_char("\0")
    add("password", Gtk.PasswordEntry(text="hunter2"))
    window.set_child(box)
    window.present()
app = Gtk.Application(application_id="dev.handrail.hidden")
app.connect("activate", fill)
app.run()
`

// A field that hides its text is protected and its text is nobody's, whatever it hands out.
func TestHiddenText(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	file := filepath.Join(t.TempDir(), "hidden.py")
	if err := os.WriteFile(file, []byte(hidden), 0o600); err != nil {
		t.Fatal(err)
	}
	a := ears(t, d)
	app := d.AppTitled("hidden text", "/usr/bin/python3", file)
	for name, want := range map[string]string{"shown": "plain", "many": "first\nsecond", "filled": "", "starred": "", "blank": "", "password": ""} {
		e := find(t, a, app.PID, name, func(e platform.Element) bool { return e.Name == name })
		if one, err := a.Element(t.Context(), e.Ref); err != nil || one.Value != e.Value || !slices.Equal(one.States, e.States) {
			t.Errorf("%s read alone is %+v (%v), not %+v", name, one, err, e)
		}
		if hides := slices.Contains(e.States, "protected"); e.Value != want || hides != (want == "") {
			t.Errorf("%s shows %q, protected: %v", name, e.Value, hides)
		}
		if text, err := a.Text(t.Context(), e.Ref, 100); text != want || (err == nil) != (want != "") {
			t.Errorf("the text of %s is %q: %v", name, text, err)
		}
	}
}
