package capture

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

func TestChanges(t *testing.T) {
	for name, grabber := range map[string]func(*canvas) platform.Grabber{
		"told":   func(c *canvas) platform.Grabber { return teller{c} },
		"stream": func(c *canvas) platform.Grabber { return c },
		"blind":  func(c *canvas) platform.Grabber { return blind{c} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCanvas(100, 80)
			b := New(grabber(c))
			defer b.Close()
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			area := platform.Rect{X: 10, Y: 10, Width: 50, Height: 50}
			ch, err := b.Changes(ctx, area)
			if err != nil {
				t.Fatal(err)
			}
			other, err := b.Changes(ctx, platform.Rect{X: 90, Y: 70, Width: 10, Height: 10})
			if err != nil {
				t.Fatal(err)
			}
			c.paint(platform.Rect{X: 0, Y: 0, Width: 10, Height: 10}, 1) // beside it
			c.paint(platform.Rect{X: 20, Y: 20, Width: 9, Height: 9}, 0) // the same as before
			want := platform.Rect{X: 55, Y: 30, Width: 5, Height: 2}
			c.paint(platform.Rect{X: 55, Y: 30, Width: 20, Height: 2}, 2)
			if got := next(t, ch); got != want {
				t.Errorf("told %v, want %v", got, want)
			}
			// A slow receiver gets both joined.
			c.paint(platform.Rect{X: 12, Y: 12, Width: 1, Height: 1}, 3)
			c.paint(platform.Rect{X: 14, Y: 15, Width: 1, Height: 1}, 3)
			var joined platform.Rect
			for joined != (platform.Rect{X: 12, Y: 12, Width: 3, Height: 4}) {
				joined = joined.Union(next(t, ch))
			}
			select {
			case r := <-other:
				t.Errorf("another area was told %v", r)
			default:
			}
			cancel()
			for range ch {
			}
			for range other {
			}
			b.watch.mu.Lock()
			defer b.watch.mu.Unlock()
			if b.watch.stop != nil || len(b.watch.subs) != 0 {
				t.Error("damage is still received")
			}
		})
	}
}

// Where damage turned out not to be told, who waits for changes looks by itself.
func TestChangesWithoutTrust(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	b.trust = 0
	defer b.Close()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	all := platform.Rect{Width: 10, Height: 10}
	first, err := b.Changes(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	silently := func(v byte) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pix[0] = v
	}
	silently(1)
	frame(t, b, all, false) // finds it out
	if got := next(t, first); got.Empty() {
		t.Errorf("told %v", got)
	}
	silently(2)
	if got := next(t, first); got.Empty() {
		t.Errorf("told %v", got)
	}
	later, err := b.Changes(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	silently(3)
	next(t, later)
	cancel()
	for range first {
	}
	for range later {
	}
}

// Alerts tell of what may have been painted in an area, and read nothing for it.
func TestAlerts(t *testing.T) {
	for name, grabber := range map[string]func(*canvas) platform.Grabber{
		"told":  func(c *canvas) platform.Grabber { return teller{c} },
		"blind": func(c *canvas) platform.Grabber { return blind{c} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCanvas(100, 80)
			b := New(grabber(c))
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			alert := func(ch <-chan struct{}) {
				t.Helper()
				select {
				case _, ok := <-ch:
					if !ok {
						t.Fatal("the alerts ended")
					}
				case <-time.After(patience):
					t.Fatal("no alert")
				}
			}
			ch, err := b.Alerts(ctx, platform.Rect{X: 10, Y: 10, Width: 50, Height: 50})
			if err != nil {
				t.Fatal(err)
			}
			other, err := b.Alerts(ctx, platform.Rect{X: 90, Y: 70, Width: 10, Height: 10})
			if err != nil {
				t.Fatal(err)
			}
			c.paint(platform.Rect{X: 20, Y: 20, Width: 9, Height: 9}, 5)
			alert(ch)
			if name == "told" { // who polls is told of everything
				select {
				case <-other:
					t.Error("another area was alerted")
				default:
				}
			}
			c.paint(platform.Rect{X: 20, Y: 20, Width: 9, Height: 9}, 6)
			alert(ch)
			if read := c.took(); read != nil {
				t.Errorf("read %v", read)
			}
			b.watch.distrust() // from now on nobody waits to be told
			alert(ch)
			alert(ch)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			for range ch { // they end
			}
			cancel()
			for range other {
			}
			if _, err := b.Alerts(within(t), platform.Rect{Width: 1, Height: 1}); !errors.Is(err, platform.ErrLost) {
				t.Errorf("after the end: %v", err)
			}
			b.watch.mu.Lock()
			defer b.watch.mu.Unlock()
			if b.watch.stop != nil || len(b.watch.subs) != 0 {
				t.Error("damage is still received")
			}
		})
	}
}

func next(t *testing.T, ch <-chan platform.Rect) platform.Rect {
	t.Helper()
	select {
	case r, ok := <-ch:
		if !ok {
			t.Fatal("the changes ended")
		}
		return r
	case <-time.After(patience):
		t.Fatal("no change was told")
	}
	return platform.Rect{}
}

func TestLossEndsSubscriptions(t *testing.T) {
	c := newCanvas(10, 10)
	b := New(teller{c})
	defer b.Close()
	ch, err := b.Changes(within(t), platform.Rect{Width: 10, Height: 10})
	if err != nil {
		t.Fatal(err)
	}
	close(c.damage)
	for range ch {
	}
	if _, err := b.Changes(within(t), platform.Rect{Width: 10, Height: 10}); !errors.Is(err, platform.ErrLost) {
		t.Errorf("%v", err)
	}
	_ = b.Close()
	if _, err := b.Frame(within(t), platform.Rect{Width: 10, Height: 10}, false); !errors.Is(err, platform.ErrLost) {
		t.Errorf("%v", err)
	}
}
