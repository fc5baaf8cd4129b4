package win32

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/screenshot"
)

// await waits until so holds.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to this: " + what)
		}
	}
}

// notepad starts the system's editor and returns its window.
func notepad(t *testing.T) platform.Window {
	t.Helper()
	pid, err := Windows{}.Launch(t.Context(), "notepad.exe", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p, err := os.FindProcess(pid); err == nil {
			p.Kill()
		}
	})
	var found platform.Window
	await(t, "notepad shows a window", func() bool {
		all, err := Windows{}.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range all {
			if w.PID == pid && w.Title != "" {
				found = w
				return true
			}
		}
		return false
	})
	return found
}

// edited is what notepad's field holds, read by messages that this package does
// not use.
func edited(w platform.Window) string {
	h, err := window(w.Ref)
	if err != nil {
		return ""
	}
	class, _ := windows.UTF16PtrFromString("Edit")
	field, _, _ := user32.NewProc("FindWindowExW").Call(uintptr(h), 0, uintptr(unsafe.Pointer(class)), 0)
	var b [8192]uint16
	const wmGetText = 0x000D
	user32.NewProc("SendMessageW").Call(field, wmGetText, uintptr(len(b)), uintptr(unsafe.Pointer(&b)))
	return strings.ReplaceAll(windows.UTF16ToString(b[:]), "\r\n", "\n")
}

func layout(t *testing.T, s *Screen) platform.Layout {
	t.Helper()
	l, err := s.Layout(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Another library grabs the same screen, and every pixel is the same.
func TestGrabAgreesWithAnotherLibrary(t *testing.T) {
	AwareOfScale()
	s := NewScreen()
	defer s.Close()
	w := notepad(t)
	if err := (Windows{}).Activate(t.Context(), w.Ref); err != nil {
		t.Fatal(err)
	}
	other, err := screenshot.New(t.Context(), s.Layout)
	if err != nil {
		t.Fatal(err)
	}
	all := layout(t, s).Whole()
	for _, area := range []platform.Rect{all, {X: all.X + 123, Y: all.Y + 45, Width: 67, Height: 89}} {
		before, seen, after := make([]byte, area.Width*area.Height*4), make([]byte, area.Width*area.Height*4), make([]byte, area.Width*area.Height*4)
		await(t, "the same pixels by both", func() bool { // the window is drawn late, and its text cursor blinks
			if err := errors.Join(s.Grab(t.Context(), area, false, before), other.Grab(t.Context(), area, true, seen), s.Grab(t.Context(), area, false, after)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, after) || area == all && !bytes.Contains(before, bytes.Repeat([]byte{255, 255, 255, before[3]}, 50)) {
				return false
			}
			for i := 3; i < len(before); i += 4 {
				before[i] = 0 // says nothing
			}
			return bytes.Equal(before, seen)
		})
	}
}

func TestPixels(t *testing.T) {
	AwareOfScale()
	s := NewScreen()
	defer s.Close()
	l := layout(t, s)
	if again := layout(t, s); again.Epoch != l.Epoch || len(l.Displays) == 0 {
		t.Fatalf("%+v, then %+v", l, again)
	}
	w := notepad(t)
	if err := (Windows{}).Activate(t.Context(), w.Ref); err != nil {
		t.Fatal(err)
	}
	to := platform.Rect{X: 60, Y: 50, Width: 420, Height: 260}
	if err := (Windows{}).Place(t.Context(), w.Ref, to); err != nil {
		t.Fatal(err)
	}
	all := l.Whole()
	pix := make([]byte, all.Width*all.Height*4)
	h, _ := window(w.Ref)
	await(t, "the window's field is white where it was placed", func() bool {
		if err := s.Grab(t.Context(), all, false, pix); err != nil {
			t.Fatal(err)
		}
		bounds, content := frameOf(h)
		p := content.Center()
		i := ((p.Y-all.Y)*all.Width + p.X - all.X) * 4
		return bounds == to && bytes.Equal(pix[i:i+3], []byte{255, 255, 255})
	})
	// A part is the same pixels as of the whole, but for the byte that nobody uses.
	part := platform.Rect{X: 70, Y: 60, Width: 33, Height: 21}
	some := make([]byte, part.Width*part.Height*4)
	await(t, "a part of the screen is what the whole shows there", func() bool {
		if err := errors.Join(s.Grab(t.Context(), all, false, pix), s.Grab(t.Context(), part, false, some)); err != nil {
			t.Fatal(err)
		}
		for i := range len(some) {
			x, y := i/4%part.Width, i/4/part.Width
			if i%4 != 3 && some[i] != pix[((part.Y+y-all.Y)*all.Width+part.X+x-all.X)*4+i%4] {
				return false
			}
		}
		return true
	})
	if why := Locked(); why != "" || !Visible() {
		t.Errorf("locked: %q, visible: %v", why, Visible())
	}
}

func TestHandsOnNotepad(t *testing.T) {
	AwareOfScale()
	w := notepad(t)
	ctx := t.Context()
	if err := (Windows{}).Activate(ctx, w.Ref); err != nil {
		t.Fatal(err)
	}
	in := NewInput()
	h, _ := window(w.Ref)
	_, content := frameOf(h)
	at := content.Center()
	if err := in.Move(ctx, at); err != nil {
		t.Fatal(err)
	}
	await(t, "the pointer is where it was moved", func() bool { p, err := in.Pointer(ctx); return err == nil && p == at })
	click := func(b platform.Button) {
		for _, down := range []bool{true, false} {
			if err := in.Button(ctx, b, down); err != nil {
				t.Fatal(err)
			}
		}
	}
	click(platform.ButtonLeft)
	const text = "Grüße, мир, 漢字, שלום, नमस्ते, 😀\n1 2\t3"
	if n, err := in.Type(ctx, text); err != nil || n != len([]rune(text)) {
		t.Fatalf("%d, %v", n, err)
	}
	await(t, "notepad holds the text", func() bool { return edited(w) == text })
	// A chord, and what it put on the clipboard.
	chord := func(key string) {
		for _, e := range []struct {
			key  string
			down bool
		}{{"Control", true}, {key, true}, {key, false}, {"Control", false}} {
			if err := in.Key(ctx, e.key, e.down); err != nil {
				t.Fatal(err)
			}
		}
	}
	chord("a")
	chord("c")
	c := NewClipboard()
	defer c.Close()
	await(t, "the clipboard holds the text", func() bool {
		got, err := c.Read(ctx)
		return err == nil && strings.ReplaceAll(got, "\r\n", "\n") == text
	})
	// A key that is held is let go of.
	in.Key(ctx, "Shift", true)
	if err := in.Release(ctx); err != nil || len(in.keys) != 0 {
		t.Errorf("%v, %d keys held", err, len(in.keys))
	}
	if err := in.Key(ctx, "no such key", true); !errors.Is(err, platform.ErrUntypable) {
		t.Errorf("%v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if n, err := in.Type(cancelled, strings.Repeat("x", 100)); err == nil || n == 100 {
		t.Errorf("a cancelled call typed %d characters: %v", n, err)
	}
}

func TestClipboard(t *testing.T) {
	ctx := t.Context()
	a, b := NewClipboard(), NewClipboard()
	defer a.Close()
	defer b.Close()
	long := strings.Repeat("é漢😀x", 8000)
	for _, text := range []string{"secret é漢😀", long} {
		if err := a.Write(ctx, text, true, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Read(ctx); err != nil || got != text {
			t.Fatalf("%d characters, want %d: %v", len(got), len(text), err)
		}
	}
	for _, f := range concealing {
		name, _ := windows.UTF16PtrFromString(f.name)
		format, _, _ := user32.NewProc("RegisterClipboardFormatW").Call(uintptr(unsafe.Pointer(name)))
		if is, _, _ := procIsFormatAvailable.Call(format); is == 0 {
			t.Errorf("no %s", f.name)
		}
	}
	// Somebody else's text is not ours to clear.
	if err := b.Write(ctx, "theirs", false, 0); err != nil {
		t.Fatal(err)
	}
	if did, err := a.Clear(ctx); did || err != nil {
		t.Errorf("cleared: %v, %v", did, err)
	}
	if got, _ := a.Read(ctx); got != "theirs" {
		t.Errorf("%q", got)
	}
	if err := a.Write(ctx, "soon gone", true, 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	await(t, "the text is cleared", func() bool { got, err := b.Read(ctx); return err == nil && got == "" })
}

func TestWindows(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, err := Windows{}.Changes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := notepad(t)
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("a window opened and nobody was told")
	}
	if w.App != "notepad" || w.Own || w.Bounds.Empty() || !strings.HasPrefix(w.Ref, refPrefix) {
		t.Errorf("%+v", w)
	}
	if err := (Windows{}).Minimize(ctx, w.Ref); err != nil {
		t.Fatal(err)
	}
	look := func() (platform.Window, bool) {
		all, err := Windows{}.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Ref == w.Ref {
				return one, true
			}
		}
		return platform.Window{}, false
	}
	await(t, "it is minimised", func() bool { one, ok := look(); return ok && one.Minimized })
	if err := (Windows{}).Activate(ctx, w.Ref); err != nil {
		t.Fatal(err)
	}
	await(t, "it has the front", func() bool { one, ok := look(); return ok && one.Focused && !one.Minimized })
	if err := (Windows{}).Close(ctx, w.Ref); err != nil {
		t.Fatal(err)
	}
	await(t, "it is closed", func() bool { _, ok := look(); return !ok })
	for what, err := range map[string]error{
		"activate": Windows{}.Activate(ctx, w.Ref), "place": Windows{}.Place(ctx, "hwnd:zz", platform.Rect{}), "close": Windows{}.Close(ctx, "x11:0x1"),
	} {
		if !errors.Is(err, platform.ErrGone) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, app := range []string{"", "no-such-program", `..\notepad`, `a"b`, "win.ini"} {
		if _, err := (Windows{}).Launch(ctx, app, nil); !errors.Is(err, platform.ErrNoApp) {
			t.Errorf("%q: %v", app, err)
		}
	}
}

// Our own events are nobody's touch; those of the devices are. A person who runs this
// test plays the person when the file that is named in the environment appears.
func TestPerson(t *testing.T) {
	ask := os.Getenv("HANDRAIL_TEST_PERSON")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var touches, stops atomic.Int64
	in := NewInput()
	w := notepad(t)
	if err := (Windows{}).Activate(ctx, w.Ref); err != nil {
		t.Fatal(err)
	}
	h, _ := window(w.Ref)
	_, content := frameOf(h)
	// A window that opens below the resting pointer is a move of it to Wine, unlike to
	// Windows, and no input of ours.
	if err := in.Move(ctx, content.Center()); err != nil {
		t.Fatal(err)
	}
	if err := (Person{}).Watch(ctx, "ctrl+alt+k", func(time.Time) { touches.Add(1) }, func() { stops.Add(1) }); err != nil {
		t.Fatal(err)
	}
	for _, p := range []platform.Point{content.Center(), {X: 5, Y: 5}, content.Center()} {
		if err := in.Move(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	in.Button(ctx, platform.ButtonLeft, true)
	in.Button(ctx, platform.ButtonLeft, false)
	in.Type(ctx, "mine")
	await(t, "notepad holds the text", func() bool { return edited(w) == "mine" })
	if n := touches.Load(); n != 0 {
		t.Errorf("our own events counted as a person's %d times", n)
	}
	if err := (Person{}).Watch(ctx, "ctrl+nonsense", func(time.Time) {}, func() {}); err == nil {
		t.Error("nonsense was taken for stop keys")
	}
	if ask == "" {
		t.Skip("nobody plays the person: HANDRAIL_TEST_PERSON is not set")
	}
	if err := os.WriteFile(filepath.Clean(ask), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(ask) }) // the person goes
	await(t, "the person's events are told", func() bool { return touches.Load() > 0 })
	await(t, "the stop keys are told", func() bool { return stops.Load() > 0 })
}

// Another desktop in front, as the secure one of a prompt or the lock screen is, counts
// as locked, and is named.
func TestOtherDesktopInFront(t *testing.T) {
	const all = 0x10000000 // GENERIC_ALL
	home, _, errno := procOpenInputDesktop.Call(0, 0, all)
	if home == 0 {
		t.Fatal(failed("OpenInputDesktop", errno))
	}
	t.Cleanup(func() { procCloseDesktop.Call(home) })
	const name = "handrail-test"
	wide, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	made, _, errno := user32.NewProc("CreateDesktopW").Call(uintptr(unsafe.Pointer(wide)), 0, 0, 0, all, 0)
	if made == 0 {
		t.Fatal(failed("CreateDesktop", errno))
	}
	t.Cleanup(func() { procCloseDesktop.Call(made) })
	turn := user32.NewProc("SwitchDesktop")
	did, _, errno := turn.Call(made)
	t.Cleanup(func() { turn.Call(home) })
	why := Locked()
	if why == "" { // Wine's SwitchDesktop does nothing before version 9
		t.Skipf("this system puts no other desktop in front: SwitchDesktop gave %d (%v)", did, errno)
	}
	if !strings.Contains(why, name) {
		t.Errorf("it is not named: %q", why)
	}
	turn.Call(home)
	await(t, "the person's desktop is back", func() bool { return Locked() == "" })
}
