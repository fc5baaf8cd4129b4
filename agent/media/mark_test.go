package media

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// markWords collects what a session says of marks.
type markWords chan []capabilities.Mark

func (w markWords) invocation() capabilities.Invocation {
	return capabilities.Invocation{Capability: screenLive, Progress: func(p capabilities.Progress) {
		var word Marked
		if json.Unmarshal(p.Data, &word) == nil {
			w <- word.Marks
		}
	}}
}

func (w markWords) is(t *testing.T, want ...capabilities.Mark) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-w:
		if !slices.Equal(got, want) {
			t.Errorf("told %+v, want %+v", got, want)
		}
	default:
		t.Errorf("told nothing, want %+v", want)
	}
	if len(w) > 0 {
		t.Errorf("told more: %+v", <-w)
	}
}

func (w markWords) nothing(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if len(w) > 0 {
		t.Errorf("told %+v", <-w)
	}
}

// Each viewer is told where calls act on what it sees, the newest and no queue, and that
// they do no more; who watches another display is told nothing.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(Options{Opener: &still{}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		left, again, right, unknown := make(markWords, 64), make(markWords, 64), make(markWords, 64), make(markWords, 64)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for to, area := range map[*markWords]platform.Rect{&left: {Width: 1000, Height: 500}, &again: {Width: 1000, Height: 500}, &right: {X: 1000, Width: 200, Height: 100}, &unknown: {}} {
			go h.tell(ctx, &source{h: h, area: area}, to.invocation())
		}
		left.nothing(t)

		// A point and an element, to both who see them.
		h.Acting("c1", platform.Rect{X: 250, Y: 499, Width: 1, Height: 1})
		point := capabilities.Mark{Call: "c1", X: .2505, Y: .999}
		left.is(t, point)
		again.is(t, point)
		right.nothing(t)
		h.Acting("c2", platform.Rect{X: 900, Y: 10, Width: 200, Height: 40})
		time.Sleep(tellEvery)
		box := capabilities.Mark{Call: "c2", X: .9, Y: .02, Width: .1, Height: .08}
		left.is(t, point, box)
		again.is(t, point, box)
		right.is(t, capabilities.Mark{Call: "c2", X: 0, Y: .1, Width: .5, Height: .4}) // as much of it as is there

		// It stays as long as its call, whatever others do.
		time.Sleep(time.Minute)
		h.Acting("c2")
		left.is(t, point)
		again.is(t, point)
		right.is(t)
		h.Acting("c2")
		h.Acting("never")
		left.nothing(t)
		h.Acting("c1")
		time.Sleep(tellEvery)
		left.is(t)
		again.is(t)

		// A mark that takes no time is seen for a while, or until the next.
		time.Sleep(time.Minute)
		h.Acting("c3", platform.Rect{Width: 500, Height: 250})
		h.Acting("c3")
		left.is(t, capabilities.Mark{Call: "c3", Width: .5, Height: .5})
		time.Sleep(markTime - time.Millisecond)
		left.nothing(t)
		time.Sleep(time.Millisecond)
		left.is(t)
		h.Acting("c4", platform.Rect{Width: 500, Height: 250})
		h.Acting("c4")
		h.Acting("c5", platform.Rect{X: 500, Width: 500, Height: 250})
		time.Sleep(tellEvery)
		synctest.Wait()
		for len(left) > 1 { // c4 may have been told before
			<-left
		}
		left.is(t, capabilities.Mark{Call: "c5", X: .5, Width: .5, Height: .5})
		h.Acting("c5")
		time.Sleep(markTime)
		left.is(t)

		// Calls that come and go faster than they are told: the newest, boundedly many.
		for len(again) > 0 {
			<-again
		}
		for i := range 1000 {
			h.Acting(capabilities.CallID(fmt.Sprint("d", i)), platform.Rect{X: i, Width: 10, Height: 5}, platform.Rect{X: i, Y: 10, Width: 10, Height: 5}, platform.Rect{Y: 20, Width: 10, Height: 5})
		}
		time.Sleep(tellEvery)
		synctest.Wait()
		if n := len(left); n > 2 {
			t.Errorf("%d words about a thousand calls", n)
		}
		var last []capabilities.Mark
		for len(left) > 0 {
			last = <-left
		}
		if len(last) != maxMarks*maxPlaces || last[len(last)-1].Call != "d999" || last[0].Call != "d996" {
			t.Errorf("of a thousand calls it is told %+v", last)
		}
		unknown.nothing(t)
		h.marks.mu.Lock()
		if len(h.marks.calls) != maxMarks {
			t.Errorf("%d calls are kept", len(h.marks.calls))
		}
		h.marks.mu.Unlock()
	})
}

// A session says it beside its answer; sensors, where nobody acts, say nothing.
func TestMarksOfASession(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1)}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	marks := make(chan []capabilities.Mark, 8)
	one := watchWith(t, h, newViewer(t), func(answer string) string { return answer }, func(data json.RawMessage) {
		var word Marked
		if json.Unmarshal(data, &word) == nil && word.Marks != nil {
			marks <- word.Marks
		}
	})
	await(t, "first frame", one.frames)
	h.Acting("c1", platform.Rect{X: 80, Y: 48, Width: 40, Height: 24})
	if got := await(t, "the mark", marks); !slices.Equal(got, []capabilities.Mark{{Call: "c1", X: .5, Y: .5, Width: .25, Height: .25}}) {
		t.Fatalf("told %+v", got)
	}
	h.Acting("c1")
	if got := await(t, "its end", marks); len(got) != 0 {
		t.Errorf("after its end: %+v", got)
	}
	one.cancel()
	await(t, "end", one.end)
	h.Acting("c2", platform.Rect{X: 80, Y: 48, Width: 40, Height: 24})
	if len(marks) > 0 { // nothing of the session runs any more
		t.Errorf("a session that has ended is told %+v", <-marks)
	}
}
