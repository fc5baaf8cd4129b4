package capture

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

const (
	// least is the time between two looks of a subscriber: 60 a second show all
	// that a display shows.
	least = time.Second / 60
	// poll is how often is looked where nothing tells of damage.
	poll = 100 * time.Millisecond
)

// watch hands the damage to those who subscribed. While there are none, nobody
// asks for it.
type watch struct {
	mu     sync.Mutex // above what follows
	subs   map[*sub]bool
	stop   chan struct{} // ends the goroutine that receives damage; nil: there is none
	missed bool          // damage was not told of: who waits looks from time to time, too
	closed bool
}

// sub is a subscriber.
type sub struct {
	area platform.Rect
	wake chan struct{} // cap 1: there was damage
	end  chan struct{} // closed when the bus or the connection ended
}

func newWatch() watch { return watch{subs: map[*sub]bool{}} }

// Changes delivers, until ctx or the connection ends, the areas in which pixels
// really changed: what was painted over with the same is not told.
func (b *Bus) Changes(ctx context.Context, area platform.Rect) (<-chan platform.Rect, error) {
	s := &sub{area: area, wake: make(chan struct{}, 1), end: make(chan struct{})}
	damage := b.g.Damage()
	if !b.watch.add(s, damage) {
		return nil, platform.ErrLost
	}
	seen, err := b.Frame(ctx, area, false)
	if err != nil {
		b.watch.remove(s)
		return nil, err
	}
	out := make(chan platform.Rect)
	go func() {
		defer close(out)
		defer b.watch.remove(s)
		b.follow(ctx, s, seen, damage == nil || b.watch.distrusted(), out)
	}()
	return out, nil
}

// Alerts delivers, until ctx or the connection ends, that area may have been painted,
// or every poll where nothing tells of it. No pixel is read.
func (b *Bus) Alerts(ctx context.Context, area platform.Rect) (<-chan struct{}, error) {
	s := &sub{area: area, wake: make(chan struct{}, 1), end: make(chan struct{})}
	damage := b.g.Damage()
	if !b.watch.add(s, damage) {
		return nil, platform.ErrLost
	}
	out := make(chan struct{})
	go func() {
		defer close(out)
		defer b.watch.remove(s)
		var polls <-chan time.Time
		var deliver chan<- struct{}
		for {
			if polls == nil && (damage == nil || b.watch.distrusted()) {
				t := time.NewTicker(poll)
				defer t.Stop()
				polls = t.C
			}
			select {
			case <-s.wake:
				deliver = out
			case <-polls:
				deliver = out
			case deliver <- struct{}{}:
				deliver = nil
			case <-s.end:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (w *watch) add(s *sub, damage <-chan platform.Rect) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.subs[s] = true
	if damage != nil && w.stop == nil {
		w.stop = make(chan struct{})
		go w.receive(damage, w.stop)
	}
	return true
}

func (w *watch) remove(s *sub) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.subs, s)
	if len(w.subs) == 0 && w.stop != nil {
		close(w.stop)
		w.stop = nil
	}
}

// distrust has every subscriber look from time to time from now on.
func (w *watch) distrust() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = true
	for s := range w.subs {
		s.note(platform.Rect{})
	}
}

func (w *watch) distrusted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.missed
}

// close ends every subscription.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	for s := range w.subs {
		close(s.end)
	}
}

func (w *watch) receive(damage <-chan platform.Rect, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case r, ok := <-damage:
			if !ok {
				w.close()
				return
			}
			w.mu.Lock()
			for s := range w.subs {
				s.note(r)
			}
			w.mu.Unlock()
		}
	}
}

// note hears of damage; the empty Rect, a new layout, is damage everywhere.
func (s *sub) note(r platform.Rect) {
	if !r.Empty() && r.Intersect(s.area).Empty() {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// follow looks when there was damage, and tells what is different.
func (b *Bus) follow(ctx context.Context, s *sub, seen *platform.Frame, polls bool, out chan<- platform.Rect) {
	var (
		changed platform.Rect // not delivered yet
		hurt    = polls       // there may be something new to see
		rested  = false       // the least time since the last look is over
		pause   = least
	)
	if polls {
		pause = poll
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer func() { seen.Release() }()
	for {
		if hurt && rested {
			now, err := b.Frame(ctx, s.area, false)
			if err != nil {
				return
			}
			if now.Seq != seen.Seq {
				changed = changed.Union(differ(s.area, now.Pix, now.Stride, seen))
				seen, now = now, seen
			}
			now.Release()
			if !polls && b.watch.distrusted() {
				polls, pause = true, poll
			}
			hurt, rested = polls, false
			timer.Reset(pause)
		}
		var deliver chan<- platform.Rect
		if !changed.Empty() {
			deliver = out
		}
		select {
		case <-s.wake:
			hurt = true
		case <-timer.C:
			rested = true
		case deliver <- changed:
			changed = platform.Rect{}
		case <-s.end:
			return
		case <-ctx.Done():
			return
		}
	}
}
