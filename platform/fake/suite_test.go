package fake_test

import (
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
	"github.com/handrail-dev/handrail/platform/platformtest"
)

// program is a window as a program would make it: it paints what its field holds,
// and takes its elements along when it is moved.
type program struct {
	d             *fake.Desktop
	window        string
	entry, button string
	clicks        int
}

func newProgram() *program {
	p := &program{d: fake.New()}
	p.window = p.d.AddWindow(platform.Window{Title: "Program", App: "Program", PID: 7, Bounds: platform.Rect{X: 100, Y: 100, Width: 400, Height: 300}})
	app := p.d.AddElement(platform.Element{Role: "application", Name: "Program", App: "Program", PID: 7})
	p.entry = p.d.AddElement(platform.Element{Role: "textbox", Name: "entry", App: "Program", PID: 7, Window: p.window,
		States: []string{"editable", "enabled", "focusable", "visible"}, Bounds: platform.Rect{X: 110, Y: 130, Width: 380, Height: 30}}, fake.Under(app))
	p.button = p.d.AddElement(platform.Element{Role: "button", Name: "button", App: "Program", PID: 7, Window: p.window,
		States: []string{"enabled", "focusable", "visible"}, Bounds: platform.Rect{X: 110, Y: 350, Width: 80, Height: 30}},
		fake.Under(app), fake.OnPress(func(*fake.Desktop) { p.clicks++ }))
	at := platform.Rect{X: 100, Y: 100}
	p.d.OnEvent = func(d *fake.Desktop, e fake.Event) {
		if e.Op == "windows.place" {
			for _, ref := range []string{p.entry, p.button} {
				d.EditElement(ref, func(el *platform.Element) { el.Bounds.X += e.Rect.X - at.X; el.Bounds.Y += e.Rect.Y - at.Y })
			}
			at = e.Rect
		}
		p.paint()
	}
	p.paint()
	return p
}

// paint draws the field: a mark for each character of its text, on white.
func (p *program) paint() {
	b := p.Place("entry")
	p.d.Paint(b, 0xffffff)
	for i := range min(len([]rune(p.Entry()))+1, b.Width/8) {
		p.d.Paint(platform.Rect{X: b.X + i*8 + 1, Y: b.Y + 5, Width: 5, Height: 12}, 0)
	}
}

func (p *program) Title() string { return "Program" }
func (p *program) Place(widget string) (at platform.Rect) {
	ref := p.entry
	if widget == "button" {
		ref = p.button
	}
	p.d.EditElement(ref, func(e *platform.Element) { at = e.Bounds })
	return at
}
func (p *program) FocusEntry() {
	p.d.EditElement(p.entry, func(e *platform.Element) {
		e.Value = ""
		e.States = []string{"editable", "enabled", "focusable", "focused", "visible"}
	})
	p.paint()
}
func (p *program) Entry() string { return p.d.TextOf(p.entry) }
func (p *program) Clicks() int   { return p.clicks }
func (p *program) Clipboard() (string, bool) {
	p.d.Elapse() // time passes when the test lets it
	text, _, _, _ := p.d.Copied()
	return text, text != ""
}
func (p *program) Copy(text string) { p.d.Copy(text) }

// The desktop of the handlers' tests keeps what every desktop promises.
func TestFacesTheSuite(t *testing.T) {
	p := newProgram()
	platformtest.Test(t, p.d, p)
}
