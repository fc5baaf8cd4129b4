package dispatch

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
)

// A remembered answer of policy holds as long as all that policy sees is the same, and not a moment
// longer.
func TestPossibleIsRememberedExactly(t *testing.T) {
	h := newHouse(t, nodestest.New("n1", "n2"), nil)
	desc, _ := h.cat.Get(toolEvaluate)
	noon := time.Unix(1_800_000_000, 0)
	h.rules(permitAll + fmt.Sprintf(`
		forbid(principal, action, resource) when { context.time > %d };
		forbid(principal, action, resource) when { context.taint.contains("web") };
		forbid(principal == Agent::"agent-2", action, resource);
		forbid(principal, action, resource == Node::"n2");`, noon.Unix()+5))
	roster := h.nodes.Snapshot()
	ask := func(engine *policy.Engine, caller Caller, at time.Time, node int, taint ...string) policy.Effect {
		l := h.list(engine, caller, roster)
		l.at, l.taint, l.key = at, taint, fmt.Sprint(taint)
		l.common.second = at.Unix()
		return l.possible(desc, &roster[node]).Effect
	}
	other := agentCaller
	other.Principal = "agent-2"
	first := h.engine.Load()
	for range 2 { // evaluated, then remembered
		for name, c := range map[string]struct{ got, want policy.Effect }{
			"the caller":         {ask(first, agentCaller, noon, 0), policy.Allow},
			"a part of a second": {ask(first, agentCaller, noon.Add(900*time.Millisecond), 0), policy.Allow},
			"another caller":     {ask(first, other, noon, 0), policy.Deny},
			"another node":       {ask(first, agentCaller, noon, 1), policy.Deny},
			"a tainted lane":     {ask(first, agentCaller, noon, 0, "web"), policy.Deny},
			"later":              {ask(first, agentCaller, noon.Add(6*time.Second), 0), policy.Deny},
		} {
			if c.got != c.want {
				t.Errorf("%s: %v, want %v", name, c.got, c.want)
			}
		}
	}
	h.rules(`forbid(principal, action, resource);`)
	if got := ask(h.engine.Load(), agentCaller, noon, 0); got != policy.Deny {
		t.Errorf("under other rules: %v", got)
	}
	if got := ask(first, agentCaller, noon, 0); got != policy.Allow {
		t.Errorf("under the first again: %v", got)
	}

	// It is remembered, for the snapshot it was said of, and within bounds.
	key := possible{caller: agentCaller, taint: "[]", tool: desc.Tool, node: "n1"}
	h.possibles.seen[key] = policy.Decision{Effect: policy.Ask}
	if got := ask(first, agentCaller, noon, 0); got != policy.Ask {
		t.Errorf("what was said a moment ago: %v", got)
	}
	roster = h.nodes.Snapshot()
	if got := ask(first, agentCaller, noon, 0); got != policy.Allow {
		t.Errorf("of another snapshot: %v", got)
	}
	var callers sync.WaitGroup
	for w := range 8 {
		callers.Go(func() {
			for i := range maxPossible / 4 {
				c := agentCaller
				c.Lane = capabilities.LaneID(fmt.Sprint("lane-", w, "-", i))
				if got := ask(first, c, noon, 0); got != policy.Allow {
					t.Errorf("%s: %v", c.Lane, got)
				}
			}
		})
	}
	callers.Wait()
	if n := len(h.possibles.seen); n > maxPossible {
		t.Errorf("%d are remembered", n)
	}
}
