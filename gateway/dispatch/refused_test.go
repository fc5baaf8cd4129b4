package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/taint"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/route"
)

// A caller who may read the policy is told which rule it was; nobody else is, and nobody who is the
// admin is told to ask one.
func TestWhoIsToldTheRule(t *testing.T) {
	h := newHouse(t, nodestest.New("n1"), nil)
	h.rules(permitAll + `@id("no-evaluate") forbid(principal, action == Action::"tool.browser.evaluate", resource);`)
	for role, named := range map[string]bool{"agent": false, "operator": false, "admin": true} {
		for _, args := range []string{`{"expression":"1"}`, `{"expression":"1","node_id":"n1"}`} {
			r := h.Call(t.Context(), Request{Caller: Caller{Principal: "who", Role: role, Lane: "main"}, Tool: toolEvaluate, Args: json.RawMessage(args)})
			if r.Status != capabilities.StatusDenied {
				t.Fatalf("%s: %+v", role, r)
			}
			text, _ := json.Marshal(r)
			if got := strings.Contains(r.Hint, "no-evaluate"); got != named {
				t.Errorf("%s, %s: the hint is %q", role, args, r.Hint)
			}
			if asked := strings.Contains(string(text), "Ask the admin"); asked == named {
				t.Errorf("%s, %s is told %s", role, args, text)
			}
			if a, ok := r.Details.(route.Ambiguity); ok && (a.Reason != route.WhyDenied || a.Detail != route.DetailNone) || r.Retryable {
				t.Errorf("%s: %+v, retryable %v", role, a, r.Retryable)
			}
		}
	}
}

// The only node is away for a moment: that passes, and the refusal says so.
func TestTheOnlyNodeIsAway(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Connected = false
	h := newHouse(t, nodes, nil)
	r := h.evaluate("r1")
	want(t, r, capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if a := r.Details.(route.Ambiguity); a.Reason != route.WhyNotReady || !r.Retryable {
		t.Errorf("%+v, retryable %v", a, r.Retryable)
	}
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	nodes.Connect(0, true)
	want(t, h.evaluate("r1"), capabilities.StatusOK, "")
}

// A gateway that has just started waits a second for its nodes; a later one does not.
func TestAStartWaitsForItsNodes(t *testing.T) {
	for name, c := range map[string]struct {
		after, back time.Duration
		ok          bool
		took        time.Duration
	}{
		"back in time":        {0, 400 * time.Millisecond, true, 400 * time.Millisecond},
		"not back in time":    {0, time.Minute, false, comeBack},
		"away later":          {justStarted + time.Second, 400 * time.Millisecond, false, 0},
		"a call some seconds": {justStarted - time.Second, 400 * time.Millisecond, true, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Roster[0].Connected = false
			h := newHouse(t, nodes, func(o *Options) { o.AwaitNodes = true })
			h.stop() // it waits for changes of the roster, too, and not in the bubble
			synctest.Test(t, func(t *testing.T) {
				nodes.Rebind() // it belongs to the bubble from here on
				d := &Dispatcher{opts: h.opts, served: time.Now(), executions: execution.NewTable(), taints: taint.New()}
				time.Sleep(c.after)
				began := time.Now()
				time.AfterFunc(c.back, func() { nodes.Connect(0, true) })
				desc, _ := h.opts.Registry.Get(toolEvaluate)
				r := Request{Caller: agentCaller, Tool: toolEvaluate}
				_, err := d.place(context.Background(), &resolved{trail: newTrail(&r, began), req: r, desc: desc})
				if (err == nil) != c.ok || time.Since(began) != c.took {
					t.Errorf("%v after %s, want ok %v after %s", err, time.Since(began), c.ok, c.took)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
