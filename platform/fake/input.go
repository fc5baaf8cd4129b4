package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

type input struct{ d *Desktop }

var buttons = []platform.Button{
	platform.ButtonLeft, platform.ButtonMiddle, platform.ButtonRight, platform.ButtonBack, platform.ButtonForward,
}

// Pointer returns the pointer's place.
func (in *input) Pointer(ctx context.Context) (platform.Point, error) {
	if err := in.d.begin(ctx, "input.pointer"); err != nil {
		return platform.Point{}, err
	}
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	return in.d.pointer, nil
}

// Move moves the pointer; it stays on the displays, as it does everywhere.
func (in *input) Move(ctx context.Context, to platform.Point) error {
	if err := in.d.begin(ctx, "input.move"); err != nil {
		return err
	}
	in.d.mu.Lock()
	all := in.d.layout.Whole()
	in.d.pointer = platform.Point{X: min(max(to.X, all.X), all.X+all.Width-1), Y: min(max(to.Y, all.Y), all.Y+all.Height-1)}
	at := in.d.pointer
	in.d.mu.Unlock()
	in.d.tell(Event{Op: "input.move", At: at})
	return nil
}

// Button presses or releases. A left one that goes down and up on one element
// presses it, and focuses it and its window.
func (in *input) Button(ctx context.Context, b platform.Button, down bool) error {
	d := in.d
	if err := d.begin(ctx, "input.button"); err != nil {
		return err
	}
	if !slices.Contains(buttons, b) {
		return fmt.Errorf("fake: %.40q is no button: %w", string(b), platform.ErrUntypable)
	}
	d.mu.Lock()
	at := d.pointer
	from, held := d.buttons[b]
	if down {
		d.buttons[b] = at
	} else {
		delete(d.buttons, b)
	}
	var press func()
	if held && !down && b == platform.ButtonLeft {
		if i := d.hitLocked(at); i >= 0 && i == d.hitLocked(from) {
			press = d.pressLocked(i)
		}
	}
	if w := d.windowAtLocked(at); down && w >= 0 {
		win := d.windows[w]
		d.windows = slices.Insert(slices.Delete(d.windows, w, w+1), 0, win)
		d.focusWindowLocked(win.Ref)
		d.windowsChangedLocked()
		if i := d.hitLocked(at); i >= 0 {
			d.focusElementLocked(i)
		}
	}
	d.mu.Unlock()
	d.tell(Event{Op: "input.button", At: at, Button: b, Down: down})
	if press != nil {
		press()
	}
	return nil
}

func (d *Desktop) windowAtLocked(p platform.Point) int {
	return slices.IndexFunc(d.windows, func(w platform.Window) bool { return !w.Minimized && w.Bounds.Has(p) })
}

// Scroll turns the wheel.
func (in *input) Scroll(ctx context.Context, right, down int) error {
	if err := in.d.begin(ctx, "input.scroll"); err != nil {
		return err
	}
	in.d.mu.Lock()
	at := in.d.pointer
	in.d.mu.Unlock()
	in.d.tell(Event{Op: "input.scroll", At: at, Right: right, DownBy: down})
	return nil
}

// Key presses or releases a key. A character without Control, Alt or Meta is
// typed; Backspace takes one away; the rest is up to the script.
func (in *input) Key(ctx context.Context, name string, down bool) error {
	d := in.d
	if err := d.begin(ctx, "input.key"); err != nil {
		return err
	}
	if utf8.RuneCountInString(name) != 1 {
		i := slices.IndexFunc(platform.KeyNames, func(k string) bool { return strings.EqualFold(k, name) })
		if i < 0 {
			return fmt.Errorf("fake: no key is named %q: %w", name, platform.ErrUntypable)
		}
		name = platform.KeyNames[i]
	}
	d.mu.Lock()
	at := d.pointer
	d.keys = slices.DeleteFunc(d.keys, func(k string) bool { return k == name })
	if down {
		chord := slices.ContainsFunc(d.keys, func(k string) bool { return k == "Control" || k == "Alt" || k == "Meta" })
		shift := slices.Contains(d.keys, "Shift")
		d.keys = append(d.keys, name)
		switch {
		case chord:
		case name == "Backspace":
			d.editLocked(func(s string) string {
				_, n := utf8.DecodeLastRuneInString(s)
				return s[:len(s)-n]
			})
		case name == "Space":
			d.editLocked(func(s string) string { return s + " " })
		case utf8.RuneCountInString(name) == 1:
			c := name
			if shift {
				c = strings.Map(unicode.ToUpper, c)
			}
			d.editLocked(func(s string) string { return s + c })
		}
	}
	d.mu.Unlock()
	d.tell(Event{Op: "input.key", At: at, Key: name, Down: down})
	return nil
}

// Type types into the focused field.
func (in *input) Type(ctx context.Context, text string) (int, error) {
	d := in.d
	if err := d.begin(ctx, "input.type"); err != nil {
		return 0, err
	}
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("fake: the text is not UTF-8: %w", platform.ErrUntypable)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }) {
		return 0, fmt.Errorf("fake: the text has a control character: %w", platform.ErrUntypable)
	}
	d.mu.Lock()
	d.editLocked(func(s string) string { return s + text })
	at := d.pointer
	d.mu.Unlock()
	d.tell(Event{Op: "input.type", At: at, Text: text})
	return utf8.RuneCountInString(text), nil
}

// Release lets go of everything.
func (in *input) Release(ctx context.Context) error {
	d := in.d
	if err := d.begin(ctx, "input.release"); err != nil {
		return err
	}
	d.mu.Lock()
	clear(d.buttons)
	d.keys = nil
	at := d.pointer
	d.mu.Unlock()
	d.tell(Event{Op: "input.release", At: at})
	return nil
}

// Held returns the keys and buttons that are down.
func (d *Desktop) Held() (keys []string, buttons []platform.Button) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.buttons {
		buttons = append(buttons, b)
	}
	slices.Sort(buttons)
	return slices.Clone(d.keys), buttons
}

type person struct{ d *Desktop }

type watch struct {
	hotkey  string
	touched func(time.Time)
	stop    func()
}

// Watch delivers Touch and PressHotKey.
func (p *person) Watch(ctx context.Context, hotkey string, touched func(time.Time), stop func()) error {
	d := p.d
	if err := d.begin(ctx, "person.watch"); err != nil {
		return err
	}
	w := &watch{hotkey, touched, stop}
	d.mu.Lock()
	d.people = append(d.people, w)
	d.mu.Unlock()
	context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.people = slices.DeleteFunc(d.people, func(o *watch) bool { return o == w })
	})
	return nil
}

// Touch is the person using the mouse or the keyboard. It returns when every
// watcher was told.
func (d *Desktop) Touch() {
	for _, w := range d.watching() {
		w.touched(now())
	}
}

// PressHotKey is the person pressing the keys that stop everything; it tells
// whether anybody asked for them.
func (d *Desktop) PressHotKey() bool {
	any := false
	for _, w := range d.watching() {
		w.touched(now())
		if w.hotkey != "" {
			any = true
			w.stop()
		}
	}
	return any
}

// Watched tells whether anybody watches the person.
func (d *Desktop) Watched() bool { return len(d.watching()) > 0 }

func (d *Desktop) watching() []*watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.people)
}
