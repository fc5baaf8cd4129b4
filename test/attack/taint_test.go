package attack

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/test/site"
)

func requestOf(lane capabilities.LaneID, tool capabilities.ToolID, args string) dispatch.Request {
	return dispatch.Request{Caller: caller("agent", lane), Tool: tool, Args: []byte(args), Surface: "test"}
}

// An agent that has read what strangers wrote does not shed that by calling its lane
// another name; what policy forbids to it then does not run, and a restart forgets nothing.
// Another agent, in a lane of its own, is not held for it.
func TestAnotherLaneNameShedsNoTaint(t *testing.T) {
	a := enter(t, site.Options{Rules: site.Rules +
		`@id("clean-only") forbid (principal, action == Action::"tool.fixture.image", resource) when { context.taint.contains("fixture") };`})
	a.node.AwaitReady()
	image := func(who capabilities.PrincipalID, lane capabilities.LaneID, text string) capabilities.Status {
		r := requestOf(lane, site.ToolImage, `{"text":"`+text+`","size":10}`)
		r.Principal = who
		return a.Dispatcher.Call(t.Context(), r).Status
	}
	if got := image("agent", "before", "clean"); got != capabilities.StatusOK {
		t.Fatalf("before: %s", got)
	}
	if r := a.Dispatcher.Call(t.Context(), requestOf("agent", site.ToolEcho, `{"text":"untrusted words of a page"}`)); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	tried := func(when string) {
		t.Helper()
		for _, lane := range []capabilities.LaneID{"agent", "another", "before", "fresh-" + capabilities.LaneID(when)} {
			if got := image("agent", lane, "tainted"); got != capabilities.StatusDenied {
				t.Errorf("%s, in lane %s: %s", when, lane, got)
			}
		}
		// In the tainted lane somebody else is held for it, too; in their own they are not.
		if got := image("other", "agent", "tainted"); got != capabilities.StatusDenied {
			t.Errorf("%s, another agent in the tainted lane: %s", when, got)
		}
		if got := image("other", "theirs", "clean"); got != capabilities.StatusOK {
			t.Errorf("%s, another agent: %s", when, got)
		}
	}
	tried("at-once")
	a.Restart()
	a.node.AwaitReady()
	tried("restarted")
	if n := a.h.Runs("tainted"); n != 0 {
		t.Errorf("it ran %d times", n)
	}
}
