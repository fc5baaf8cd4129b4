package screen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

func openScreen(t testing.TB, d *desk.Desk) *Screen {
	t.Helper()
	s, err := New(x11test.Within(t), x11test.Dial(t, d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// seen is the whole screen as ImageMagick reads it: blue, green, red, 0.
func seen(t testing.TB, d *desk.Desk) []byte {
	t.Helper()
	raw := []byte(d.Run("import", "-silent", "-window", "root", "-depth", "8", "bgr:-"))
	pix := make([]byte, 0, len(raw)/3*4)
	for i := 0; i+3 <= len(raw); i += 3 {
		pix = append(pix, raw[i], raw[i+1], raw[i+2], 0)
	}
	return pix
}

// unused clears the fourth byte of pixels, which says nothing.
func unused(pix []byte) []byte {
	for i := 3; i < len(pix); i += 4 {
		pix[i] = 0
	}
	return pix
}

func grab(t testing.TB, s *Screen, area platform.Rect, cursor bool) []byte {
	t.Helper()
	pix := make([]byte, area.Width*area.Height*4)
	if err := s.Grab(x11test.Within(t), area, cursor, pix); err != nil {
		t.Fatal(err)
	}
	return unused(pix)
}

// The same pixels as another program sees, in each depth, with and without
// shared memory.
func TestGrabIsWhatOthersSee(t *testing.T) {
	desk.Need(t, "xterm", "import")
	for _, depth := range []int{15, 16, 24, 30} {
		for _, shm := range []string{"+extension", "-extension"} {
			t.Run(fmt.Sprint(depth, shm), func(t *testing.T) {
				t.Parallel()
				d := x11test.Bare(t, "", "-screen", "0", fmt.Sprintf("701x499x%d", depth), shm, "MIT-SHM")
				d.Run("xsetroot", "-solid", "#3478c1")
				d.App("xterm", "-geometry", "80x24+31+17", "-e", "sh", "-c", "ls --color=always /; sleep 1000")
				s := openScreen(t, d)
				all := platform.Rect{Width: 701, Height: 499}
				// The terminal may still be painting: compared is what did not change
				// from the first look to the last.
				part, over := platform.Rect{X: 20, Y: 11, Width: 333, Height: 222}, platform.Rect{X: 600, Y: -10, Width: 200, Height: 50}
				var first, inside, edge, want []byte
				desk.Await(t, "a calm screen", func() bool {
					first = grab(t, s, all, false)
					inside, edge, want = grab(t, s, part, false), grab(t, s, over, false), seen(t, d)
					return slices.Equal(first, grab(t, s, all, false))
				})
				if len(want) != len(first) || differs(first, want) != 0 {
					t.Errorf("of %d bytes %d differ", len(want), differs(first, want))
				}
				if !slices.Equal(inside, crop(first, all, part)) {
					t.Error("a part is not that part of the whole")
				}
				if !slices.Equal(edge, crop(first, all, over)) {
					t.Error("an area over the edge is not black there and the screen elsewhere")
				}
				if used := !s.shm.off; used != (shm[0] == '+') {
					t.Errorf("shared memory was used: %v", used)
				}
			})
		}
	}
}

// differs counts bytes that differ by more than rounding.
func differs(a, b []byte) (n int) {
	for i := range min(len(a), len(b)) {
		if d := int(a[i]) - int(b[i]); d > 1 || d < -1 {
			n++
		}
	}
	return n
}

func crop(pix []byte, whole, part platform.Rect) []byte {
	out := make([]byte, part.Width*part.Height*4)
	in := part.Intersect(whole)
	for y := in.Y; y < in.Y+in.Height; y++ {
		copy(out[((y-part.Y)*part.Width+in.X-part.X)*4:][:in.Width*4], pix[((y-whole.Y)*whole.Width+in.X-whole.X)*4:])
	}
	return out
}

func TestCursorIsDrawn(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "400x300")
	d.Run("xsetroot", "-solid", "#00ff00", "-cursor_name", "left_ptr")
	d.Xdotool("mousemove", "200", "150")
	s := openScreen(t, d)
	all := platform.Rect{Width: 400, Height: 300}
	without, with := grab(t, s, all, false), grab(t, s, all, true)
	var box platform.Rect
	for i := 0; i < len(with); i += 4 {
		if !slices.Equal(with[i:i+4], without[i:i+4]) {
			box = box.Union(platform.Rect{X: i / 4 % 400, Y: i / 4 / 400, Width: 1, Height: 1})
		}
	}
	if box.X < 195 || box.X > 201 || box.Y < 145 || box.Y > 151 || box.Width < 5 || box.Width > 40 || box.Height < 8 || box.Height > 40 {
		t.Errorf("the pointer at 200,150 changed %+v", box)
	}
	if differs(without, grab(t, s, platform.Rect{Width: 400, Height: 300}, false)) != 0 {
		t.Error("the pointer stayed in the image")
	}
	part := platform.Rect{X: 198, Y: 140, Width: 10, Height: 20}
	if !slices.Equal(grab(t, s, part, true), crop(with, all, part)) {
		t.Error("a part with the pointer is not that part of the whole")
	}
}

func TestLayout(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{Size: "1500x900", NoWM: true, NoBus: true,
		Monitors: []desk.Monitor{{Name: "right", X: 700, Y: 100, Width: 800, Height: 600}, {Name: "left", X: 0, Y: 0, Width: 700, Height: 900}}})
	c := x11test.Dial(t, d)
	s, err := New(x11test.Within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first, err := s.Layout(x11test.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(first.Displays, func(a, b platform.Display) int { return strings.Compare(a.ID, b.ID) })
	want := []platform.Display{
		{ID: "left", Name: "left", Scale: 1, Bounds: platform.Rect{Width: 700, Height: 900}},
		{ID: "right", Name: "right", Scale: 1, Primary: true, Bounds: platform.Rect{X: 700, Y: 100, Width: 800, Height: 600}},
	}
	if !slices.Equal(first.Displays, want) {
		t.Errorf("got %+v, want %+v", first.Displays, want)
	}
	if again, _ := s.Layout(x11test.Within(t)); again.Epoch != first.Epoch {
		t.Error("the epoch changed without reason")
	}
	d.SetMonitors([]desk.Monitor{{Name: "right", X: 700, Y: 0, Width: 800, Height: 600}, {Name: "left", X: 0, Y: 0, Width: 700, Height: 900}})
	second, err := s.Layout(x11test.Within(t))
	if err != nil || second.Epoch <= first.Epoch {
		t.Errorf("a moved display left the epoch at %d (%v)", second.Epoch, err)
	}
	if _, layout, err := s.Changed(x11test.Within(t)); err != nil || !layout {
		t.Errorf("the new layout was not told: %v, %v", layout, err)
	}

	cmd := d.Command("xrdb", "-merge", "-")
	cmd.Stdin = strings.NewReader("Xft.dpi: 144\n")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	desk.Await(t, "the scale", func() bool {
		l, err := s.Layout(x11test.Within(t))
		return err == nil && l.Displays[0].Scale == 1.5 && l.Epoch > second.Epoch
	})
}

func TestLayoutWithoutRandR(t *testing.T) {
	t.Parallel()
	s := openScreen(t, x11test.Bare(t, "640x480", "-extension", "RANDR"))
	l, err := s.Layout(x11test.Within(t))
	want := []platform.Display{{ID: "screen", Name: "screen", Primary: true, Scale: 1, Bounds: platform.Rect{Width: 640, Height: 480}}}
	if err != nil || !slices.Equal(l.Displays, want) {
		t.Errorf("got %+v, %v", l, err)
	}
}

// A change that was painted before the question is in the answer, and nothing else is.
func TestChangedIsExact(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	s := openScreen(t, d)
	painter := x11test.Dial(t, d)
	p := x11test.NewPainter(t, painter)
	if _, _, err := s.Changed(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if areas, _, err := s.Changed(x11test.Within(t)); err != nil || len(areas) != 0 {
			t.Fatalf("nothing was painted, but %v changed (%v)", areas, err)
		}
		want := platform.Rect{X: 10 + i, Y: 20, Width: 30, Height: 40}
		p.Fill(want, uint32(i))
		if err := painter.Sync(x11test.Within(t)); err != nil {
			t.Fatal(err)
		}
		areas, layout, err := s.Changed(x11test.Within(t))
		if err != nil || layout || !slices.Equal(areas, []platform.Rect{want}) {
			t.Fatalf("painted %v, told %v, %v, %v", want, areas, layout, err)
		}
	}
}

func TestDamageArrives(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	s := openScreen(t, d)
	p := x11test.NewPainter(t, x11test.Dial(t, d))
	ch := s.Damage()
	for i := range 100 {
		want := platform.Rect{X: 5, Y: i, Width: 7, Height: 1}
		p.Fill(want, 0xffffff)
		var got platform.Rect
		for got.Intersect(want) != want {
			select {
			case r := <-ch:
				got = got.Union(r)
			case <-time.After(desk.Within):
				t.Fatalf("no damage of %v, only %v", want, got)
			}
		}
	}
	d.SetMonitors([]desk.Monitor{{Name: "half", Width: 320, Height: 480}})
	for {
		select {
		case r := <-ch:
			if r.Empty() {
				return
			}
		case <-time.After(desk.Within):
			t.Fatal("the new layout was not told")
		}
	}
}

func TestServerEnds(t *testing.T) {
	d := x11test.Bare(t, "640x480")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, err := wire.Dial(x11test.Within(t), wire.Options{Display: d.Display})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(x11test.Within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	s.Damage()
	all := platform.Rect{Width: 640, Height: 480}
	grab(t, s, all, false)
	d.KillServer()
	if err := s.Grab(x11test.Within(t), all, false, make([]byte, 640*480*4)); !errors.Is(err, platform.ErrLost) {
		t.Errorf("Grab after the server's end: %v", err)
	}
	if _, err := s.Layout(x11test.Within(t)); !errors.Is(err, platform.ErrLost) {
		t.Errorf("Layout after the server's end: %v", err)
	}
	if _, _, err := s.Changed(x11test.Within(t)); !errors.Is(err, platform.ErrLost) {
		t.Errorf("Changed after the server's end: %v", err)
	}
	<-c.Lost()
	_ = s.Close()
	_ = c.Close()
	_ = c.Close()
	var missing *platform.MissingError
	if _, err := wire.Dial(x11test.Within(t), wire.Options{Display: d.Display}); !errors.As(err, &missing) {
		t.Errorf("Dial after the server's end: %v", err)
	}
}

// A server that hangs costs the call only.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	s := openScreen(t, d)
	all := platform.Rect{Width: 640, Height: 480}
	pix := grab(t, s, all, false)
	d.Server.Freeze()
	for name, f := range map[string]func(context.Context) error{
		"Grab":    func(ctx context.Context) error { return s.Grab(ctx, all, true, pix) },
		"Layout":  func(ctx context.Context) error { _, err := s.Layout(ctx); return err },
		"Changed": func(ctx context.Context) error { _, _, err := s.Changed(ctx); return err },
		"Dial": func(ctx context.Context) error {
			_, err := wire.Dial(ctx, wire.Options{Display: d.Display})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	d.Server.Thaw()
	grab(t, s, all, false)
	if _, _, err := s.Changed(x11test.Within(t)); err != nil {
		t.Error(err)
	}
}

// While one part still reads a new layout, no other gets the old one: pixels of the new
// one would be taken for the old one's.
func TestLayoutIsKnownOnceItIsRead(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	s := openScreen(t, d)
	d.Server.Freeze()
	s.doubt() // as an announcement does
	reads := make(chan error, 1)
	go func() {
		_, err := s.known(x11test.Within(t))
		reads <- err
	}()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 { // the other one has begun by some of them
		if _, err := s.known(gone); !errors.Is(err, context.Canceled) {
			t.Fatalf("a layout was given before it was read (%v)", err)
		}
	}
	d.Server.Thaw()
	if err := <-reads; err != nil {
		t.Error(err)
	}
}

// The screen changes its size while it is grabbed.
func TestModeChanges(t *testing.T) {
	t.Parallel()
	outer := x11test.Bare(t, "1100x800")
	d, _ := outer.StartXephyr(desk.Options{Size: "1024x768", NoWM: true, NoBus: true}) // Xvfb has one mode only
	s := openScreen(t, d)
	all := platform.Rect{Width: 1024, Height: 768}
	pix := make([]byte, all.Width*all.Height*4)
	done, enough := make(chan struct{}), make(chan struct{})
	go func(enough chan struct{}) {
		defer close(done)
		for i := range 400 { // until a busy machine has had time to look between two
			select {
			case <-enough:
				if i >= 12 && i%4 == 0 {
					return
				}
			default:
			}
			d.Run("xrandr", "--size", []string{"640x480", "1024x768", "800x600", "320x240"}[i%4])
		}
	}(enough)
	epochs := map[uint64]bool{}
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		if err := s.Grab(x11test.Within(t), all, true, pix); err != nil {
			t.Fatal(err)
		}
		l, err := s.Layout(x11test.Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if epochs[l.Epoch] = true; len(epochs) == 2 && enough != nil {
			close(enough)
			enough = nil
		}
	}
	l, _ := s.Layout(x11test.Within(t))
	if l.Displays[0].Bounds != (platform.Rect{Width: 320, Height: 240}) || len(epochs) < 2 {
		t.Errorf("%d epochs, at last %+v", len(epochs), l)
	}
}

func TestPaletteIsRefused(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "", "-screen", "0", "640x480x8")
	_, err := New(x11test.Within(t), x11test.Dial(t, d))
	var missing *platform.MissingError
	if !errors.As(err, &missing) || missing.Fix == "" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkGrab(b *testing.B) {
	for _, c := range []struct {
		name string
		args []string
		lent bool
	}{{"1080p", nil, true}, {"1080p-copied", nil, false}, {"1080p-no-shm", []string{"-extension", "MIT-SHM"}, false}, {"4k", []string{"-screen", "0", "3840x2160x24"}, true}} {
		b.Run(c.name, func(b *testing.B) {
			d := x11test.Bare(b, "1920x1080", c.args...)
			s := openScreen(b, d)
			l, err := s.Layout(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			all := l.Whole()
			pix := make([]byte, all.Width*all.Height*4)
			b.SetBytes(int64(len(pix)))
			back := func() {}
			for b.Loop() {
				last := func() {}
				if c.lent { // the last picture is kept until there is the next
					last = back
					pix, back = s.Lend(context.Background(), cap(pix))
				}
				if err := s.Grab(context.Background(), all, false, pix); err != nil {
					b.Fatal(err)
				}
				last()
			}
		})
	}
}

func BenchmarkChanged(b *testing.B) {
	s := openScreen(b, x11test.Bare(b, "1920x1080"))
	for b.Loop() {
		if _, _, err := s.Changed(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
