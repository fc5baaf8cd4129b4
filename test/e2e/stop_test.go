package e2e

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// A stop at the gateway ends what runs here and on the node, revokes what was granted,
// refuses calls and grants, outlives a restart of either side, and is told to a node
// that was away; only a person ends it.
func TestGatewayStop(t *testing.T) {
	h, handler, n := one(t)
	h.Grant("agent", n, string(site.ToolEcho))
	call := h.calling(ctx(), site.ToolSlow, text("x"), "")
	started(t, handler, "x")
	did, err := h.Stop(ctx(), "admin", "enough")
	must(t, err)
	if !did.Stopped || did.Calls != 1 || did.Grants != 1 || did.Nodes.Connected != 1 || did.Nodes.Confirmed != 1 {
		t.Errorf("%+v", did)
	}
	r := await(t, "the call", call)
	want(t, r, capabilities.StatusDenied, capabilities.CodeStopped)
	h.wantStory(r.Call, "request", "decision", "dispatch", "failed")
	refused := h.Call(t.Context(), site.ToolEcho, text("y"), "")
	want(t, refused, capabilities.StatusDenied, capabilities.CodeStopped)
	h.wantStory(refused.Call, "request", "decision", "failed")
	if _, err := h.Consent.Grant(ctx(), consent.Spec{Principal: "agent", Tools: []string{string(site.ToolEcho)}, Node: n.ID, AnyLane: true, Approver: "admin"}); capabilities.CodeOf(err) != capabilities.CodeStopped {
		t.Errorf("granted while stopped: %v", err)
	}
	h.Restart()
	n.AwaitReady()
	if len(h.Consent.Grants()) != 0 {
		t.Error("a grant came back")
	}
	want(t, h.Call(t.Context(), site.ToolEcho, text("y"), ""), capabilities.StatusDenied, capabilities.CodeStopped)

	// Away while it is turned, either way, a node obeys when it comes back.
	n.Stop()
	n.AwaitGone()
	if did, err = h.Resume(ctx(), "admin", ""); err != nil || did.Nodes.Away != 1 {
		t.Errorf("%+v %v", did, err)
	}
	n.Start()
	want(t, h.Call(t.Context(), site.ToolEcho, text("z"), ""), capabilities.StatusOK, "")
	n.Stop()
	n.AwaitGone()
	_, err = h.Stop(ctx(), "admin", "")
	must(t, err)
	n.Start()
	h.Await("the node to obey", func() bool { v, err := h.Nodes.View(n.ID); return err == nil && v.SiteStopped })
	_, err = h.Resume(ctx(), "admin", "")
	must(t, err)
	want(t, h.Call(t.Context(), site.ToolEcho, text("zz"), ""), capabilities.StatusOK, "")
	if handler.Runs("y") != 0 {
		t.Error("it ran while stopped")
	}
	wantKinds(t, h, "gateway.stopped", 2)
	wantKinds(t, h, "gateway.resumed", 2)
}

func wantKinds(t *testing.T, h *house, kind ledger.Kind, n int) {
	t.Helper()
	list, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: kind, Limit: 100})
	must(t, err)
	if len(list) != n {
		t.Errorf("%d packets of kind %s, want %d", len(list), kind, n)
	}
}

// The gateway cannot release a device that its person stopped, and grants on it are gone, also when
// the gateway heard of it late.
func TestOwnStopRevokesGrants(t *testing.T) {
	h, handler, n := one(t)
	h.Grant("agent", n, string(site.ToolEcho))
	n.Halt("test")
	h.Await("the grant to go", func() bool { return len(h.Consent.Grants()) == 0 })
	_, err := h.Resume(ctx(), "admin", "")
	must(t, err)
	want(t, h.Call(t.Context(), site.ToolEcho, `{"text":"y","node_id":"`+string(n.ID)+`"}`, ""), capabilities.StatusError, capabilities.CodeNodeNotReady)
	must(t, agent.SetStop(n.Dir, false))
	h.Await("the node to say so", func() bool { v, err := h.Nodes.View(n.ID); return err == nil && !v.Stopped })
	want(t, h.Call(t.Context(), site.ToolEcho, text("z"), ""), capabilities.StatusOK, "")

	// Stopped and resumed while it was away.
	h.Grant("agent", n, string(site.ToolEcho))
	n.Stop()
	n.AwaitGone()
	h.Restart()
	if len(h.Consent.Grants()) != 1 {
		t.Fatal("the grant should still be there")
	}
	must(t, agent.SetStop(n.Dir, true))
	must(t, agent.SetStop(n.Dir, false))
	n.Start()
	h.Await("the grant to go", func() bool { return len(h.Consent.Grants()) == 0 })
	if handler.Runs("y") != 0 {
		t.Error("it ran while stopped")
	}
}

// A call that waits for a person is ended by a stop, and its question with it.
func TestStopEndsQuestions(t *testing.T) {
	h := start(t, site.Options{ApprovalWait: time.Minute})
	h.AddNode("desk", site.NewHandler())
	call := h.calling(ctx(), site.ToolPress, text("x"), "")
	waiting(t, h.Site)
	_, err := h.Stop(ctx(), "admin", "")
	must(t, err)
	want(t, await(t, "the call", call), capabilities.StatusDenied, capabilities.CodeStopped)
	if len(h.Consent.Approvals()) != 0 {
		t.Error("the question is still open")
	}
}
