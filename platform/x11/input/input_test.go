package input

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/keyboard"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

// Keys by name, chords, and letting go of what is held.
func TestKeys(t *testing.T) {
	t.Parallel()
	nobody := x11test.Bare(t, "640x480")
	in := openInput(t, nobody)
	for _, name := range platform.KeyNames {
		if err := in.Key(x11test.Within(t), name, true); err != nil {
			t.Errorf("%s down: %v", name, err)
		}
		if err := in.Key(x11test.Within(t), strings.ToUpper(name), false); err != nil {
			t.Errorf("%s up: %v", name, err)
		}
	}
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	in = openInput(t, d)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": "gone"})
	chord := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := in.Key(x11test.Within(t), name, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Release(x11test.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	chord("Control", "a")
	chord("?")
	chord("A")
	chord("漢")
	f.Await("the characters of keys", func(e desk.Event) bool { return e.Kind == "text" && e.Text == "?A漢" })
	if state, err := in.xkb.State(x11test.Within(t)); err != nil || state.Held != 0 {
		t.Errorf("after Release modifiers %#x are held: %v", state.Held, err)
	}
	if err := in.Key(x11test.Within(t), "Hyperspace", true); !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("a key that is none: %v", err)
	}
}

// Layouts with AltGr and with other scripts, CapsLock and keys that are held.
func TestTypeWhateverTheKeyboard(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	in := openInput(t, d)
	const text = "Aa Zz @€{}~ ß é È ù Жж Ωω 漢😀 \"quoted\" 1234567890"
	read, clear := func() string { return f.Read("entry").Text }, func() { f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""}) }
	for _, layout := range []string{"us", "de", "fr", "ru", "us,ru", "gr", "cz", "dvorak", "jp"} {
		d.Run("setxkbmap", layout)
		typed(t, in, layout, text, read, clear)
	}
	d.Run("setxkbmap", "us")
	for _, lock := range []string{"Caps_Lock", "Num_Lock"} {
		d.Xdotool("key", lock)
		before, err := in.xkb.State(x11test.Within(t))
		if err != nil || before.Locked == 0 {
			t.Fatalf("%s does not lock: %v", lock, err)
		}
		typed(t, in, lock, text, read, clear)
		if after, err := in.xkb.State(x11test.Within(t)); err != nil || after.Locked != before.Locked {
			t.Errorf("%s was %#x and is %#x: %v", lock, before.Locked, after.Locked, err)
		}
		d.Xdotool("key", lock)
	}
	d.Xdotool("keydown", "Control_L")
	if n, err := in.Type(x11test.Within(t), "a"); n != 0 || !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("while Control is held: %d, %v", n, err)
	}
	d.Xdotool("keyup", "Control_L")
	typed(t, in, "released", text, read, clear)
}

// A key that was lent is given back: when typing rests, at the end, and for a program that was
// killed.
func TestSpareKeysComeBack(t *testing.T) {
	if display := os.Getenv("HANDRAIL_TEST_KILLED"); display != "" {
		in, err := New(context.Background(), wire.Options{Display: display}, nil)
		if err == nil {
			_, err = in.Type(context.Background(), "漢字")
		}
		if err != nil {
			panic(err)
		}
		// Its turn never ends, so that nothing is given back before it is killed.
		_ = in.do(context.Background(), func(context.Context) error { os.Stdout.WriteString("typed\n"); select {} })
	}
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	keyboard := func() string { return d.Run("xmodmap", "-pke") }
	before := keyboard()
	in := openInput(t, d)
	if _, err := in.Type(x11test.Within(t), "漢字é"); err != nil {
		t.Fatal(err)
	}
	// While it is somebody's turn nothing is given back, however long that takes; it is
	// tried again afterwards.
	if err := in.do(x11test.Within(t), func(context.Context) error {
		if keyboard() == before {
			t.Error("nothing was lent: this test proves nothing")
		}
		in.idle.Stop()
		in.restoreIn(0)
		<-time.After(2 * askedAfter) // so that it has given up
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the keyboard as it was", func() bool { return keyboard() == before })
	if _, err := in.Type(x11test.Within(t), "漢字é"); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if keyboard() != before {
		t.Error("closing did not give back what was lent")
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestSpareKeysComeBack$")
	cmd.Env = append(slices.Clone(d.Env), "HANDRAIL_TEST_KILLED="+d.Display)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, _ := out.Read(buf)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if string(buf[:n]) != "typed\n" {
		t.Fatalf("the child said %q", buf[:n])
	}
	if keyboard() == before {
		t.Fatal("the killed one left nothing: this test proves nothing")
	}
	// A program will read by the keyboard of then what it has not read yet.
	desk.Await(t, "what the killed one typed", func() bool { return f.Read("entry").Text == "漢字é漢字é漢字" })
	next := openInput(t, d)
	if keyboard() != before {
		t.Error("the next one did not restore what a killed one left")
	}
	typed(t, next, "next", "漢é字", func() string { return strings.TrimPrefix(f.Read("entry").Text, "漢字é漢字é漢字") },
		func() {})
}

// However many characters are lent, programs read the keyboard anew once, and once when
// they are given back. Where a server does not take that, it is done key by key.
func TestSpareKeysAtOnce(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	in := openInput(t, d)
	const text = "漢字仮名交文日本"
	read, clear := func() string { return f.Read("entry").Text }, func() { f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""}) }
	giveBack := func() {
		t.Helper()
		if err := in.do(x11test.Within(t), in.giveBack); err != nil {
			t.Fatal(err)
		}
	}
	typed(t, in, "first", text, read, clear)
	giveBack()
	mapped := d.Run("xmodmap", "-pke")
	other := x11test.Dial(t, d)
	var told atomic.Int64
	other.Hook(func(e wire.Event) {
		if e.Code == xproto.MappingNotify {
			told.Add(1)
		}
	})
	for _, device := range []uint16{in.spare.device, keyboard.Core} {
		in.spare.device = device
		before := told.Load()
		typed(t, in, "again", text, read, clear)
		giveBack()
		if err := other.Sync(x11test.Within(t)); err != nil {
			t.Fatal(err)
		}
		n, want := told.Load()-before, int64(2)
		if device == keyboard.Core {
			want *= int64(len([]rune(text)))
		}
		if n != want {
			t.Errorf("programs were told %d times of another keyboard, want %d", n, want)
		}
		if d.Run("xmodmap", "-pke") != mapped {
			t.Error("the keyboard is not as it was")
		}
	}
}

// A keyboard that is read anew while characters are lent does not have them by itself.
func TestLentKeysAreNotTheKeyboards(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	in := openInput(t, d)
	read, clear := func() string { return f.Read("entry").Text }, func() { f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""}) }
	lent := string([]rune(han(300))[:len(in.spare.free)])
	others := string([]rune(han(300))[len(in.spare.free):][:len(in.spare.free)])
	typed(t, in, "lent", lent, read, clear)
	free := in.spare.free
	in.foreign.Add(1) // another keyboard's turn, or a layout that somebody chose
	typed(t, in, "lent anew", others+lent, read, clear)
	if err := in.do(x11test.Within(t), in.giveBack); err != nil {
		t.Fatal(err)
	}
	if in.foreign.Add(1); len(free) != 0 || in.do(x11test.Within(t), in.learn) != nil || len(in.spare.free) != len([]rune(lent)) {
		t.Errorf("%d keys are free, %d were", len(in.spare.free), len([]rune(lent)))
	}
}

// A keyboard that another program changes after it was read, and before the first key,
// is noticed: other characters would arrive.
func TestTypeNoticesAnotherKeyboard(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	in := openInput(t, d)
	other := x11test.Dial(t, d)
	atom := func(name string) xproto.Atom {
		a, err := other.Atom(x11test.Within(t), name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	protocols, ping := atom("WM_PROTOCOLS"), atom("_NET_WM_PING")
	window := func() xproto.Window {
		w := x11test.NewWindow(t, other, platform.Rect{Width: 100, Height: 100})
		if err := other.Do(x11test.Within(t), func() error {
			xproto.ChangeProperty(other.X, xproto.PropModeReplace, w, protocols, xproto.AtomAtom, 32, 1, binary.LittleEndian.AppendUint32(nil, uint32(ping)))
			return xproto.SetInputFocusChecked(other.X, xproto.InputFocusParent, w, xproto.TimeCurrentTime).Check()
		}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	// The program answers pings. In the second text the first one's window is asked
	// whether it is done with what was lent, after the keyboard was read.
	var changes atomic.Bool
	pings := other.Subscribe(t.Context(), func(e wire.Event) bool { return e.Code == xproto.ClientMessage })
	first := window()
	go func() {
		for e := range pings {
			m := xproto.ClientMessageEventNew(e.Data).(xproto.ClientMessageEvent)
			if m.Window == first && changes.CompareAndSwap(true, false) {
				b := []xproto.Keysym{'b', 'B'}
				xproto.ChangeKeyboardMapping(other.X, 1, 38, 2, b) // the key of a
			}
			m.Window = other.Root()
			xproto.SendEvent(other.X, false, other.Root(), xproto.EventMaskSubstructureNotify|xproto.EventMaskSubstructureRedirect, string(m.Bytes()))
		}
	}()
	if _, err := in.Type(x11test.Within(t), "漢"); err != nil {
		t.Fatal(err)
	}
	// Two programs are two connections.
	third := x11test.Dial(t, d)
	w := x11test.NewWindow(t, third, platform.Rect{Width: 100, Height: 100})
	if err := third.Do(x11test.Within(t), func() error {
		return xproto.SetInputFocusChecked(third.X, xproto.InputFocusParent, w, xproto.TimeCurrentTime).Check()
	}); err != nil {
		t.Fatal(err)
	}
	changes.Store(true)
	n, err := in.Type(x11test.Within(t), "a字a")
	if changes.Load() {
		t.Fatal("the first program was not asked: this test proves nothing")
	}
	if err == nil || !strings.Contains(err.Error(), "layout was changed") {
		t.Errorf("typed %d characters by the keyboard of before: %v", n, err)
	}
}

// A program that stands still is called so, and what was lent stays until it goes on.
func TestTypeIntoFrozen(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "entry"})
	in := openInput(t, d)
	// Typing elsewhere is not held up by it.
	few := han(5)
	f.Freeze()
	if n, err := in.Type(x11test.Within(t), few); n != 5 || err != nil {
		t.Errorf("typed %d into a program that is to come by it later: %v", n, err)
	}
	other := d.Fixture(desk.GTK3, 3)
	d.Activate(other.Window.ID)
	other.Do(map[string]any{"do": "focus", "widget": "entry"})
	typed(t, in, "another", han(60), func() string { return other.Read("entry").Text }, func() {})
	f.Thaw()
	d.Activate(f.Window.ID)
	desk.Await(t, "what was typed before", func() bool { return f.Read("entry").Text == few })
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})

	patience := func(d time.Duration) {
		t.Helper()
		if err := in.do(x11test.Within(t), func(context.Context) error { in.settle.hung = d; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	text := han(100)
	f.Freeze()
	patience(time.Second)
	n, err := in.Type(x11test.Within(t), text)
	if !errors.Is(err, platform.ErrHung) {
		t.Errorf("typed %d into a frozen program: %v", n, err)
	}
	f.Thaw()
	patience(hungAfter)
	want := string([]rune(text)[:n])
	desk.Await(t, "what was typed then", func() bool { return f.Read("entry").Text == want })
	f.Do(map[string]any{"do": "text", "widget": "entry", "text": ""})
	typed(t, in, "thawed", text, func() string { return f.Read("entry").Text }, func() {})
}

// A call that is interrupted ends at once and leaves nothing pressed.
func TestTypeInterrupted(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{NoBus: true})
	f := d.Fixture(desk.GTK3, 3)
	d.Activate(f.Window.ID)
	f.Do(map[string]any{"do": "focus", "widget": "text"})
	in := openInput(t, d)
	text := strings.Repeat("Interrupted AGAIN, ", 1000)
	ctx, cancel := context.WithCancel(x11test.Within(t))
	go func() {
		f.Await("some of it", func(e desk.Event) bool { return e.Kind == "text" && len(e.Text) > 40 })
		cancel()
	}()
	n, err := in.Type(ctx, text)
	if !errors.Is(err, context.Canceled) || n == 0 || n >= len(text) {
		t.Fatalf("typed %d of %d: %v", n, len(text), err)
	}
	desk.Await(t, "just what was counted", func() bool { return f.Read("text").Text == text[:n] })
	if state, err := in.xkb.State(x11test.Within(t)); err != nil || state.Held != 0 {
		t.Errorf("modifiers %#x are held: %v", state.Held, err)
	}
}

// A server without XTEST says so, with the fix.
func TestInputMissing(t *testing.T) {
	d := x11test.Bare(t, "640x480", "-extension", "XTEST")
	_, err := New(x11test.Within(t), wire.Options{Display: d.Display}, nil)
	var missing *platform.MissingError
	if !errors.As(err, &missing) || missing.Fix == "" {
		t.Errorf("without XTEST: %v", err)
	}
	ctx, cancel := context.WithCancel(x11test.Within(t))
	cancel()
	if _, err := New(ctx, wire.Options{Display: d.Display}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("in a call that ended: %v", err)
	}
}
