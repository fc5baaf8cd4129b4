//go:build linux

package browser

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Two lanes share nothing.
func TestLanes(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<button>B</button>")})
	a := newNode(t, s.URL)
	b := a.on("lane-2")
	a.goTo(s.URL + "/")
	b.goTo(s.URL + "/")
	a.eval("document.cookie='who=a'; localStorage.k='a'; caches.open('c').then(()=>1)")
	if got := b.eval("document.cookie + (localStorage.k||'') + (await caches.keys()).length"); got != "0" {
		t.Errorf("lane 2 sees %v", got)
	}
	if c := b.must("tabs", obj{}); len(c.m["tabs"].([]any)) != 1 {
		t.Error("lane 2 sees other tabs:", c.json)
	}
	if a.process() != b.process() {
		t.Error("two browsers were started")
	}
	ref := a.ref("B")
	b.refused(capabilities.CodeStaleRef, "click", obj{"ref": ref})
	// A hanging call of one lane does not hold up the other.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		a.within(ctx, "navigate", obj{"url": s.URL + "/hang"})
		close(done)
	}()
	for s.count("/hang") == 0 {
		b.eval("1")
	}
	b.snap()
	// Closing a lane ends its call and its pages, not the other's.
	a.h.CloseLane(a.lane)
	<-done
	cancel()
	if got := b.eval("1+1"); got != 2.0 {
		t.Error(got)
	}
	a.goTo(s.URL + "/")
	if got := a.eval("document.cookie"); got != "" {
		t.Errorf("cookies survived the lane: %v", got)
	}
	a.must("close", obj{})
	a.must("close", obj{})
}

func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": smallPage})
	n := newNode(t, s.URL)
	var wg sync.WaitGroup
	for i := range 6 {
		lane := n.on(capabilities.LaneID(fmt.Sprint("l", i%3)))
		wg.Go(func() {
			for range 3 {
				if _, err := lane.try("navigate", obj{"url": s.URL + "/"}); err != nil {
					t.Error(err)
				}
				if _, err := lane.try("snapshot", obj{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Calls that wait while the lane is closed by its own tool get a new browser; a
// closing handler ends them.
func TestCloseWhileWaiting(t *testing.T) {
	t.Parallel()
	n := newNodeAlone(t)
	n.goTo("about:blank")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var err *capabilities.Error
			if i%2 == 0 {
				_, err = n.try("close", obj{})
			} else {
				_, err = n.try("evaluate", obj{"expression": "1"})
			}
			// An evaluate that left the lane's turn may be hit by the close.
			if err != nil && err.Code != capabilities.CodeCancelled {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n.goTo("about:blank")
	done := make(chan *capabilities.Error, 2)
	for _, lane := range []capabilities.LaneID{n.lane, "other"} {
		go func() {
			_, err := n.on(lane).try("evaluate", obj{"expression": "new Promise(()=>{})"})
			done <- err
		}()
	}
	if err := n.h.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-done; err == nil {
			t.Error("a call outlived its handler")
		}
	}
}
