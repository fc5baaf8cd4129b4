//go:build linux

package browser

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Every stdio client is a lane of its own and goes away without a word: a node
// must not be full of conversations that ended.
func TestIdleLanesMakeRoom(t *testing.T) {
	t.Parallel()
	n := newNodeAlone(t)
	n.h.o.MaxLanes = 2
	one, two, three := n.on("one"), n.on("two"), n.on("three")
	for _, l := range []*node{one, two} {
		l.must("navigate", map[string]any{"url": "data:text/html,<title>mine</title>"})
	}
	if _, err := three.try("tabs", map[string]any{}); err == nil || err.Code != capabilities.CodeOverloaded {
		t.Fatalf("a lane in use was given away: %v", err)
	}
	aged := n.h.lanes["one"]
	aged.mu.Lock()
	aged.used = time.Now().Add(-2 * minIdle)
	aged.mu.Unlock()
	three.must("navigate", map[string]any{"url": "data:text/html,<title>third</title>"})
	if got := two.must("evaluate", map[string]any{"expression": "document.title"}); got.m["result"] != "mine" {
		t.Fatalf("the lane in use lost its page: %v", got.m)
	}
	n.h.mu.Lock()
	_, kept := n.h.lanes["one"]
	n.h.mu.Unlock()
	if kept {
		t.Fatal("the idle lane was kept")
	}
}

// A Chrome that was started ahead is the one that the first call works in, and ends if
// none comes.
func TestWarm(t *testing.T) {
	t.Parallel()
	n := newNodeAlone(t)
	n.h.o.IdleTimeout = time.Hour
	n.h.Warm(t.Context())
	n.h.mu.Lock()
	started := n.h.chromes[true]
	n.h.mu.Unlock()
	if started == nil || !started.Alive() {
		t.Fatal("no Chrome was started")
	}
	n.must("navigate", map[string]any{"url": "data:text/html,<title>mine</title>"})
	if n.process() != started {
		t.Error("the call started another one")
	}
	n.must("close", map[string]any{})
	n.h.CloseLane("lane-1")
	n.h.o.IdleTimeout = time.Millisecond
	n.h.Warm(t.Context())
	select {
	case <-started.Conn.Done():
	case <-time.After(patience):
		t.Error("nobody came to use it, and it stayed")
	}
}

// A lane whose turn is taken is in use, however long ago its call began.
func TestRunningCallKeepsItsLane(t *testing.T) {
	t.Parallel()
	n := newNodeAlone(t)
	n.must("navigate", map[string]any{"url": "data:text/html,x"})
	l := n.h.lanes["lane-1"]
	l.turn <- struct{}{}
	l.mu.Lock()
	l.used = time.Now().Add(-time.Hour)
	l.mu.Unlock()
	n.h.mu.Lock()
	closed := n.h.expireLocked(minIdle, 1)
	n.h.mu.Unlock()
	if closed {
		t.Fatal("a lane was closed under its call")
	}
	<-l.turn
	n.h.mu.Lock()
	closed = n.h.expireLocked(minIdle, 1)
	n.h.mu.Unlock()
	if !closed {
		t.Fatal("an idle lane was not closed")
	}
	if got := n.must("tabs", map[string]any{}); got.m["active_index"] != float64(-1) && len(got.m["tabs"].([]any)) > 1 {
		t.Fatalf("the lane came back with old pages: %v", got.m)
	}
}
