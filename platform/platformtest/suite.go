package platformtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Oracle is a real program on the desktop: a window with a text field, a button
// and a label, which tells what happened to it by ways of its own.
type Oracle interface {
	// Title is its window's, or a part of it.
	Title() string
	// Place returns where a widget is, in pixels of the desktop: "entry" or "button".
	Place(widget string) platform.Rect
	// FocusEntry returns the field the keyboard and empties it.
	FocusEntry()
	// Entry reads what the field holds.
	Entry() string
	// Clicks tells how often the button was pressed.
	Clicks() int
	// Clipboard reads the clipboard as another program does; ok is false if there is
	// no text. Copy puts text there.
	Clipboard() (text string, ok bool)
	Copy(text string)
}

// Keyboard is an Oracle on a desktop that can type only what the person's keyboard
// has: the rest must be refused whole there.
type Keyboard interface {
	Types(text string) bool
}

// within bounds each condition that the suite waits for.
const within = 60 * time.Second

// Test runs the suite. Parts that the desktop says are missing are held against
// the rules for that only.
func Test(t *testing.T, opener platform.DesktopOpener, oracle Oracle) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	desk, err := opener.Open(ctx)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if again, err := opener.Open(ctx); again != desk || err != nil {
		t.Errorf("opened twice, there are two desktops: %v", err)
	}
	if why := opener.Locked(ctx); why != "" {
		t.Errorf("the session of the test is locked: %s", why)
	}
	s := &suite{t, ctx, desk, oracle}
	t.Run("missing", s.missing)
	for _, part := range []struct {
		name string
		part platform.DesktopPart
		have bool
		test func(t *testing.T)
	}{
		{"screen", platform.PartScreen, desk.Screen != nil, s.screen},
		{"pointer", platform.PartInput, desk.Input != nil, s.pointer},
		{"typing", platform.PartInput, desk.Input != nil, s.typing},
		{"windows", platform.PartWindows, desk.Windows != nil, s.windows},
		{"clipboard", platform.PartClipboard, desk.Clipboard != nil, s.clipboard},
		{"elements", platform.PartAccessibility, desk.Accessibility != nil, s.elements},
		{"person", platform.PartPerson, desk.Person != nil, s.person},
		{"ended", "", true, s.ended},
	} {
		t.Run(part.name, func(t *testing.T) {
			if !part.have {
				why := "the desktop says that it is missing"
				if m := desk.Missing[part.part]; m != nil {
					why = m.What
				}
				t.Skip(why)
			}
			part.test(t)
		})
	}
}

type suite struct {
	t *testing.T
	//lint:ignore containedctx one test, as a value
	ctx    context.Context
	desk   *platform.Desktop
	oracle Oracle
}

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// reads waits until the field holds text.
func (s *suite) reads(t *testing.T, text string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if got = s.oracle.Entry(); got == text {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the field holds %q, want %q", got, text)
		}
	}
}

// Every part is there or says what to do.
func (s *suite) missing(t *testing.T) {
	d := s.desk
	for part, have := range map[platform.DesktopPart]bool{
		platform.PartScreen: d.Screen != nil, platform.PartInput: d.Input != nil, platform.PartPerson: d.Person != nil,
		platform.PartWindows: d.Windows != nil, platform.PartAccessibility: d.Accessibility != nil, platform.PartClipboard: d.Clipboard != nil,
	} {
		why := d.Missing[part]
		if have == (why != nil) {
			t.Errorf("%s: there is %v, missing %v", part, have, why)
		}
		if why != nil && (why.What == "" || why.Fix == "") {
			t.Errorf("%s is missing without a word of what or the fix: %+v", part, why)
		}
	}
	if d.Name == "" {
		t.Error("the desktop has no name")
	}
}

// The layout holds together, and frames show what is painted.
func (s *suite) screen(t *testing.T) {
	layout, err := s.desk.Screen.Layout(s.ctx)
	if err != nil || len(layout.Displays) == 0 {
		t.Fatalf("layout %+v: %v", layout, err)
	}
	primary := 0
	for _, d := range layout.Displays {
		if d.Primary {
			primary++
		}
		if d.ID == "" || d.Bounds.Empty() || d.Scale <= 0 {
			t.Errorf("display %+v", d)
		}
	}
	if primary != 1 {
		t.Errorf("%d displays are primary", primary)
	}
	area := s.oracle.Place("entry")
	changes, err := s.desk.Screen.Changes(s.ctx, area)
	if err != nil {
		t.Fatal(err)
	}
	s.oracle.FocusEntry()
	var before, after *platform.Frame
	await(t, "the field to be seen", func() bool {
		before, err = s.desk.Screen.Frame(s.ctx, area, false)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(before.Pix, func(b byte) bool { return b != before.Pix[0] })
	})
	if before.Area != area || before.Epoch != layout.Epoch || len(before.Pix) < before.Stride*(area.Height-1)+area.Width*4 {
		t.Errorf("a frame of %v, epoch %d, %d bytes by %d", before.Area, before.Epoch, len(before.Pix), before.Stride)
	}
	if s.desk.Input == nil {
		return
	}
	for empty := false; !empty; { // what changed before is not what is meant
		select {
		case <-changes:
		default:
			empty = true
		}
	}
	if _, err := s.desk.Input.Type(s.ctx, "MMMMMM"); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-changes:
		if r.Intersect(area) != r || r.Empty() {
			t.Errorf("a change of %v in %v", r, area)
		}
	case <-time.After(within):
		t.Error("nothing was said to change")
	}
	await(t, "the text to be seen", func() bool {
		after, err = s.desk.Screen.Frame(s.ctx, area, false)
		return err != nil || !bytes.Equal(after.Pix, before.Pix) && after.Seq != before.Seq
	})
	if err != nil {
		t.Error(err)
	}
}

// The pointer goes where it is sent, and its button reaches the program there.
func (s *suite) pointer(t *testing.T) {
	in := s.desk.Input
	at := s.oracle.Place("button").Center()
	for _, to := range []platform.Point{{X: 3, Y: 5}, at} {
		if err := in.Move(s.ctx, to); err != nil {
			t.Fatal(err)
		}
		if got, err := in.Pointer(s.ctx); got != to || err != nil {
			t.Errorf("moved to %v, is at %v: %v", to, got, err)
		}
	}
	n := s.oracle.Clicks()
	for _, down := range []bool{true, false} {
		if err := in.Button(s.ctx, platform.ButtonLeft, down); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the click", func() bool { return s.oracle.Clicks() == n+1 })
	if err := in.Button(s.ctx, "none such", true); err == nil {
		t.Error("a button that is none was pressed")
	}
}

// Text arrives as it is, whatever its characters; what cannot be typed is refused
// whole.
func (s *suite) typing(t *testing.T) {
	in := s.desk.Input
	for _, text := range []string{"plain Text, 42!", "Zwölf Boxkämpfer; Съешь ещё; ψυχοφθόρα; いろは; 視野無限廣; é漢😀👩‍🚀"} {
		s.oracle.FocusEntry()
		n, err := in.Type(s.ctx, text)
		if k, ok := s.oracle.(Keyboard); ok && !k.Types(text) {
			if n != 0 || !errors.Is(err, platform.ErrUntypable) {
				t.Errorf("%s: typed %d: %v", text, n, err)
			}
			continue
		}
		if err != nil || n != len([]rune(text)) {
			t.Fatalf("typed %d: %v", n, err)
		}
		s.reads(t, text)
	}
	s.oracle.FocusEntry()
	if n, err := in.Type(s.ctx, "ok\x00"); n != 0 || !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("a character that is none: %d, %v", n, err)
	}
	for _, name := range []string{"b", "Shift"} {
		for _, down := range []bool{true, false} {
			if err := in.Key(s.ctx, name, down); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, "the key", func() bool { return s.oracle.Entry() == "b" })
	if err := in.Key(s.ctx, "Control", true); err != nil {
		t.Fatal(err)
	}
	if err := in.Release(s.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Type(s.ctx, "c"); err != nil {
		t.Fatal(err)
	}
	await(t, "a plain c: Control was let go", func() bool { return s.oracle.Entry() == "bc" })
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := in.Type(ended, "d"); !errors.Is(err, context.Canceled) {
		t.Errorf("typing in a call that ended: %v", err)
	}
}

// The program's window is listed, activated and moved; one that is gone is gone.
func (s *suite) windows(t *testing.T) {
	find := func() (w platform.Window) {
		all, err := s.desk.Windows.List(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range all {
			if one.Z != i {
				t.Errorf("window %d of the list has z %d", i, one.Z)
			}
			if strings.Contains(one.Title, s.oracle.Title()) {
				w = one
			}
		}
		return w
	}
	await(t, "the window", func() bool { return find().Ref != "" })
	w := find()
	if w.Own || w.Bounds.Empty() || w.Bounds.Intersect(w.Content) != w.Content || len(w.Ref) > 256 {
		t.Errorf("window %+v", w)
	}
	if entry := s.oracle.Place("entry"); entry.Intersect(w.Content) != entry {
		t.Errorf("the field at %v is not in its window %v", entry, w.Content)
	}
	if err := s.desk.Windows.Activate(s.ctx, w.Ref); err != nil {
		t.Fatal(err)
	}
	await(t, "the focus", func() bool { return find().Focused })
	to := w.Bounds
	to.X, to.Y = to.X+20, to.Y+10
	if err := s.desk.Windows.Place(s.ctx, w.Ref, to); err != nil {
		t.Fatal(err)
	}
	await(t, "the window to move", func() bool { return find().Bounds != w.Bounds })
	if err := s.desk.Windows.Activate(s.ctx, "x11:0x7"); !errors.Is(err, platform.ErrGone) {
		t.Errorf("a window that is not there: %v", err)
	}
}

// The clipboard is the same for other programs, both ways, and is given back.
func (s *suite) clipboard(t *testing.T) {
	c := s.desk.Clipboard
	large := strings.Repeat("漢字 and more. ", 2000)
	for _, text := range []string{"é漢😀", large} {
		if err := c.Write(s.ctx, text, true, 0); err != nil {
			t.Fatal(err)
		}
		if got, _ := s.oracle.Clipboard(); got != text {
			t.Errorf("another program reads %d bytes of %d", len(got), len(text))
		}
		s.oracle.Copy("not ours: " + text)
		if got, err := c.Read(s.ctx); got != "not ours: "+text || err != nil {
			t.Errorf("read %d bytes of what another program copied: %v", len(got), err)
		}
	}
	if cleared, err := c.Clear(s.ctx); cleared || err != nil {
		t.Errorf("what another program copied was cleared: %v", err)
	}
	for _, none := range []string{"cut\x00off", "no \xff text"} {
		if err := c.Write(s.ctx, none, true, 0); err == nil {
			t.Errorf("%q was written as text", none)
		}
	}
	if got, _ := s.oracle.Clipboard(); got != "not ours: "+large {
		t.Error("what was refused took the place of another program's text")
	}
	if err := c.Write(s.ctx, "soon gone", true, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	await(t, "the clipboard to be cleared", func() bool { _, ok := s.oracle.Clipboard(); return !ok })
}

// The field and the button are elements, where the program says they are, and do
// what elements do.
func (s *suite) elements(t *testing.T) {
	a := s.desk.Accessibility
	find := func(role string) (found platform.Element) {
		tree, err := a.Tree(s.ctx, platform.TreeQuery{MaxElements: 2000, Bounds: true, PerApp: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range tree.Elements {
			if e.Parent >= i {
				t.Fatalf("element %d has the later parent %d", i, e.Parent)
			}
			if !slices.Contains(platform.Roles, e.Role) {
				t.Errorf("the role %q is no word of Roles", e.Role)
			}
			for _, state := range e.States {
				if !slices.Contains(platform.States, state) {
					t.Errorf("the state %q is no word of States", state)
				}
			}
			if e.Role == role && (e.Name == "button" || e.Name == "entry") {
				found = e
			}
		}
		return found
	}
	await(t, "the field's element", func() bool { return find("textbox").Ref != "" })
	entry, button := find("textbox"), find("button")
	if at := s.oracle.Place("entry"); !entry.Bounds.Has(at.Center()) {
		t.Errorf("the field is at %v, its element at %v", at, entry.Bounds)
	}
	if err := a.SetText(s.ctx, entry.Ref, "set é漢😀"); err != nil {
		t.Fatal(err)
	}
	await(t, "the text that was set", func() bool { return s.oracle.Entry() == "set é漢😀" })
	if text, err := a.Text(s.ctx, entry.Ref, 5); text != "set é" || err != nil {
		t.Errorf("5 characters of the text are %q: %v", text, err)
	}
	n := s.oracle.Clicks()
	if err := a.Do(s.ctx, button.Ref, platform.Press); err != nil {
		t.Fatal(err)
	}
	await(t, "the press", func() bool { return s.oracle.Clicks() == n+1 })
	if err := a.SetText(s.ctx, button.Ref, "x"); !errors.Is(err, platform.ErrCannot) {
		t.Errorf("a button's text was set: %v", err)
	}
}

// Input of this program itself is no person's doing.
func (s *suite) person(t *testing.T) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	touched := make(chan struct{}, 100)
	if err := s.desk.Person.Watch(ctx, "ctrl+alt+escape", func(time.Time) {
		select {
		case touched <- struct{}{}:
		default:
		}
	}, func() { t.Error("the hot key was pressed by nobody") }); err != nil {
		t.Fatal(err)
	}
	if s.desk.Input != nil {
		s.pointer(t)
		s.oracle.FocusEntry()
		if _, err := s.desk.Input.Type(s.ctx, "not a person 漢"); err != nil {
			t.Fatal(err)
		}
		s.reads(t, "not a person 漢")
	}
	select {
	case <-touched:
		t.Error("what this program did counts as a person's doing")
	default:
	}
}

// A call that ended gets nothing done.
func (s *suite) ended(t *testing.T) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for name, call := range map[string]func() error{
		"layout":    func() error { _, err := s.desk.Screen.Layout(ctx); return err },
		"windows":   func() error { _, err := s.desk.Windows.List(ctx); return err },
		"pointer":   func() error { return s.desk.Input.Move(ctx, platform.Point{X: 1, Y: 1}) },
		"clipboard": func() error { return s.desk.Clipboard.Write(ctx, "x", false, 0) },
	} {
		if s.desk.Screen == nil || s.desk.Windows == nil || s.desk.Input == nil || s.desk.Clipboard == nil {
			t.Skip("a part is missing")
		}
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s in a call that ended: %v", name, err)
		}
	}
}
