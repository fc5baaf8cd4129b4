package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/screen"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/test/desk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// canvas is a Grabber whose pixels a test paints.
type canvas struct {
	mu      sync.Mutex
	w, h    int
	pix     []byte
	layout  platform.Layout
	changed []platform.Rect
	damage  chan platform.Rect
	grabs   []platform.Rect
	err     error
	onGrab  func()
	inside  int
}

// teller is a canvas that can say what changed.
type teller struct{ *canvas }

func newCanvas(w, h int) *canvas {
	return &canvas{w: w, h: h, pix: make([]byte, w*h*4), damage: make(chan platform.Rect, 100),
		layout: platform.Layout{Epoch: 1, Displays: []platform.Display{{ID: "a", Bounds: platform.Rect{Width: w, Height: h}}}}}
}

func (c *canvas) paint(r platform.Rect, v byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for y := r.Y; y < r.Y+r.Height; y++ {
		for x := r.X; x < r.X+r.Width; x++ {
			copy(c.pix[(y*c.w+x)*4:], []byte{v, v, v})
		}
	}
	c.changed = append(c.changed, r)
	c.damage <- r
}

func (c *canvas) Layout(context.Context) (platform.Layout, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.layout, c.err
}

func (c *canvas) Grab(_ context.Context, area platform.Rect, _ bool, pix []byte) error {
	c.mu.Lock()
	if c.inside++; c.inside > 1 {
		panic("Grab from two goroutines")
	}
	hook := c.onGrab
	c.grabs = append(c.grabs, area)
	for y := range area.Height {
		copy(pix[y*area.Width*4:][:area.Width*4], c.pix[((area.Y+y)*c.w+area.X)*4:])
	}
	c.mu.Unlock()
	if hook != nil {
		hook()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	return c.err
}

func (c *canvas) Damage() <-chan platform.Rect { return c.damage }
func (c *canvas) Close() error                 { return nil }

func (c teller) Changed(context.Context) ([]platform.Rect, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.changed
	c.changed = nil
	return all, false, c.err
}

var (
	_ Knower  = (*screen.Screen)(nil)
	_ Pointer = (*screen.Screen)(nil)
)

// blind is a Grabber that tells nothing.
type blind struct{ *canvas }

func (blind) Damage() <-chan platform.Rect { return nil }

func (c *canvas) took() []platform.Rect {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.grabs
	c.grabs = nil
	return all
}

func frame(t testing.TB, b *Bus, area platform.Rect, cursor bool) *platform.Frame {
	t.Helper()
	f, err := b.Frame(within(t), area, cursor)
	if err != nil {
		t.Fatal(err)
	}
	if f.Area != area || f.Stride < area.Width*4 || len(f.Pix) < (area.Height-1)*f.Stride+area.Width*4 {
		t.Fatalf("a frame of %v, stride %d, %d bytes for %v", f.Area, f.Stride, len(f.Pix), area)
	}
	return f
}

func at(f *platform.Frame, x, y int) byte { return f.Pix[(y-f.Area.Y)*f.Stride+(x-f.Area.X)*4] }

func TestOnlyWhatChangedIsRead(t *testing.T) {
	c := newCanvas(100, 80)
	b := New(teller{c})
	defer b.Close()
	all := platform.Rect{Width: 100, Height: 80}
	first := frame(t, b, all, false)
	if got := c.took(); !slices.Equal(got, []platform.Rect{all}) {
		t.Errorf("read %v", got)
	}
	again := frame(t, b, all, false)
	if again.Seq != first.Seq || &again.Pix[0] != &first.Pix[0] || c.took() != nil {
		t.Error("an unchanged area was read again")
	}
	small := platform.Rect{X: 10, Y: 20, Width: 5, Height: 4}
	c.paint(small, 7)
	second := frame(t, b, all, false)
	if got := c.took(); !slices.Equal(got, []platform.Rect{small}) {
		t.Errorf("read %v for %v", got, small)
	}
	if second.Seq == first.Seq || at(second, 10, 20) != 7 || at(second, 14, 23) != 7 || at(second, 15, 23) != 0 {
		t.Error("the change is not in the frame")
	}
	if at(first, 10, 20) != 0 {
		t.Error("a frame that was handed out changed")
	}
	c.paint(small, 7)
	if third := frame(t, b, all, false); third.Seq != second.Seq {
		t.Error("the same pixels painted again made another frame")
	}
	c.took()

	part := platform.Rect{X: 8, Y: 18, Width: 10, Height: 10}
	p := frame(t, b, part, false)
	if at(p, 10, 20) != 7 || at(p, 9, 20) != 0 || c.took() != nil {
		t.Error("a part of a known frame was read")
	}
	c.paint(platform.Rect{X: 50, Y: 50, Width: 3, Height: 3}, 9)
	if q := frame(t, b, part, false); q.Seq != p.Seq || c.took() != nil {
		t.Error("what changed elsewhere touched a part")
	}
	if f := frame(t, b, all, false); at(f, 51, 51) != 9 {
		t.Error("what a part's frame learnt was lost to the whole")
	}
}

func TestWithoutTellingItCompares(t *testing.T) {
	c := newCanvas(100, 80)
	b := New(blind{c})
	defer b.Close()
	all := platform.Rect{Width: 100, Height: 80}
	first := frame(t, b, all, false)
	if again := frame(t, b, all, false); again.Seq != first.Seq {
		t.Error("the same pixels have another Seq")
	}
	c.mu.Lock()
	c.pix[3] = 200 // the fourth byte says nothing
	c.mu.Unlock()
	if again := frame(t, b, all, false); again.Seq != first.Seq {
		t.Error("the unused byte made another frame")
	}
	c.paint(platform.Rect{X: 99, Y: 79, Width: 1, Height: 1}, 1)
	if again := frame(t, b, all, false); again.Seq == first.Seq || at(again, 99, 79) != 1 || at(first, 99, 79) != 0 {
		t.Error("a changed pixel was missed")
	}
}

func TestPixelsAreForgottenNotTheirSeq(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	b.idle = time.Millisecond
	defer b.Close()
	all := platform.Rect{Width: 10, Height: 10}
	first := frame(t, b, all, false)
	forgotten := func() {
		desk.Await(t, "the pixels to be forgotten", func() bool {
			b.own <- struct{}{}
			defer b.release()
			return b.views[0].frame.Pix == nil
		})
	}
	forgotten()
	c.took()
	if again := frame(t, b, all, false); again.Seq != first.Seq || len(c.took()) != 1 {
		t.Error("an unchanged area lost its Seq")
	}
	forgotten()
	c.mu.Lock()
	c.onGrab = func() {
		c.onGrab = nil
		c.paint(platform.Rect{Width: 1, Height: 1}, 5)
	}
	c.mu.Unlock()
	if again := frame(t, b, all, false); again.Seq == first.Seq {
		t.Error("what was painted while it was read kept the Seq")
	}
	if again := frame(t, b, all, false); at(again, 0, 0) != 5 {
		t.Error("what was painted while it was read was lost")
	}
}

func TestLayoutChangesBetween(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	defer b.Close()
	all := platform.Rect{Width: 10, Height: 10}
	first := frame(t, b, all, false)
	c.paint(all, 1)
	c.mu.Lock()
	c.onGrab = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.onGrab = nil
		c.layout.Epoch = 2
	}
	c.mu.Unlock()
	f := frame(t, b, all, false)
	if f.Epoch != 2 || f.Seq == first.Seq {
		t.Errorf("a frame of epoch %d, Seq %d after %d", f.Epoch, f.Seq, first.Seq)
	}
}

// A driver that paints past what tells of it is found out.
func TestTrustIsTested(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	b.trust = 0
	defer b.Close()
	all := platform.Rect{Width: 10, Height: 10}
	first := frame(t, b, all, false)
	if again := frame(t, b, all, false); again.Seq != first.Seq || b.tell == nil {
		t.Error("the same pixels cost the trust")
	}
	c.mu.Lock()
	c.onGrab = func() { c.onGrab = nil; c.paint(all, 1) }
	c.mu.Unlock()
	frame(t, b, all, false)
	if f := frame(t, b, all, false); b.tell == nil || at(f, 0, 0) != 1 {
		t.Error("what was painted while it was read cost the trust")
	}
	c.mu.Lock()
	c.pix[0] = 77 // and nobody tells
	c.mu.Unlock()
	if f := frame(t, b, all, false); at(f, 0, 0) != 77 || b.tell != nil {
		t.Error("what was not told was not found")
	}
	b.trust = time.Hour
	c.mu.Lock()
	c.pix[0] = 78
	c.mu.Unlock()
	if f := frame(t, b, all, false); at(f, 0, 0) != 78 {
		t.Error("it is believed again")
	}
}

func TestErrorsLoseNothing(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	defer b.Close()
	all := platform.Rect{Width: 10, Height: 10}
	frame(t, b, all, false)
	c.paint(all, 3)
	broken := errors.New("broken")
	c.mu.Lock()
	c.onGrab = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.onGrab, c.err = nil, broken
	}
	c.mu.Unlock()
	if _, err := b.Frame(within(t), all, false); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.err = nil
	c.mu.Unlock()
	if f := frame(t, b, all, false); at(f, 5, 5) != 3 {
		t.Error("a change that could not be read was lost")
	}
	for _, bad := range []platform.Rect{{}, {Width: -1, Height: 5}, {Width: 1 << 20, Height: 1 << 20}} {
		if _, err := b.Frame(within(t), bad, false); err == nil {
			t.Errorf("%v has a frame", bad)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	c := newCanvas(4000, 3000)
	b := New(teller{c})
	defer b.Close()
	for i := range 30 {
		frame(t, b, platform.Rect{X: i, Width: 3000, Height: 3000 - i}, false)
		size := 0
		for _, v := range b.views {
			size += len(v.frame.Pix)
		}
		if len(b.views) > maxViews || size > maxBytes {
			t.Fatalf("%d views hold %d bytes", len(b.views), size)
		}
	}
}

func TestSlowDisplayCostsTheCallOnly(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	defer b.Close()
	hang, entered := make(chan struct{}), make(chan struct{})
	c.onGrab = func() {
		close(entered)
		<-hang
	}
	done := make(chan error)
	go func() {
		_, err := b.Frame(context.Background(), platform.Rect{Width: 10, Height: 10}, false)
		done <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.Frame(ctx, platform.Rect{Width: 5, Height: 5}, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(hang)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestManyLook(t *testing.T) {
	c := newCanvas(200, 200)
	b := New(teller{c})
	defer b.Close()
	ctx, cancel := context.WithCancel(within(t))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			area := platform.Rect{X: i, Y: i, Width: 100 + i, Height: 90}
			seen := map[uint64]byte{}
			for ctx.Err() == nil {
				f, err := b.Frame(ctx, area, false)
				if err != nil {
					return
				}
				v, known := seen[f.Seq]
				if known && at(f, 50, 50) != v {
					t.Error("two frames with one Seq differ")
				}
				seen[f.Seq] = at(f, 50, 50)
			}
		})
	}
	go func() {
		for range c.damage {
		}
	}()
	for i := range 300 {
		c.paint(platform.Rect{X: 50, Y: 50, Width: 1, Height: 1}, byte(i))
	}
	cancel()
	wg.Wait()
	close(c.damage)
}

// real is a bus over an X server.
func real(t testing.TB, o desk.Options) (*desk.Desk, *Bus) {
	t.Helper()
	d := desk.StartX(t, o)
	c, err := wire.Dial(within(t), wire.Options{Display: d.Display})
	if err != nil {
		t.Fatal(err)
	}
	s, err := screen.New(within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	b := New(s)
	t.Cleanup(func() {
		_ = b.Close()
		_ = c.Close()
	})
	return d, b
}

func TestOnAnXServer(t *testing.T) {
	d, b := real(t, desk.Options{NoBus: true})
	l, err := b.Layout(within(t))
	if err != nil {
		t.Fatal(err)
	}
	all := l.Whole()
	d.Run("xsetroot", "-solid", "#102030")
	before := frame(t, b, all, false)
	ch, err := b.Changes(within(t), all)
	if err != nil {
		t.Fatal(err)
	}
	app := d.App("xterm", "-geometry", "40x10+300+200", "-e", "sleep", "1000")
	var told platform.Rect
	desk.Await(t, "the window's area", func() bool {
		told = told.Union(next(t, ch))
		return told.Has(platform.Point{X: app.Window.X + 5, Y: app.Window.Y + 5})
	})
	if told.Has(platform.Point{X: 5, Y: 5}) {
		t.Errorf("told %v for a window at %+v", told, app.Window)
	}
	after := frame(t, b, all, false)
	if after.Seq == before.Seq || after.Epoch != l.Epoch {
		t.Errorf("Seq %d after %d, epoch %d", after.Seq, before.Seq, after.Epoch)
	}
	d.KillServer()
	for range ch {
	}
	if _, err := b.Frame(within(t), all, false); !errors.Is(err, platform.ErrLost) {
		t.Errorf("%v", err)
	}
}

func BenchmarkUnchanged(b *testing.B) {
	_, bus := real(b, desk.Options{Size: "1920x1080", NoBus: true, NoWM: true})
	all := platform.Rect{Width: 1920, Height: 1080}
	for b.Loop() {
		f, err := bus.Frame(context.Background(), all, false)
		if err != nil {
			b.Fatal(err)
		}
		f.Release()
	}
}

// BenchmarkRepainted looks at a screen that was painted since the last look.
func BenchmarkRepainted(b *testing.B) {
	desk.Need(b, "xsetroot")
	d, bus := real(b, desk.Options{Size: "1920x1080", NoBus: true, NoWM: true})
	all := platform.Rect{Width: 1920, Height: 1080}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		d.Run("xsetroot", "-solid", fmt.Sprintf("#%06x", i&0xffffff))
		b.StartTimer()
		f, err := bus.Frame(context.Background(), all, false)
		if err != nil {
			b.Fatal(err)
		}
		f.Release()
	}
}
