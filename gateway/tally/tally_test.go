package tally

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

var start = time.Date(2026, 11, 30, 3, 0, 0, 123_000_000, time.UTC)

// No count is ever too small, none is larger than by the calls of one unit more than its window,
// and the minute is exact.
func TestNeverTooFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Book
		var at []time.Time
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "bursts") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "pause")))
			step := time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "step"))
			for range rapid.IntRange(1, 30).Draw(t, "calls") {
				now = now.Add(step)
				b.Add("p", "t", now)
				at = append(at, now)
			}
		}
		look := now.Add(time.Duration(rapid.Int64Range(0, int64(25*time.Hour)).Draw(t, "later")))
		within := func(w time.Duration) (n int64) {
			for _, a := range at {
				if a.UnixMilli() > look.Add(-w).UnixMilli() {
					n++
				}
			}
			return n
		}
		got := b.Of("p", "t", look)
		if got.Minute != within(time.Minute) {
			t.Errorf("%d in the last minute, want %d", got.Minute, within(time.Minute))
		}
		if least, most := within(time.Hour), within(time.Hour+time.Second); got.Hour < least || got.Hour > most {
			t.Errorf("%d in the last hour, want %d to %d", got.Hour, least, most)
		}
		if least, most := within(day), within(day+time.Minute+time.Second); got.Day < least || got.Day > most {
			t.Errorf("%d in the last day, want %d to %d", got.Day, least, most)
		}
		if other := b.Of("q", "t", look); other != (policy.Calls{}) {
			t.Errorf("another's: %+v", other)
		}
	})
}

// Counts fall at the moments that Next names, and at no other.
func TestWhenCountsFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b Book
		now := start
		for range rapid.IntRange(0, 40).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Minute)).Draw(t, "pause")))
			b.Add("p", "t", now)
		}
		was := b.Of("p", "t", now)
		for _, at := range b.Next("p", "t", now) {
			if before := b.Of("p", "t", at.Add(-time.Millisecond)); before != was {
				t.Fatalf("%+v became %+v before %s", was, before, at)
			}
			is := b.Of("p", "t", at)
			if is == was || is.Minute > was.Minute || is.Hour > was.Hour || is.Day > was.Day {
				t.Fatalf("at %s %+v became %+v", at, was, is)
			}
			was = is
		}
		if was != (policy.Calls{}) {
			t.Errorf("after all of them: %+v", was)
		}
	})
}

// Of any number of takers at once as many go on as may, and one that gives back makes room.
func TestTakersAtOnce(t *testing.T) {
	var b Book
	few := func(c policy.Calls) bool { return c.Minute < 7 }
	var took atomic.Int64
	var undo sync.Map
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if back, ok := b.Take("p", "t", start, few); ok {
				undo.Store(i, back)
				took.Add(1)
			}
		})
	}
	all.Wait()
	if took.Load() != 7 || b.Of("p", "t", start).Minute != 7 {
		t.Fatalf("%d went on, %+v", took.Load(), b.Of("p", "t", start))
	}
	undo.Range(func(_, back any) bool { back.(func())(); return false })
	if b.Of("p", "t", start) != (policy.Calls{Minute: 6, Hour: 6, Day: 6}) {
		t.Fatalf("%+v", b.Of("p", "t", start))
	}
	if _, ok := b.Take("p", "t", start.Add(time.Second), few); !ok {
		t.Error("what was given back makes no room")
	}
	if _, ok := b.Take("p", "t", start.Add(time.Second), few); ok {
		t.Error("one more than may")
	}
}

// Calls of before come in front of those since.
func TestRecall(t *testing.T) {
	var b Book
	b.Add("p", "t", start)
	b.Recall([]Past{{"p", "t", start.Add(-30 * time.Second)}, {"p", "t", start.Add(-50 * time.Minute)}, {"p", "u", start.Add(-time.Second)}})
	b.Add("p", "t", start.Add(time.Second))
	if got := b.Of("p", "t", start.Add(2*time.Second)); got != (policy.Calls{Minute: 3, Hour: 4, Day: 4}) {
		t.Errorf("%+v", got)
	}
	if got := b.Of("p", "t", start.Add(31*time.Second)); got != (policy.Calls{Minute: 2, Hour: 4, Day: 4}) {
		t.Errorf("half a minute later: %+v", got)
	}
	if got := b.Of("p", "u", start); got.Minute != 1 {
		t.Errorf("another tool: %+v", got)
	}
}

// A day of many calls a second keeps as many marks as there are moments to tell apart, and pairs
// that nobody calls any more go.
func TestBounds(t *testing.T) {
	var b Book
	for i := range 400_000 {
		b.Add("p", "t", start.Add(time.Duration(i)*200*time.Millisecond))
	}
	s := b.calls[pair{"p", "t"}]
	if n := len(s.marks); n > 2*(60*5+3600+24*60+100) {
		t.Errorf("%d marks", n)
	}
	for i := range 4 * leastPairs {
		b.Add(somebody(i), "t", start.Add(30*day+time.Duration(i)*time.Hour))
	}
	if len(b.calls) > 2*leastPairs {
		t.Errorf("%d pairs", len(b.calls))
	}
}

func somebody(i int) capabilities.PrincipalID {
	return capabilities.PrincipalID("p" + strconv.Itoa(i))
}
