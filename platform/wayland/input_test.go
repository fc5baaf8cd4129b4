//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// inside returns the pixels of a fixture's widget.
func (w *tools) inside(f *desk.Fixture, widget string) platform.Rect {
	w.T.Helper()
	at, ok := w.Window(f.Window.Title)
	if !ok {
		w.T.Fatalf("no window %q", f.Window.Title)
	}
	b := f.Box(widget)
	_, places := w.outputs.known()
	return physical(places, platform.Rect{X: at.X + b.X, Y: at.Y + b.Y, Width: b.Width, Height: b.Height})
}

func clicks(f *desk.Fixture) (n int) {
	for _, e := range f.Events() {
		if e.Kind == "clicked" && e.Widget == "button" {
			n++
		}
	}
	return n
}

// A window on the second of two displays, which is enlarged, gets what is meant
// for it; and the pointer is found where another program left it.
func TestInputOnTwoDisplays(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true, Outputs: []string{
		"HEADLESS-1 resolution 800x600 position 0 0", "HEADLESS-2 resolution 1600x1400 position 800 20 scale 2"}})
	ctx := t.Context()
	other := stranger(t, w)
	f := w.Fixture(desk.GTK3, 5)
	w.Tell(fmt.Sprintf("[title=%q] floating enable, resize set width 700 px height 600 px, move absolute position 820 px 60 px", f.Window.Title))
	desk.Await(t, "the window on the second display", func() bool {
		at, ok := w.Window(f.Window.Title)
		return ok && at.X >= 800 && at.Width > 690
	})
	w.AwaitSettled(f)
	layout, err := w.screen.Layout(ctx)
	if err != nil || len(layout.Displays) != 2 || layout.Displays[1].Scale != 2 || layout.Displays[1].Bounds.Width != 1600 {
		t.Fatalf("layout %+v: %v", layout, err)
	}
	before := clicks(f)
	at := w.inside(f, "button").Center()
	if !layout.Displays[1].Bounds.Has(at) {
		t.Fatalf("the button is at %v", at)
	}
	press := func(b platform.Button) {
		t.Helper()
		for _, down := range []bool{true, false} {
			if err := w.input.Button(ctx, b, down); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.input.Move(ctx, at); err != nil {
		t.Fatal(err)
	}
	press(platform.ButtonLeft)
	desk.Await(t, "the click", func() bool { return clicks(f) == before+1 })

	for _, to := range []platform.Point{at, {X: 17, Y: 33}, layout.Displays[1].Bounds.Center(), {X: layout.Displays[1].Bounds.X, Y: layout.Displays[1].Bounds.Y}} {
		if err := other.Move(ctx, to); err != nil {
			t.Fatal(err)
		}
		if got, err := w.input.Pointer(ctx); got != to || err != nil {
			t.Errorf("another moved the pointer to %v, it is found at %v: %v", to, got, err)
		}
	}
	// While somebody watches, what was asked for is known until a person moves it.
	watch(t, w.person, "")
	armed(t, w.person)
	if err := w.input.Move(ctx, at); err != nil {
		t.Fatal(err)
	}
	if got, err := w.input.Pointer(ctx); got != at || err != nil {
		t.Errorf("moved to %v, is at %v: %v", at, got, err)
	}
	armed(t, w.person)
	elsewhere := platform.Point{X: 99, Y: 98}
	if err := other.Move(ctx, elsewhere); err != nil {
		t.Fatal(err)
	}
	if got, err := w.input.Pointer(ctx); got != elsewhere || err != nil {
		t.Errorf("a person moved it to %v, it is found at %v: %v", elsewhere, got, err)
	}
	// Looking for it changed nothing: the window still is what is clicked.
	if err := w.input.Move(ctx, at); err != nil {
		t.Fatal(err)
	}
	press(platform.ButtonLeft)
	desk.Await(t, "the second click", func() bool { return clicks(f) == before+2 })
	if err := w.input.Move(ctx, platform.Point{X: 700, Y: 5000}); err == nil {
		t.Error("the pointer was moved to where no display is")
	}
}

func TestKeysAndButtons(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	ctx := t.Context()
	f := w.Fixture(desk.GTK3, 200)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Tell(fmt.Sprintf("[title=%q] focus", f.Window.Title))
	f.Do(map[string]any{"do": "focus", "widget": "entry"})

	// Every named key is the key of that name.
	keyvals := map[string]string{"AltGr": "ISO_Level3_Shift", "ArrowDown": "Down", "Backspace": "BackSpace", "CapsLock": "Caps_Lock", "ContextMenu": "Menu",
		"Control": "Control_L", "Enter": "Return", "Meta": "Super_L", "NumLock": "Num_Lock", "Shift": "Shift_L", "Space": "space", "Alt": "Alt_L",
		"ArrowLeft": "Left", "ArrowRight": "Right", "ArrowUp": "Up", "PageDown": "Page_Down", "PageUp": "Page_Up", "PrintScreen": "Print", "ScrollLock": "Scroll_Lock"}
	for _, name := range platform.KeyNames {
		if name == "F10" || name == "ContextMenu" { // GTK opens its menus, which take the keys
			continue
		}
		want := keyvals[name]
		if want == "" {
			want = name
		}
		n := len(f.Events())
		do(w.input.Key(ctx, name, true))
		do(w.input.Key(ctx, name, false))
		e := f.AwaitAfter(n, name, func(e desk.Event) bool { return e.Kind == "key" && e.Down })
		if e.Keyval != want && !(want == "Page_Down" && e.Keyval == "Next") && !(want == "Page_Up" && e.Keyval == "Prior") {
			t.Errorf("%s arrived as %s", name, e.Keyval)
		}
	}
	do(w.input.Key(ctx, "CapsLock", true))
	do(w.input.Key(ctx, "CapsLock", false)) // the second time: off again
	do(w.input.Key(ctx, "NumLock", true))
	do(w.input.Key(ctx, "NumLock", false))

	// Chords: the modifiers are in force with the key, and over when it is let go.
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": "old text"})
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	for _, chord := range [][]string{{"Control", "a"}, {"Control", "Shift", "é"}, {"Alt", "x"}, {"Meta", "漢"}} {
		n := len(f.Events())
		for _, k := range chord {
			do(w.input.Key(ctx, k, true))
		}
		state := 0
		for _, k := range chord[:len(chord)-1] {
			state |= map[string]int{"Control": 4, "Shift": 1, "Alt": 8, "Meta": 64}[k]
		}
		last := chord[len(chord)-1]
		e := f.AwaitAfter(n, fmt.Sprint(chord), func(e desk.Event) bool { return e.Kind == "key" && e.Down && strings.EqualFold(e.Text, last) })
		if e.State&0xff != state {
			t.Errorf("%v arrived with the modifiers %#x, not %#x", chord, e.State, state)
		}
		do(w.input.Release(ctx))
		f.AwaitAfter(n, "the release of "+chord[0], func(e desk.Event) bool {
			return e.Kind == "key" && !e.Down && strings.HasPrefix(e.Keyval, strings.Replace(chord[0], "Meta", "Super", 1))
		})
	}
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	if n, err := w.input.Type(ctx, "Plain"); n != 5 || err != nil {
		t.Fatalf("typed %d: %v", n, err)
	}
	desk.Await(t, "plain text", func() bool { return f.Read("entry").Text == "Plain" })

	// While a modifier is held, no text is typed.
	do(w.input.Key(ctx, "Control", true))
	if n, err := w.input.Type(ctx, "x"); n != 0 || !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("typed %d with Control held: %v", n, err)
	}
	do(w.input.Release(ctx))

	// Buttons and the wheel.
	do(w.input.Move(ctx, w.inside(f, "list").Center()))
	for button, number := range map[platform.Button]int{platform.ButtonLeft: 1, platform.ButtonMiddle: 2, platform.ButtonRight: 3, platform.ButtonBack: 8, platform.ButtonForward: 9} {
		n := len(f.Events())
		do(w.input.Button(ctx, button, true))
		f.AwaitAfter(n, string(button)+" down", func(e desk.Event) bool { return e.Kind == "button" && e.Down && e.Button == number })
		do(w.input.Release(ctx))
		f.AwaitAfter(n, string(button)+" up", func(e desk.Event) bool { return e.Kind == "button" && !e.Down && e.Button == number })
	}
	n := len(f.Events())
	do(w.input.Scroll(ctx, 0, 3))
	desk.Await(t, "three clicks of the wheel", func() bool {
		down := 0
		for _, e := range f.Events()[n:] {
			if e.Kind == "scroll" && e.DY == 1 { // GTK tells each click once more, as the way that it scrolls
				down++
			}
		}
		return down == 3
	})
	if err := w.input.Key(ctx, "NoSuchKey", true); !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("a key that is none: %v", err)
	}
}

// More different characters than there are keys to lend, and all of a long text:
// nothing is lost, nothing is doubled.
func TestTypesEveryCharacter(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	f := w.Fixture(desk.GTK3, 1)
	w.Tell(fmt.Sprintf("[title=%q] focus", f.Window.Title))
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	var many []rune
	for i := range len(places3()) + 20 {
		many = append(many, rune(0x4e00+i*7))
		if i%10 == 0 {
			many = append(many, rune(0x1f600+i/10), rune('a'+i%26), rune('A'+i%26))
		}
	}
	for name, text := range map[string]string{"unlike": string(many), "alike": strings.Repeat("The quick brown Fox, 42! ", 8)} {
		f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
		f.Do(map[string]any{"do": "focus", "widget": "entry"})
		begun := time.Now()
		n, err := w.input.Type(t.Context(), text)
		if err != nil || n != len([]rune(text)) {
			t.Fatalf("typed %d: %v", n, err)
		}
		t.Logf("%s: %.0f characters a second", name, float64(n)/time.Since(begun).Seconds())
		desk.Await(t, name+" to be read back", func() bool { return f.Read("entry").Text == text })
	}
}

// A caller who gives up is told how much was typed, and that is what arrived.
func TestTypingIsGivenUp(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	file := filepath.Join(w.Home, "typed")
	w.AwaitWindow(w.Start("foot", "-T", "raw", "sh", "-c", `stty raw -echo && : >"$1" && exec cat >"$1"`, "sh", file), "raw")
	read := func() string {
		b, _ := os.ReadFile(file)
		return string(b)
	}
	desk.Await(t, "the terminal", func() bool { _, err := os.Stat(file); return err == nil })
	w.Tell("[title=raw] focus")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := strings.Repeat("abcdefgh", 1<<14) // far more than is typed until the first of it is read
	type answer struct {
		n   int
		err error
	}
	done := make(chan answer, 1)
	go func() {
		n, err := w.input.Type(ctx, text)
		done <- answer{n, err}
	}()
	desk.Await(t, "the first of it", func() bool { return read() != "" })
	cancel()
	got := <-done
	if !errors.Is(got.err, context.Canceled) || got.n == 0 || got.n >= len(text) {
		t.Fatalf("given up, %d were typed: %v", got.n, got.err)
	}
	desk.Await(t, "what was typed", func() bool {
		// The burst that was under way may have arrived beside those that are counted.
		now := read()
		return len(now) >= got.n && len(now) <= got.n+burst && strings.HasPrefix(text, now)
	})
}

func TestWindows(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	ctx := t.Context()
	t.Setenv("WAYLAND_DISPLAY", "nowhere") // of this process; programs get the session's
	pid, err := w.windows.Launch(ctx, "foot", []string{"-T", "launched; touch /tmp/no", "sh", "-c", "exec cat"})
	if err != nil || pid == 0 {
		t.Fatalf("launched %d: %v", pid, err)
	}
	changes, err := w.windows.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := w.Start("foot", "-T", "second", "sh", "-c", "exec cat")
	w.AwaitWindow(p, "second")
	find := func(title string) (found platform.Window) {
		t.Helper()
		all, err := w.windows.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Title == title {
				found = one
			}
		}
		return found
	}
	const first = "launched; touch /tmp/no"
	desk.Await(t, "both", func() bool { return find(first).Ref != "" && find("second").Ref != "" })
	if a := find(first); a.PID != pid || a.App != "foot" || a.Own || a.Bounds.Empty() {
		t.Errorf("the launched window: %+v", a)
	}
	await := func(what string, so func() bool) {
		t.Helper()
		for drained := false; !drained; {
			select {
			case <-changes:
			default:
				drained = true
			}
		}
		desk.Await(t, what, so)
	}
	if err := w.windows.Activate(ctx, find(first).Ref); err != nil {
		t.Fatal(err)
	}
	await("the focus", func() bool { return find(first).Focused && !find("second").Focused })
	to := platform.Rect{X: 100, Y: 120, Width: 500, Height: 300}
	if err := w.windows.Place(ctx, find(first).Ref, to); err != nil {
		t.Fatal(err)
	}
	await("its place", func() bool {
		a := find(first)
		return a.Bounds == to && a.Z == 0 && a.Content.Intersect(a.Bounds) == a.Content
	})
	if err := w.windows.Minimize(ctx, find(first).Ref); err != nil {
		t.Fatal(err)
	}
	await("it to be hidden", func() bool { a := find(first); return a.Minimized && a.Z == 1 })
	if err := w.windows.Activate(ctx, find(first).Ref); err != nil {
		t.Fatal(err)
	}
	await("it to be back", func() bool { a := find(first); return !a.Minimized && a.Focused })
	gone := find("second")
	w.Tell("workspace 2")
	await("both on a workspace that is not shown", func() bool { return find("second").Minimized })
	for len(changes) > 0 {
		<-changes
	}
	if err := w.windows.Close(ctx, gone.Ref); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changes:
	case <-time.After(desk.Within):
		t.Error("nothing was said to change")
	}
	<-p.Done
	desk.Await(t, "the end of the second", func() bool { return find("second").Ref == "" })
	for _, ref := range []string{gone.Ref, "sway:0", "x11:0x7", "sway:1] kill", ""} {
		if err := w.windows.Activate(ctx, ref); !errors.Is(err, platform.ErrGone) {
			t.Errorf("the window %q: %v", ref, err)
		}
	}
	if err := w.windows.Close(ctx, find(first).Ref); err != nil {
		t.Fatal(err)
	}
	if _, err := w.windows.Launch(ctx, "none such", nil); !errors.Is(err, platform.ErrNoApp) {
		t.Errorf("no such program: %v", err)
	}
}

// The same by the protocol that other compositors have.
func TestToplevels(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	ctx := t.Context()
	tops, err := NewWindows(ctx, WindowsOptions{Options: Options{Display: w.Wayland, Runtime: t.TempDir()}, Getenv: func(string) string { return "" }}, w.outputs)
	if err != nil || tops.sway != nil {
		t.Fatalf("without Sway's socket: %v", err)
	}
	changes, err := tops.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var started []*desk.Process
	for _, title := range []string{"one", "two"} {
		p := w.Start("foot", "-T", title, "sh", "-c", "exec cat")
		w.AwaitWindow(p, title)
		started = append(started, p)
	}
	list := func() (titles []string, all []platform.Window) {
		all, err := tops.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			titles = append(titles, one.Title)
		}
		return titles, all
	}
	desk.Await(t, "both, the focused first", func() bool {
		titles, all := list()
		return slices.Equal(titles, []string{"two", "one"}) && all[0].Focused && all[0].App == "foot" && !all[1].Focused
	})
	select {
	case <-changes:
	case <-time.After(desk.Within):
		t.Error("nothing was said to change")
	}
	_, all := list()
	one, two := all[1].Ref, all[0].Ref
	if err := tops.Activate(ctx, one); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the focus", func() bool { titles, all := list(); return titles[0] == "one" && all[0].Focused })
	if err := tops.Place(ctx, one, platform.Rect{Width: 5, Height: 5}); !errors.Is(err, platform.ErrCannot) {
		t.Errorf("placed: %v", err)
	}
	if err := tops.Close(ctx, two); err != nil {
		t.Fatal(err)
	}
	<-started[1].Done
	desk.Await(t, "the end of the second", func() bool { titles, _ := list(); return slices.Equal(titles, []string{"one"}) })
	for _, ref := range []string{two, "sway:3", "wlr:x"} {
		if err := tops.Activate(ctx, ref); !errors.Is(err, platform.ErrGone) {
			t.Errorf("the window %q: %v", ref, err)
		}
	}
}
