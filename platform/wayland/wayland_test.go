//go:build linux

package wayland

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// tools are the parts of a desktop on a Sway.
type tools struct {
	*desk.Sway
	outputs *Outputs
	screen  *Screen
	person  *Person
	input   *Input
	windows *Windows
	clip    *Clipboard
}

func dial(t *testing.T, s *desk.Sway) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), Options{Display: s.Wayland})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func start(t *testing.T, o desk.SwayOptions) *tools {
	t.Helper()
	w := &tools{Sway: desk.StartSway(t, o)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.outputs, err = NewOutputs(t.Context(), dial(t, w.Sway))
	must(err)
	w.screen, err = NewScreen(t.Context(), w.outputs)
	must(err)
	t.Cleanup(func() { _ = w.screen.Close() })
	hands := dial(t, w.Sway)
	w.person, err = NewPerson(t.Context(), hands, w.Getenv, w.Runtime)
	must(err)
	t.Cleanup(func() { _ = w.person.Close() })
	w.input, err = NewInput(t.Context(), hands, w.outputs, w.person)
	must(err)
	w.windows, err = NewWindows(t.Context(), WindowsOptions{Options: Options{Display: w.Wayland, Runtime: w.Runtime}, Getenv: w.Getenv,
		Find: func(app string, args []string, _ func(string) string) ([]string, string, error) {
			if app == "none such" {
				return nil, "", platform.ErrNoApp
			}
			return append([]string{app}, args...), w.Home, nil
		}}, w.outputs)
	must(err)
	w.clip, err = NewClipboard(t.Context(), dial(t, w.Sway))
	must(err)
	t.Cleanup(func() { _ = w.clip.Close() })
	return w
}

// A compositor that ends is lost everywhere, and nothing of ours stays.
func TestLost(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("ends", func(t *testing.T) {
		w := start(t, desk.SwayOptions{NoBus: true})
		changes := w.screen.Damage()
		ctx := t.Context()
		hung := make(chan error, 1)
		w.Server.Freeze()
		go func() { hung <- w.input.Move(ctx, platform.Point{X: 5, Y: 5}) }()
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := w.screen.Layout(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a compositor that stands still: %v", err)
		}
		w.Server.Kill()
		if err := <-hung; !errors.Is(err, platform.ErrLost) {
			t.Errorf("a move while the compositor ended: %v", err)
		}
		for name, call := range map[string]func() error{
			"layout": func() error { _, err := w.screen.Layout(ctx); return err },
			"grab": func() error {
				return w.screen.Grab(ctx, platform.Rect{Width: 2, Height: 2}, false, make([]byte, 16))
			},
			"type":  func() error { _, err := w.input.Type(ctx, "x"); return err },
			"list":  func() error { _, err := w.windows.List(ctx); return err },
			"write": func() error { return w.clip.Write(ctx, "x", false, 0) },
			"read":  func() error { _, err := w.clip.Read(ctx); return err },
			"watch": func() error { return w.person.Watch(ctx, "", func(time.Time) {}, func() {}) },
		} {
			desk.Await(t, name, func() bool { return errors.Is(call(), platform.ErrLost) })
		}
		desk.Await(t, "the end of what changes", func() bool {
			select {
			case _, ok := <-changes:
				return !ok
			default:
				return false
			}
		})
	})
}

// A server that does not answer as a compositor does is said to be none, in time.
func TestDialSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	var m *platform.MissingError
	if _, err := Dial(t.Context(), Options{Display: "nothing", Runtime: dir}); !errors.As(err, &m) || !strings.Contains(m.What, filepath.Join(dir, "nothing")) || m.Fix == "" {
		t.Errorf("no socket: %v", err)
	}
	listen := func(name, says string) {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { _ = c.Close() })
				_, _ = c.Write([]byte(says))
			}
		}()
	}
	listen("garbage", "HTTP/1.1 400 Bad Request\r\n\r\n")
	if _, err := Dial(t.Context(), Options{Display: "garbage", Runtime: dir}); !errors.As(err, &m) {
		t.Errorf("a server of something else: %v", err)
	}
	listen("silent", "")
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(soon, Options{Display: "silent", Runtime: dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that says nothing: %v", err)
	}
}

// A compositor of another family: each part that it cannot give is refused with
// the protocol's name.
func TestMissingProtocolsAreNamed(t *testing.T) {
	d := desk.StartWeston(t)
	c, err := Dial(t.Context(), Options{Display: d.Getenv("WAYLAND_DISPLAY"), Runtime: d.Runtime})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	outputs, err := NewOutputs(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := outputs.Layout(t.Context()); err != nil || len(l.Displays) != 1 || l.Displays[0].Bounds.Width != 1024 {
		t.Errorf("weston's layout: %+v, %v", l, err)
	}
	for protocol, open := range map[string]func() error{
		"zwlr_screencopy_manager_v1":      func() error { _, err := NewScreen(t.Context(), outputs); return err },
		"zwlr_virtual_pointer_manager_v1": func() error { _, err := NewInput(t.Context(), c, outputs, nil); return err },
		"zwp_virtual_keyboard_manager_v1": func() error { _, err := NewInput(t.Context(), c, outputs, nil); return err },
		"zwlr_data_control_manager_v1":    func() error { _, err := NewClipboard(t.Context(), c); return err },
		"zwlr_foreign_toplevel_manager_v1": func() error {
			_, err := NewWindows(t.Context(), WindowsOptions{Options: Options{Runtime: d.Runtime}, Getenv: d.Getenv}, outputs)
			return err
		},
		"wl_seat": func() error { _, err := NewPerson(t.Context(), c, d.Getenv, d.Runtime); return err },
	} {
		var m *platform.MissingError
		if err := open(); !errors.As(err, &m) || !strings.Contains(m.What, protocol) || !strings.Contains(m.Fix, "Sway") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

// The pixels are those that grim reads, on displays that are turned, mirrored,
// enlarged and side by side.
func TestPixelsAreGrims(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true, Outputs: []string{
		"HEADLESS-1 resolution 400x300 position 0 0 background #204060 solid_color", "HEADLESS-2 resolution 320x480 position 400 50 background #a01010 solid_color"}})
	p := w.Start("foot", "-T", "colours", "sh", "-c", `printf '\033[41mred\033[42mgreen\033[44mblue\033[0m F\n'; exec cat`)
	w.AwaitWindow(p, "colours")
	w.Tell("[title=colours] floating enable, resize set width 300 px height 200 px, move absolute position 250 px 80 px")
	for _, setting := range []string{"transform normal", "transform 90", "transform 180", "transform 270", "transform flipped", "transform flipped-90",
		"transform flipped-180", "transform flipped-270", "transform normal scale 2", "scale 1"} {
		before, err := w.screen.Layout(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.Tell("output HEADLESS-1 " + setting)
		layout, err := w.screen.Layout(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if turned := strings.Contains(setting, "90") || strings.Contains(setting, "270"); turned != (layout.Displays[0].Bounds.Height == 400) {
			t.Errorf("%s: %+v", setting, layout.Displays)
		}
		if setting == "transform normal scale 2" && (layout.Displays[0].Scale != 2 || layout.Displays[0].Bounds.Width != 400 || layout.Epoch == before.Epoch) {
			t.Errorf("%s: %+v", setting, layout)
		}
		if a, b := layout.Displays[0].Bounds, layout.Displays[1].Bounds; !a.Intersect(b).Empty() {
			t.Errorf("%s: displays lie over one another: %v %v", setting, a, b)
		}
		for _, d := range layout.Displays {
			b := d.Bounds
			parts := []platform.Rect{b, {X: b.X + 37, Y: b.Y + 21, Width: 101, Height: 55}, {X: b.X + b.Width - 3, Y: b.Y + b.Height - 2, Width: 3, Height: 2}}
			// Both are asked again until nothing was painted in between.
			var why string
			defer func() {
				if t.Failed() && why != "" {
					t.Log(why)
				}
			}()
			desk.Await(t, setting+" "+d.ID, func() bool {
				shot, width, height := w.Shot("-o", d.ID, "-s", fmt.Sprint(d.Scale))
				if width != b.Width || height != b.Height {
					why = fmt.Sprintf("grim's picture is %dx%d", width, height)
					return false
				}
				for _, part := range parts {
					pix := make([]byte, part.Width*part.Height*4)
					if err := w.screen.Grab(t.Context(), part, false, pix); err != nil {
						t.Fatal(err)
					}
					for y := range part.Height {
						for x := range part.Width {
							a := pix[(y*part.Width+x)*4:][:3]
							g := shot[((part.Y-b.Y+y)*width+part.X-b.X+x)*3:][:3]
							if a[0] != g[2] || a[1] != g[1] || a[2] != g[0] {
								why = fmt.Sprintf("%v: pixel %d,%d is %v, grim's %v", part, x, y, a, g)
								return false
							}
						}
					}
				}
				why = ""
				return true
			})
		}
	}
	// Across both, with nothing beside them.
	layout, _ := w.screen.Layout(t.Context())
	whole := layout.Whole()
	pix := bytes.Repeat([]byte{9}, whole.Width*whole.Height*4)
	if err := w.screen.Grab(t.Context(), whole, false, pix); err != nil {
		t.Fatal(err)
	}
	if got := pix[(whole.Width-1)*4:][:3]; !bytes.Equal(got, []byte{0, 0, 0}) {
		t.Errorf("where no display is, the pixel is %v", got)
	}
	if got := pix[((whole.Height-1)*whole.Width+whole.Width-1)*4:][:3]; !bytes.Equal(got, []byte{0x10, 0x10, 0xa0}) {
		t.Errorf("the second display's corner is %v", got)
	}
}

// touches counts what Watch says.
type touches struct{ n, stops atomic.Int64 }

func watch(t *testing.T, p *Person, hotkey string) *touches {
	t.Helper()
	c := &touches{}
	if err := p.Watch(t.Context(), hotkey, func(time.Time) { c.n.Add(1) }, func() { c.stops.Add(1) }); err != nil {
		t.Fatal(err)
	}
	return c
}

// armed waits until the seat is at rest: from then on everything shows.
func armed(t *testing.T, p *Person) {
	t.Helper()
	desk.Await(t, "the seat to rest", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.idle && p.armed && !p.active
	})
}

// stranger is another program's mouse.
func stranger(t *testing.T, w *tools) *Input {
	t.Helper()
	in, err := NewInput(t.Context(), dial(t, w.Sway), w.outputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestPerson(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	other := stranger(t, w)
	ctx := t.Context()
	seen := watch(t, w.person, "ctrl+alt+escape")
	armed(t, w.person)

	// Input of this program is nobody's doing, however it is spread over time.
	for i := range 60 {
		if err := w.input.Move(ctx, platform.Point{X: 10 + i, Y: 20}); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			armed(t, w.person)
		}
	}
	if _, err := w.input.Type(ctx, strings.Repeat("nobody there 漢 ", 40)); err != nil {
		t.Fatal(err)
	}
	armed(t, w.person)
	if n := seen.n.Load(); n != 0 {
		t.Fatalf("what this program did counts %d times as a person's", n)
	}

	// Another's mouse shows while this program does nothing,
	if err := other.Move(ctx, platform.Point{X: 5, Y: 5}); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the mouse", func() bool { return seen.n.Load() > 0 })
	armed(t, w.person)

	// and while it types: typing rests now and then.
	n := seen.n.Load()
	typing, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := w.input.Type(typing, strings.Repeat("a", 500)); err != nil {
				done <- err
				return
			}
		}
	}()
	desk.Await(t, "typing", func() bool { w.person.mu.Lock(); defer w.person.mu.Unlock(); return !w.person.since.IsZero() })
	moving, still := context.WithCancel(ctx)
	defer still()
	go func() {
		for i := 0; moving.Err() == nil; i++ {
			_ = other.Move(moving, platform.Point{X: 100 + i%100, Y: 5})
			time.Sleep(4 * time.Millisecond) // as a mouse does
		}
	}()
	desk.Await(t, "the mouse beside typing", func() bool { return seen.n.Load() > n })
	still()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	armed(t, w.person)

	// Another's keyboard shows while this program does nothing, and beside its own.
	n = seen.n.Load()
	w.Run("wtype", "hello")
	desk.Await(t, "the keyboard", func() bool { return seen.n.Load() > n })
	armed(t, w.person)

	if seen.stops.Load() != 0 {
		t.Error("the stop keys were pressed by nobody")
	}
	w.Run("wtype", "-M", "ctrl", "-M", "alt", "-k", "Escape", "-m", "alt", "-m", "ctrl")
	desk.Await(t, "the stop keys", func() bool { return seen.stops.Load() > 0 })
}

// Events that objects of an earlier watch still send are nobody's doing: they may be on their way
// when the next one begins.
func TestPersonOfAnEarlierWatch(t *testing.T) {
	p := &Person{wake: make(chan struct{}, 1), idling: &object{id: 7}, keyboard: &object{id: 8}}
	p.activity(&message{object: 5, opcode: idleIdled})
	p.activity(&message{object: 5, opcode: idleResumed})
	for range 2 {
		p.mapped(&message{object: 6, opcode: keyboardKeymap, takeFD: func() int {
			f, err := unix.MemfdCreate("map", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}, rest: make([]byte, 8)})
	}
	if p.idle || p.armed || p.active || p.maps != 0 || p.touches != 0 {
		t.Errorf("idle %v, armed %v, active %v, %d maps, %d touches", p.idle, p.armed, p.active, p.maps, p.touches)
	}
}

// Another's keys show although this program's own never pause: by the map of the
// keyboard that was used.
func TestPersonsKeyboardBesideOurs(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	ctx := t.Context()
	seen := watch(t, w.person, "")
	w.person.mu.Lock()
	w.person.armed = false // the seat's activity is not what is tried here
	w.person.c.destroy(w.person.idling, w.person.stopIdle)
	w.person.mu.Unlock()
	if _, err := w.input.Type(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	if seen.n.Load() != 0 {
		t.Error("this program's own map counts as another's")
	}
	w.Run("wtype", "x")
	desk.Await(t, "the keyboard", func() bool { return seen.n.Load() > 0 })
}

func TestClipboard(t *testing.T) {
	w := start(t, desk.SwayOptions{NoBus: true})
	ctx := t.Context()
	if err := w.clip.Write(ctx, "käse 漢😀", true, 0); err != nil {
		t.Fatal(err)
	}
	if types := w.ClipboardTypes(); !slices.Contains(types, hintType) || !slices.Contains(types, "text/plain;charset=utf-8") {
		t.Errorf("concealed, it is offered as %q", types)
	}
	if hint := w.Run("wl-paste", "--no-newline", "--type", hintType); hint != "secret" {
		t.Errorf("the hint says %q", hint)
	}
	if cleared, err := w.clip.Clear(ctx); !cleared || err != nil {
		t.Errorf("cleared %v: %v", cleared, err)
	}
	if text, ok := w.Clipboard(); ok {
		t.Errorf("after Clear the clipboard holds %q", text)
	}
	if cleared, err := w.clip.Clear(ctx); cleared || err != nil {
		t.Errorf("cleared again %v: %v", cleared, err)
	}
	if err := w.clip.Write(ctx, "open", false, 0); err != nil {
		t.Fatal(err)
	}
	if types := w.ClipboardTypes(); slices.Contains(types, hintType) {
		t.Errorf("not concealed, it is offered as %q", types)
	}
	// A copy that another program made since is not ours to clear, also not later.
	if err := w.clip.Write(ctx, "ours", false, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	holder := w.SetClipboard("theirs")
	desk.Await(t, "the time to be over", func() bool {
		w.clip.mu.Lock()
		defer w.clip.mu.Unlock()
		return w.clip.ours == nil
	})
	if cleared, err := w.clip.Clear(ctx); cleared || err != nil {
		t.Errorf("another's was cleared: %v, %v", cleared, err)
	}
	if text, err := w.clip.Read(ctx); text != "theirs" || err != nil {
		t.Errorf("read %q: %v", text, err)
	}
	// A holder that stands still costs the call, and no more.
	holder.Freeze()
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := w.clip.Read(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a holder that stands still: %v", err)
	}
	holder.Kill()
	desk.Await(t, "the clipboard to be empty", func() bool { text, err := w.clip.Read(ctx); return text == "" && err == nil })
	if err := w.clip.Write(ctx, "a\x00b", false, 0); err == nil {
		t.Error("what is no text was written")
	}
}
