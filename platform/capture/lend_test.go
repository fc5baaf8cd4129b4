package capture

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// lender is a canvas with memory of its own, which turns into rubbish as soon as it is
// given back: with the race detector whoever reads on is found out.
type lender struct {
	teller
	most int

	mu      sync.Mutex
	lent    int
	given   int
	trimmed int
}

func newLender(w, h, most int) *lender { return &lender{teller: teller{newCanvas(w, h)}, most: most} }

func (l *lender) Lend(_ context.Context, size int) ([]byte, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent == l.most {
		return nil, nil
	}
	l.lent++
	l.given++
	pix, back := make([]byte, size), false
	return pix, func() {
		for i := range pix {
			pix[i] = 0xee
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if back {
			panic("given back twice")
		}
		back = true
		l.lent--
	}
}

func (l *lender) Trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed++
}

// out is how much is lent now, and has ever been.
func (l *lender) out() (now, ever int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lent, l.given
}

func plain(t *testing.T, f *platform.Frame, v byte) {
	t.Helper()
	for i := 0; i < len(f.Pix); i += 4 {
		if f.Pix[i] != v {
			t.Fatalf("pixel %d is %d, not %d", i/4, f.Pix[i], v)
		}
	}
}

// Frames stay what they are until they are released, and what they stand in is given
// back when the last one is.
func TestFramesInLentMemory(t *testing.T) {
	c := newLender(300, 300, 3)
	b := New(c)
	all := platform.Rect{Width: 300, Height: 300}
	c.paint(all, 1)
	first, same := frame(t, b, all, false), frame(t, b, all, false)
	if now, ever := c.out(); now != 1 || ever != 1 || first.Seq != same.Seq {
		t.Fatalf("%d lent, %d ever", now, ever)
	}
	c.paint(all, 2)
	second := frame(t, b, all, false)
	plain(t, first, 1)
	plain(t, second, 2)
	first.Release()
	first.Release()
	if first.Pix != nil {
		t.Error("who released a frame can read on")
	}
	plain(t, same, 1)
	same.Release()
	if now, _ := c.out(); now != 1 {
		t.Errorf("%d lent for one frame", now)
	}
	c.paint(platform.Rect{Width: 10, Height: 10}, 3) // a part: the rest is copied
	third := frame(t, b, all, false)
	plain(t, second, 2)
	if at(third, 5, 5) != 3 || at(third, 20, 20) != 2 {
		t.Error("a part was painted, and the frame is another")
	}
	c.paint(all, 4)
	fourth := frame(t, b, all, false)
	c.paint(all, 5) // nothing is left to lend
	fifth := frame(t, b, all, false)
	plain(t, second, 2)
	plain(t, fourth, 4)
	plain(t, fifth, 5)
	if now, ever := c.out(); now != 3 || ever != 4 {
		t.Errorf("%d lent, %d ever", now, ever)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	plain(t, second, 2)
	for _, f := range []*platform.Frame{second, third, fourth, fifth} {
		f.Release()
	}
	if now, _ := c.out(); now != 0 {
		t.Errorf("%d lent after the end", now)
	}
}

// A large part is read with the rest of its area, which costs less than copying that.
func TestLargePartIsReadAsAWhole(t *testing.T) {
	c := newLender(300, 300, 3)
	b := New(c)
	defer b.Close()
	all := platform.Rect{Width: 300, Height: 300}
	frame(t, b, all, false).Release()
	c.took()
	for height, want := range map[int]platform.Rect{151: all, 20: {Width: 300, Height: 20}} {
		c.paint(platform.Rect{Width: 300, Height: height}, byte(height))
		f := frame(t, b, all, false)
		if got := c.took(); len(got) != 1 || got[0] != want || at(f, 5, height-1) != byte(height) {
			t.Errorf("%d rows were painted, and %v was read", height, got)
		}
		f.Release()
	}
}

// A lent frame is given back whatever ends it: an error, a new layout, views that are not looked at
// any more.
func TestLentMemoryComesBack(t *testing.T) {
	c := newLender(300, 300, 100)
	b := New(c)
	defer b.Close()
	all := platform.Rect{Width: 300, Height: 300}
	lent := func(when string, want int) {
		t.Helper()
		if now, _ := c.out(); now != want {
			t.Errorf("%s: %d lent, not %d", when, now, want)
		}
	}
	c.paint(all, 1)
	frame(t, b, all, false).Release()
	lent("at first", 1)

	broken := errors.New("broken")
	c.paint(all, 2)
	c.onGrab = func() {
		c.canvas.mu.Lock()
		defer c.canvas.mu.Unlock()
		c.onGrab, c.err = nil, broken
	}
	if _, err := b.Frame(within(t), all, false); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	lent("after an error", 1)
	if _, err := b.Frame(within(t), all, false); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	lent("after an error of what changed", 0)
	c.canvas.mu.Lock()
	c.err = nil
	c.canvas.mu.Unlock()

	held := frame(t, b, all, false)
	plain(t, held, 2)
	change := func() {
		c.canvas.mu.Lock()
		defer c.canvas.mu.Unlock()
		c.onGrab = nil
		c.layout.Epoch++
	}
	change()
	after := frame(t, b, all, false)
	lent("the layout changed, and the old frame is held", 2)
	plain(t, held, 2)
	held.Release()
	after.Release()
	lent("released", 1)

	c.paint(all, 3)
	c.onGrab = change // while it is read
	f := frame(t, b, all, false)
	plain(t, f, 3)
	if f.Epoch != c.layout.Epoch {
		t.Error("a frame of the old layout")
	}
	f.Release()
	lent("the layout changed while it was read", 1)

	b.trust = 0 // every look is put to the test
	c.onGrab = change
	frame(t, b, all, false).Release()
	lent("the layout changed while it was put to the test", 1)
	c.canvas.mu.Lock()
	for i := range c.pix {
		c.pix[i] = 7 // nobody tells
	}
	c.onGrab = nil
	c.canvas.mu.Unlock()
	c.onGrab = change
	f = frame(t, b, all, false)
	plain(t, f, 7)
	f.Release()
	lent("and the pixels were others", 1)

	for i := range 3 * maxViews {
		frame(t, b, platform.Rect{X: i, Width: 270, Height: 270}, false).Release()
	}
	lent("many areas", maxViews)
}

// After a while without use nothing is lent any more, but what somebody has.
func TestLentMemoryIsGivenBackWhenNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLender(300, 300, 3)
		b := New(c)
		all := platform.Rect{Width: 300, Height: 300}
		c.paint(all, 1)
		held := frame(t, b, all, false)
		time.Sleep(idle + time.Second)
		synctest.Wait()
		plain(t, held, 1)
		if now, _ := c.out(); now != 1 || c.trimmed != 1 {
			t.Errorf("%d lent, trimmed %d times", now, c.trimmed)
		}
		again := frame(t, b, all, false)
		if again.Seq != held.Seq {
			t.Error("the same pixels have another Seq")
		}
		plain(t, again, 1)
		held.Release()
		again.Release()
		if now, _ := c.out(); now != 1 {
			t.Errorf("%d lent", now)
		}
		_ = b.Close()
		if now, _ := c.out(); now != 0 {
			t.Errorf("%d lent after the end", now)
		}
	})
}

// Many look, some hold their frame a while, some follow the changes: no frame is written
// to while somebody has it.
func TestManyLookAtLentMemory(t *testing.T) {
	c := newLender(300, 300, 4)
	b := New(c)
	ctx, cancel := context.WithCancel(within(t))
	all := platform.Rect{Width: 300, Height: 300}
	c.paint(all, 0)
	var wg sync.WaitGroup
	changes, err := b.Changes(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		for range changes {
		}
	})
	for i := range 4 {
		wg.Go(func() {
			var last *platform.Frame
			defer func() { last.Release() }()
			seen := map[uint64]byte{}
			for ctx.Err() == nil {
				f, err := b.Frame(ctx, all, i%2 == 0)
				if err != nil {
					return
				}
				v, known := seen[f.Seq]
				if known && at(f, 299, 299) != v {
					t.Error("two frames with one Seq differ")
				}
				for y := range 300 {
					if at(f, 0, y) != at(f, 299, 299) {
						t.Error("a frame was written to while somebody had it")
						break
					}
				}
				seen[f.Seq] = at(f, 299, 299)
				if i == 0 {
					last, f = f, last
				}
				f.Release()
			}
		})
	}
	for i := range 200 {
		c.paint(all, byte(i))
		<-time.After(time.Millisecond) // so that some look between two
	}
	cancel()
	wg.Wait()
	_ = b.Close()
	if now, _ := c.out(); now != 0 {
		t.Errorf("%d lent after the end", now)
	}
}

// On a real server every frame is in memory that it wrote to itself.
func TestServersOwnMemory(t *testing.T) {
	desk.Need(t, "xsetroot")
	d, b := real(t, desk.Options{Size: "640x480", NoBus: true, NoWM: true})
	all := platform.Rect{Width: 640, Height: 480}
	var held []*platform.Frame
	for i, colour := range []string{"#010101", "#020202", "#030303", "#040404", "#050505", "#060606"} {
		d.Run("xsetroot", "-solid", colour)
		f := frame(t, b, all, false)
		plain(t, f, byte(i+1))
		held = append(held, f)
	}
	d.KillServer()
	_ = b.Close()
	for i, f := range held {
		plain(t, f, byte(i+1))
		f.Release()
	}
}
