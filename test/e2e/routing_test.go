package e2e

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// ambiguity returns the details of an ambiguity error.
func ambiguity(t *testing.T, r capabilities.Result) route.Ambiguity {
	t.Helper()
	data, err := json.Marshal(r.Details)
	must(t, err)
	var a route.Ambiguity
	must(t, json.Unmarshal(data, &a))
	return a
}

func TestNoNode(t *testing.T) {
	h := start(t, site.Options{})
	r := h.Call(t.Context(), site.ToolEcho, text("a"), "")
	h.refused(r, capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if a := ambiguity(t, r); a.Detail != route.DetailNone || len(a.Candidates) != 0 {
		t.Errorf("%+v", a)
	}
}

// Two could do it: nobody guesses. Attaching one to the lane, or naming it, says
// which.
func TestTwoNodes(t *testing.T) {
	h := start(t, site.Options{})
	first, second := site.NewHandler(), site.NewHandler()
	a, b := h.AddNode("desk", first), h.AddNode("laptop", second)
	r := h.Call(t.Context(), site.ToolEcho, text("x"), "")
	h.refused(r, capabilities.StatusError, capabilities.CodeAmbiguousNode)
	got := ambiguity(t, r)
	var labels []string
	for _, c := range got.Candidates {
		labels = append(labels, c.Label)
	}
	slices.Sort(labels)
	if got.Detail != route.DetailSeveral || !slices.Equal(labels, []string{"desk", "laptop"}) {
		t.Errorf("%+v", got)
	}
	if first.Runs("x")+second.Runs("x") != 0 {
		t.Fatal("it ran")
	}

	who := principal.Identity{Principal: "agent", Role: principal.RoleAdmin, Lane: "main"}
	_, err := h.Lanes.Attach(ctx(), who, "main", b.ID)
	must(t, err)
	r = h.Call(t.Context(), site.ToolEcho, text("x"), "")
	want(t, r, capabilities.StatusOK, "")
	if r.Routing.Selected != b.ID || r.Routing.Mode != capabilities.SelectAttached || second.Runs("x") != 1 {
		t.Errorf("%+v", r.Routing)
	}
	// Another lane is no wiser for it.
	want(t, h.by("agent", "other", site.ToolEcho, text("x"), ""), capabilities.StatusError, capabilities.CodeAmbiguousNode)

	r = h.Call(t.Context(), site.ToolEcho, `{"text":"x","node_id":"`+string(a.ID)+`"}`, "")
	want(t, r, capabilities.StatusOK, "")
	if r.Routing.Selected != a.ID || r.Routing.Mode != capabilities.SelectExplicit || r.Routing.Requested != a.ID || first.Runs("x") != 1 {
		t.Errorf("%+v", r.Routing)
	}

	// The attached one goes away: the other is the only one that can, and is taken.
	b.Stop()
	b.AwaitGone()
	r = h.Call(t.Context(), site.ToolEcho, text("x"), "")
	want(t, r, capabilities.StatusOK, "")
	if r.Routing.Selected != a.ID || r.Routing.Mode != capabilities.SelectSole {
		t.Errorf("%+v", r.Routing)
	}
	a.Stop()
	a.AwaitGone()
	r = h.Call(t.Context(), site.ToolEcho, text("x"), "")
	h.refused(r, capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if got := ambiguity(t, r); got.Detail != route.DetailNone || len(got.Candidates) != 2 || got.Candidates[0].Reason != capabilities.ReasonNodeOffline || got.Candidates[0].Fix == "" {
		t.Errorf("%+v", got)
	}
}

// A lane that meant one node does not go on to mean whichever is left when that one is
// put out: it is refused, and told what to do. Another that is attached settles it.
func TestLaneOfARevokedNode(t *testing.T) {
	h := start(t, site.Options{})
	first, second := site.NewHandler(), site.NewHandler()
	a, b := h.AddNode("desk", first), h.AddNode("laptop", second)
	admin := h.client(principal.RoleAdmin)
	admin.ok("PUT", "/v1/lanes/main/nodes/"+string(a.ID), "", nil)
	want(t, h.Call(t.Context(), site.ToolEcho, text("x"), ""), capabilities.StatusOK, "")
	admin.ok("POST", "/v1/nodes/"+string(a.ID)+"/revoke", "{}", nil)
	a.Stop()
	h.Restart() // it is not forgotten, either
	b.AwaitReady()

	r := h.Call(t.Context(), site.ToolEcho, text("x"), "")
	h.refused(r, capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if !strings.Contains(r.Message, string(a.ID)) || r.Action.Key != capabilities.ActionAttachNode {
		t.Errorf("%q %q", r.Message, r.Hint)
	}
	if second.Runs("x") != 0 {
		t.Fatal("it ran on the node that was left")
	}
	// A lane that never meant that one goes on.
	want(t, h.by("agent", "other", site.ToolEcho, text("x"), ""), capabilities.StatusOK, "")

	admin.ok("PUT", "/v1/lanes/main/nodes/"+string(b.ID), "", nil)
	r = h.Call(t.Context(), site.ToolEcho, text("x"), "")
	want(t, r, capabilities.StatusOK, "")
	if r.Routing.Selected != b.ID || r.Routing.Mode != capabilities.SelectAttached {
		t.Errorf("%+v", r.Routing)
	}
}

// The node is named, and each thing that can be in its way has its own code.
func TestNamedNodeThatCanNot(t *testing.T) {
	h := start(t, site.Options{Rules: site.Rules + `
@id("not-here") forbid (principal, action == Action::"tool.fixture.image", resource) when { resource.label == "one" };`})
	handler, broken := site.NewHandler(), site.NewHandler()
	broken.Unready = capabilities.ReasonBackendMissing
	n := h.AddNode("one", handler)
	other := h.AddNode("other", site.NewHandler()) // that it could is no reason to take it
	bad := h.AddNode("broken", broken)
	on := func(id capabilities.NodeID) string { return `{"text":"x","node_id":"` + string(id) + `"}` }
	refused := func(tool capabilities.ToolID, args string, status capabilities.Status, code capabilities.Code) {
		t.Helper()
		h.refused(h.Call(t.Context(), tool, args, ""), status, code)
	}
	refused(site.ToolEcho, on("nothere"), capabilities.StatusError, capabilities.CodeNodeNotFound)
	refused("tool.browser.close", `{"node_id":"`+string(n.ID)+`"}`, capabilities.StatusError, capabilities.CodeCapabilityNotAdvertised)
	refused(site.ToolEcho, on(bad.ID), capabilities.StatusError, capabilities.CodeNodeNotReady)
	refused(site.ToolImage, `{"text":"x","size":1,"node_id":"`+string(n.ID)+`"}`, capabilities.StatusDenied, capabilities.CodeNodeDeniedByPolicy)
	_, err := h.Nodes.Change(ctx(), n.ID, nodes.Edit{By: "admin", Allow: &[]string{"tyrum.fixture.image"}})
	must(t, err)
	refused(site.ToolEcho, on(n.ID), capabilities.StatusDenied, capabilities.CodeCapabilityNotAllowlisted)
	n.Stop()
	n.AwaitGone()
	_, err = h.Nodes.Change(ctx(), n.ID, nodes.Edit{By: "admin", Allow: &[]string{"*"}})
	must(t, err)
	refused(site.ToolEcho, on(n.ID), capabilities.StatusError, capabilities.CodeNodeNotReady)
	if handler.Runs("x") != 0 || broken.Runs("x") != 0 {
		t.Error("one of them ran")
	}
	want(t, h.Call(t.Context(), site.ToolEcho, on(other.ID), ""), capabilities.StatusOK, "")
}

// A device that nobody confirmed yet is known and can do nothing.
func TestUnpairedNode(t *testing.T) {
	h := start(t, site.Options{})
	_, paste, err := h.Nodes.Invite(ctx(), nodes.InviteSpec{By: "admin", Label: "new"})
	must(t, err)
	paste.Addrs = []string{h.QUICAddr().String()}
	handler, dir := site.NewHandler(), privateDir(t)
	steps, joined := make(chan link.JoinStep, 100), make(chan error, 1)
	cat, err := site.Catalog()
	must(t, err)
	handlers := []capabilities.Handler{handler}
	if _, err := agent.New(agent.Options{Dir: dir, Handlers: handlers, Catalog: cat}); capabilities.CodeOf(err) != capabilities.CodeNodeNotPaired {
		t.Errorf("an agent that never joined: %v", err)
	}
	go func() {
		_, err := link.Join(ctx(), paste, link.JoinOptions{
			Dir: dir, Profile: pairing.Profile{Host: "new", Offers: agent.Offers(handlers)}, Progress: func(s link.JoinStep) { steps <- s },
		})
		joined <- err
	}()
	var step link.JoinStep
	for step = range steps {
		if step.State == pairing.StatePending {
			break
		}
	}
	r := h.Call(t.Context(), site.ToolEcho, text("x"), "")
	h.refused(r, capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if a := ambiguity(t, r); a.Detail != route.DetailNone || len(a.Candidates) != 1 || a.Candidates[0].Code != capabilities.CodeNodeNotPaired || a.Candidates[0].Fix == "" {
		t.Errorf("%+v", a)
	}
	named := `{"text":"x","node_id":"` + string(step.Node) + `"}`
	h.refused(h.Call(t.Context(), site.ToolEcho, named, ""), capabilities.StatusError, capabilities.CodeNodeNotPaired)

	_, err = h.Nodes.Approve(ctx(), step.Node, nodes.Approval{By: "admin", Allow: []string{"tyrum.fixture.*"}})
	must(t, err)
	must(t, await(t, "the join to end", joined))
	run(t, dir, h.QUICAddr().String(), handlers...)
	h.awaitReady(step.Node)
	want(t, h.Call(t.Context(), site.ToolEcho, named, ""), capabilities.StatusOK, "")
	if handler.Runs("x") != 1 {
		t.Errorf("grave: ran %d times", handler.Runs("x"))
	}
}

// Revoked: out at once, its running call with it, and out for good.
func TestRevokedNode(t *testing.T) {
	h, handler, n := one(t)
	named := `{"text":"slow","node_id":"` + string(n.ID) + `"}`
	running := h.calling(ctx(), site.ToolSlow, named, "r1")
	started(t, handler, "slow")
	_, err := h.Nodes.Revoke(ctx(), n.ID, "admin", "lost")
	must(t, err)
	h.refused(h.Call(t.Context(), site.ToolEcho, `{"text":"x","node_id":"`+string(n.ID)+`"}`, ""), capabilities.StatusError, capabilities.CodeNodeNotPaired)
	h.refused(h.Call(t.Context(), site.ToolEcho, text("x"), ""), capabilities.StatusError, capabilities.CodeAmbiguousNode)
	n.Stop() // its Run ended by itself: only a person can help

	// It tries again with the identity it has.
	cat, err := site.Catalog()
	must(t, err)
	again, err := agent.New(agent.Options{Dir: n.Dir, Handlers: []capabilities.Handler{handler}, Catalog: cat, Addrs: []string{h.QUICAddr().String()}})
	must(t, err)
	if err := again.Run(t.Context()); !errors.Is(err, &capabilities.Error{Code: capabilities.CodeNodeRevoked}) {
		t.Errorf("the revoked node's agent ended with %v", err)
	}
	h.Restart()
	again, err = agent.New(agent.Options{Dir: n.Dir, Handlers: []capabilities.Handler{handler}, Catalog: cat, Addrs: []string{h.QUICAddr().String()}})
	must(t, err)
	if err := again.Run(t.Context()); !errors.Is(err, &capabilities.Error{Code: capabilities.CodeNodeRevoked}) {
		t.Errorf("after a restart the revoked node's agent ended with %v", err)
	}
	h.refused(h.Call(t.Context(), site.ToolEcho, text("x"), ""), capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if r := await(t, "the call that ran", running); r.Status != capabilities.StatusError {
		t.Errorf("%+v", r)
	}
	if handler.Runs("slow") != 1 || handler.Runs("x") != 0 {
		t.Error("something ran on a revoked node")
	}
}

// run runs an agent over dir until the test ends.
func run(t *testing.T, dir, addr string, handlers ...capabilities.Handler) (stop func()) {
	t.Helper()
	cat, err := site.Catalog()
	must(t, err)
	a, err := agent.New(agent.Options{Dir: dir, Handlers: handlers, Catalog: cat, Addrs: []string{addr}, Version: "test"})
	must(t, err)
	return background(t, "agent", a.Run)
}

func (h *house) awaitReady(id capabilities.NodeID) {
	h.t.Helper()
	h.Await("node "+string(id)+" to be ready", func() bool {
		for _, n := range h.Nodes.Snapshot() {
			if n.ID == id {
				return n.Connected && len(n.Readiness) > 0
			}
		}
		return false
	})
}
