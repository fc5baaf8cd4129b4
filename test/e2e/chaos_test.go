package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// saw is what one caller was told.
type saw struct {
	request string // "" without a request ID
	text    string
	result  capabilities.Result
}

// storm makes calls of every kind from many goroutines.
type storm struct {
	h       *house
	handler *site.Handler
	nodes   []capabilities.NodeID
	left    atomic.Int64 // calls still to make
	next    atomic.Int64 // for texts that nobody else uses

	mu  sync.Mutex
	all []saw
}

// Calls of all kinds, retried, cancelled and abandoned at random, on
// nodes that come and go.
func TestStorm(t *testing.T) { storms(t, 1000) }

func TestStormAtLength(t *testing.T) { storms(t, 5000) }

func storms(t *testing.T, calls int) {
	t.Parallel()
	const callers = 64
	h := start(t, site.Options{})
	s := &storm{h: h, handler: site.NewHandler()}
	s.left.Store(int64(calls))
	pair := []*site.Node{h.AddNode("one", s.handler), h.AddNode("two", s.handler)}
	for _, n := range pair {
		s.nodes = append(s.nodes, n.ID)
	}
	for lane, n := range map[capabilities.LaneID]*site.Node{"first": pair[0], "second": pair[1]} {
		_, err := h.Lanes.Attach(ctx(), principal.Identity{Principal: "agent", Role: principal.RoleAdmin, Lane: lane}, lane, n.ID)
		must(t, err)
	}
	var working sync.WaitGroup
	for i := range callers {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for s.left.Load() > 0 {
				s.gust(rng)
			}
		})
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	rng, restarts := rand.New(rand.NewPCG(99, 7)), 0
	for calm := false; !calm; restarts++ {
		select {
		case <-done:
			calm = true
		case <-time.After(time.Duration(rng.Int64N(int64(80 * time.Millisecond)))):
			n := pair[restarts%2]
			n.Stop()
			n.Start()
		}
	}
	s.judge(calls, restarts)
}

// gust is one request with whatever retries it gets.
func (s *storm) gust(rng *rand.Rand) {
	n := s.next.Add(1)
	text := fmt.Sprint("t", n)
	tool, args := site.ToolEcho, fmt.Sprintf(`"text":%q`, text)
	switch rng.IntN(10) {
	case 0:
		tool, args = site.ToolImage, args+fmt.Sprintf(`,"size":%d`, 1+rng.IntN(50_000))
	case 1:
		tool, args = site.ToolFail, args+fmt.Sprintf(`,"code":%q`, []string{"panic", "element_not_found", "nonsense"}[rng.IntN(3)])
	case 2, 3:
		tool, args = site.ToolSlow, args+fmt.Sprintf(`,"timeout_ms":%d`, 50+rng.IntN(300))
		if rng.IntN(2) == 0 {
			s.handler.Finish(text)
		}
	case 4:
		if rng.IntN(4) == 0 {
			args = `"text":5`
		}
	}
	lane := capabilities.LaneID("main")
	switch rng.IntN(4) {
	case 0:
		lane = "first"
	case 1:
		lane = "second"
	case 2:
		args += fmt.Sprintf(`,"node_id":%q`, s.nodes[rng.IntN(2)])
	}
	request, times := "", 1
	if rng.IntN(4) > 0 {
		request, times = text, 1+rng.IntN(3)
	}
	var retries sync.WaitGroup
	for range times {
		c, cancel := ctx(), func() {}
		if rng.IntN(8) == 0 {
			c, cancel = context.WithTimeout(c, time.Duration(rng.Int64N(int64(10*time.Millisecond))))
		}
		call := func() {
			defer cancel()
			s.left.Add(-1)
			r := s.h.Dispatcher.Call(c, dispatch.Request{
				Caller: dispatch.Caller{Principal: "agent", Role: "agent", Lane: lane}, Tool: tool, Args: []byte("{" + args + "}"),
				RequestID: capabilities.RequestID(request), Surface: "test", Progress: func(capabilities.Progress) {},
			})
			s.mu.Lock()
			s.all = append(s.all, saw{request, text, r})
			s.mu.Unlock()
		}
		if rng.IntN(2) == 0 {
			call()
		} else {
			retries.Go(call)
		}
	}
	retries.Wait()
}

// judge holds what callers were told against what ran and what was written down.
func (s *storm) judge(calls, restarts int) {
	t := s.h.t
	ledger := s.h.check()
	ordered, executed := 0, 0
	for _, st := range ledger {
		if st.has("dispatch") {
			ordered++
		}
	}
	for n := int64(1); n <= s.next.Load(); n++ {
		runs := s.handler.Runs(fmt.Sprint("t", n))
		if executed += runs; runs > 1 {
			t.Errorf("grave: t%d ran %d times", n, runs)
		}
	}
	if executed > ordered {
		t.Errorf("grave: %d executions, but only %d were ordered", executed, ordered)
	}
	codes, unseen := map[capabilities.Code]int{}, uint64(0)
	outcome := map[string]capabilities.CallID{} // of a request ID: the call that ran
	// A call that never started frees its request ID, so a later call of the same text may have
	// run: one that was ordered and was not told that it had not.
	ran := map[string]bool{}
	for _, a := range s.all {
		if st := ledger[a.result.Call]; st != nil && st.has("dispatch") && st.end() != capabilities.CodeNodeDisconnected {
			ran[a.text] = true
		}
	}
	for _, a := range s.all {
		codes[a.result.Code]++
		r, st := a.result, ledger[a.result.Call]
		switch {
		case r.Status == capabilities.StatusOK:
			if st == nil || !st.has("result") && !st.has("reconciled") {
				t.Errorf("%s was told ok, the ledger says %+v", a.text, st)
			}
			if s.handler.Runs(a.text) != 1 {
				t.Errorf("grave: %s was told ok and ran %d times", a.text, s.handler.Runs(a.text))
			}
			if was, seen := outcome[a.request]; a.request != "" && seen && was != r.Call {
				t.Errorf("grave: request %s has two outcomes, %s and %s", a.request, was, r.Call)
			}
			outcome[a.request] = r.Call
		case r.Code == capabilities.CodeNodeDisconnected && s.handler.Runs(a.text) != 0 && !ran[a.text]:
			t.Errorf("grave: %s was told that nothing was executed, and ran", a.text)
		case r.Code == capabilities.CodeCancelled:
			// The caller left; somebody else may have the result.
		case st == nil && r.Code == capabilities.CodeOverloaded:
			unseen++ // so many calls were refused that this one was only counted
		case st == nil:
			t.Errorf("grave: %s was told %s, and the ledger knows nothing of it", a.text, r.Code)
		case st.end() != r.Code:
			t.Errorf("%s was told %s, the ledger says %s", a.text, r.Code, st.end())
		}
	}
	t.Logf("%d calls, %d executions, %d node restarts: %v", len(s.all), executed, restarts, codes)
	if len(s.all) < calls || restarts < 3 || codes[""] < calls/10 {
		t.Error("that was no storm")
	}
	s.h.Restart() // what was counted is written down at the end
	if told := s.h.muted(); told != unseen {
		t.Errorf("%d calls were refused without a look, the ledger says %d", unseen, told)
	}
}
