package desktop

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// formProgram shows labels and fields as programs do that know of no label relations. Its
// grid lists what is in it the other way round.
const formProgram = `exec /usr/bin/python3 - "$1" <<'END'
import sys, gi
gi.require_version('Gtk', '%s.0')
from gi.repository import Gtk, GLib
new = Gtk.Window() if %s == 4 else Gtk.Window(title='form')
new.set_title('form')
grid = Gtk.Grid(column_spacing=8, row_spacing=8)
for n, (text, field) in enumerate([('Name', Gtk.Entry()), ('Code', Gtk.Entry(visibility=False)), ('City', Gtk.Entry()), ('Size', Gtk.SpinButton.new_with_range(0, 9, 1))]):
    grid.attach(Gtk.Label(label=text), 0, n, 1, 1)
    grid.attach(field, 1, n, 1, 1)
loop = GLib.MainLoop()
if %s == 4:
    new.set_child(grid)
    new.present()
else:
    new.add(grid)
    new.show_all()
loop.run()
END`

// A form whose fields have no names is told as it is read, each field after its label.
func TestFormsAreInReadingOrder(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"3", "4"} {
		t.Run("gtk"+version, func(t *testing.T) {
			t.Parallel()
			d := desk.StartX(t, desk.Options{})
			d.AppTitled("form", d.Install("form", strings.ReplaceAll(formProgram, "%s", version)))
			b := realBench(t, d)
			var lines []string
			b.soon("the whole form", func() bool {
				m, _, err := b.call("snapshot", map[string]any{"outline": true})
				if err != nil {
					t.Fatal(err)
				}
				lines = nil
				for line := range strings.SplitSeq(m["outline"].(string), "\n") {
					role, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), " ")
					switch name, _, quoted := strings.Cut(strings.TrimPrefix(rest, `"`), `"`); {
					case role == "label" && quoted && strings.HasPrefix(rest, `"`):
						lines = append(lines, name)
					case fields[role]:
						lines = append(lines, role)
					}
				}
				return len(lines) >= 8
			})
			if got := strings.Join(lines, " "); !strings.HasPrefix(got, "Name textbox Code textbox City textbox Size spinbutton") {
				t.Errorf("the form reads %s", got)
			}
		})
	}
}
