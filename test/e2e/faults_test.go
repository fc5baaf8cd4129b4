package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The way between node and gateway is cut while a call runs. The caller is told
// that nobody knows; once the way is open the node's journal tells, and the ledger
// has both.
func TestCutMidCall(t *testing.T) {
	t.Parallel()
	h, handler := start(t, site.Options{}), site.NewHandler()
	_, paste, err := h.Nodes.Invite(ctx(), h.invitation())
	must(t, err)
	w := newWay(t, h.QUICAddr().String())
	dir, id := joinNode(t, paste, w.addr())
	run(t, dir, w.addr(), handler)
	h.awaitReady(id)
	call := h.calling(ctx(), site.ToolSlow, `{"text":"x","timeout_ms":5000}`, "r1") // a busy machine comes to the cut in that
	started(t, handler, "x")
	w.cut(true)
	handler.Finish("x") // it does what it was told; its answer is lost
	r := await(t, "the call", call)
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	h.wantStory(r.Call, "request", "decision", "dispatch", "failed")
	wantUnknown(t, h.Call(t.Context(), site.ToolSlow, text("x"), "r1"), r.Call)
	w.cut(false)
	h.awaitStory(r.Call, "reconciled")
	h.wantStory(r.Call, "request", "decision", "dispatch", "failed", "reconciled")
	again := h.Call(t.Context(), site.ToolSlow, text("x"), "r1")
	want(t, again, capabilities.StatusOK, "")
	if again.Call != r.Call || string(again.Output) != text("x") || handler.Runs("x") != 1 {
		t.Errorf("grave: %+v, ran %d times", again, handler.Runs("x"))
	}
}

// wantUnknown wants a repeat to be told of the call that it repeats, whose outcome
// nobody knows.
func wantUnknown(t *testing.T, again capabilities.Result, first capabilities.CallID) {
	t.Helper()
	want(t, again, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	if again.Call != first || !again.Deduplicated {
		t.Errorf("told of %s (a repeat: %v), want %s", again.Call, again.Deduplicated, first)
	}
}

func (h *house) invitation() nodes.InviteSpec {
	return nodes.InviteSpec{By: "admin", Label: "child", AutoApprove: true, Allow: []string{"*"}}
}

// childNode is a node in a process of its own, on this site.
func (h *house) childNode() (*child, capabilities.NodeID) {
	h.t.Helper()
	_, paste, err := h.Nodes.Invite(ctx(), h.invitation())
	must(h.t, err)
	dir, id := joinNode(h.t, paste, h.QUICAddr().String())
	c := startChild(h.t, childOptions{Role: "node", Dir: dir, QUIC: h.QUICAddr().String(), Witness: filepath.Join(h.t.TempDir(), "ran")})
	h.awaitReady(id)
	return c, id
}

// The node's process dies in the middle of a call, killed or by its own handler. The outcome of its
// call is unknown, and the call is not made again when the node is back.
func TestNodeDiesMidCall(t *testing.T) {
	for name, c := range map[string]struct {
		tool capabilities.ToolID
		text string
		die  func(*child) string
	}{
		"killed":  {site.ToolSlow, "slow-1", func(c *child) string { c.kill(); return "" }},
		"crashed": {site.ToolEcho, "crash-1", (*child).died},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, site.Options{})
			node, id := h.childNode()
			call := h.calling(ctx(), c.tool, text(c.text), "r1")
			awaitRan(t, node.o.Witness, c.text)
			said := c.die(node)
			if name == "crashed" && !strings.Contains(said, "as told") {
				t.Errorf("it died of something else: %s", said)
			}
			startChild(t, node.o)
			r := await(t, "the call", call)
			want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
			h.wantStory(r.Call, "request", "decision", "dispatch", "failed")
			wantUnknown(t, h.Call(t.Context(), c.tool, text(c.text), "r1"), r.Call)
			h.awaitReady(id)
			want(t, h.Call(t.Context(), site.ToolEcho, text("next"), ""), capabilities.StatusOK, "")
			if runs := ran(t, node.o.Witness); runs[c.text] != 1 || runs["next"] != 1 {
				t.Errorf("%v", runs)
			}
		})
	}
}

// The node dies and stays away: the call ends all the same, soon after its time.
func TestNodeDiesAndStaysAway(t *testing.T) {
	t.Parallel()
	h := start(t, site.Options{})
	node, _ := h.childNode()
	call := h.calling(ctx(), site.ToolSlow, `{"text":"slow-1","timeout_ms":5000}`, "r1") // a busy machine comes to the kill in that
	awaitRan(t, node.o.Witness, "slow-1")
	node.kill()
	want(t, await(t, "the call", call), capabilities.StatusError, capabilities.CodeUnknownOutcome)
}

// The node is shut down in good order in the middle of a call.
func TestNodeStopsMidCall(t *testing.T) {
	h, handler, n := one(t)
	call := h.calling(ctx(), site.ToolSlow, text("x"), "r1")
	started(t, handler, "x")
	n.Stop()
	n.Start()
	r := await(t, "the call", call)
	want(t, r, capabilities.StatusError, capabilities.CodeCancelled)
	if handler.Runs("x") != 1 {
		t.Errorf("grave: ran %d times", handler.Runs("x"))
	}
	again := h.Call(t.Context(), site.ToolSlow, text("x"), "r1")
	if again.Code != r.Code || handler.Runs("x") != 1 {
		t.Errorf("%+v", again)
	}
}

// S4-31: whatever goes wrong in a handler has a code, and is recorded as a failure (S4-26).
func TestHandlerFails(t *testing.T) {
	h, handler, _ := one(t)
	for code, c := range map[string]struct {
		status capabilities.Status
		code   capabilities.Code
	}{
		"panic":             {capabilities.StatusError, capabilities.CodeInternal},
		"element_not_found": {capabilities.StatusError, capabilities.CodeElementNotFound},
		"url_blocked":       {capabilities.StatusDenied, capabilities.CodeURLBlocked},
		"made_up":           {capabilities.StatusError, capabilities.CodeInternal},
	} {
		r := h.Call(t.Context(), site.ToolFail, fmt.Sprintf(`{"text":%q,"code":%q}`, code, code), capabilities.RequestID(code))
		want(t, r, c.status, c.code)
		h.wantStory(r.Call, "request", "decision", "dispatch", "failed")
		if again := h.Call(t.Context(), site.ToolFail, fmt.Sprintf(`{"text":%q,"code":%q}`, code, code), capabilities.RequestID(code)); again.Call != r.Call || handler.Runs(code) != 1 {
			t.Errorf("grave: %+v, ran %d times", again, handler.Runs(code))
		}
	}
	want(t, h.Call(t.Context(), site.ToolEcho, text("next"), ""), capabilities.StatusOK, "")
}

// counted tells when a call leaves the handler.
type counted struct {
	*site.Handler
	ended chan struct{}
}

func (c *counted) Handle(cx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	defer func() { c.ended <- struct{}{} }()
	return c.Handler.Handle(cx, inv)
}

// A caller who goes away ends what runs for it, by every surface.
func TestCancelReachesTheHandler(t *testing.T) {
	h, handler := start(t, site.Options{}), &counted{Handler: site.NewHandler(), ended: make(chan struct{}, 10)}
	h.AddNode("one", handler)
	ended := func(name string) {
		t.Helper()
		await(t, name+": the handler's end", handler.ended)
	}
	c, cancel := context.WithCancel(ctx())
	call := h.calling(c, site.ToolSlow, text("direct"), "")
	started(t, handler.Handler, "direct")
	cancel()
	want(t, await(t, "the call", call), capabilities.StatusError, capabilities.CodeCancelled)
	ended("direct")

	c, cancel = context.WithCancel(ctx())
	gone := make(chan error, 1)
	rest := h.client(principal.RoleAgent)
	go func() {
		_, _, err := rest.try(c, http.MethodPost, "/v1/calls", callBody(site.ToolSlow, text("rest"), ""))
		gone <- err
	}()
	started(t, handler.Handler, "rest")
	cancel()
	await(t, "the request", gone)
	ended("REST")

	c, cancel = context.WithCancel(ctx())
	mcp := h.session(h.MustToken("mcp-agent", principal.RoleAgent))
	go func() {
		_, err := mcp.CallTool(c, &sdk.CallToolParams{Name: "tool_fixture_slow", Arguments: map[string]any{"text": "mcp"}})
		gone <- err
	}()
	started(t, handler.Handler, "mcp")
	cancel()
	await(t, "the request", gone)
	ended("MCP")

	for _, s := range h.check() {
		if s.tool == site.ToolSlow && s.end() != capabilities.CodeCancelled {
			t.Errorf("a cancelled call ended as %q", s.end())
		}
	}
}

func TestProgressArrives(t *testing.T) {
	h, handler, _ := one(t)
	seen := make(chan capabilities.Progress, 10)
	done := make(chan capabilities.Result, 1)
	go func() {
		done <- h.Dispatcher.Call(ctx(), dispatch.Request{
			Caller: dispatch.Caller{Principal: "agent", Role: "agent", Lane: "main"}, Tool: site.ToolSlow, Args: []byte(text("x")),
			Progress: func(p capabilities.Progress) { seen <- p },
		})
	}()
	if p := await(t, "progress", seen); p.Done != 1 || p.Total != 2 || p.Message != "half" {
		t.Errorf("%+v", p)
	}
	handler.Finish("x")
	want(t, await(t, "the call", done), capabilities.StatusOK, "")
}

func TestDeadline(t *testing.T) {
	h, handler := start(t, site.Options{}), &counted{Handler: site.NewHandler(), ended: make(chan struct{}, 10)}
	h.AddNode("one", handler)
	r := h.Call(t.Context(), site.ToolSlow, `{"text":"x","timeout_ms":3000}`, "r1") // a busy machine reaches the handler in that
	want(t, r, capabilities.StatusError, capabilities.CodeDeadlineExceeded)
	h.wantStory(r.Call, "request", "decision", "dispatch", "failed")
	await(t, "the handler's end", handler.ended)
	again := h.Call(t.Context(), site.ToolSlow, `{"text":"x","timeout_ms":60000}`, "r1")
	if again.Call != r.Call || again.Code != capabilities.CodeDeadlineExceeded || handler.Runs("x") != 1 {
		t.Errorf("%+v", again)
	}
}

// The stop switch ends what runs and lets nothing start, until a person resumes.
func TestStopSwitch(t *testing.T) {
	h, handler, n := one(t)
	call := h.calling(ctx(), site.ToolSlow, text("x"), "")
	started(t, handler, "x")
	n.Halt("test")
	want(t, await(t, "the call", call), capabilities.StatusDenied, capabilities.CodeStopped)
	h.Await("the node to say that it is stopped", func() bool {
		for _, r := range h.Nodes.Snapshot() {
			if r.ID == n.ID {
				return r.Stopped
			}
		}
		return false
	})
	want(t, h.Call(t.Context(), site.ToolEcho, `{"text":"y","node_id":"`+string(n.ID)+`"}`, ""), capabilities.StatusError, capabilities.CodeNodeNotReady)
	n.Stop()
	n.AwaitGone()
	n.Start() // it is durable
	want(t, h.Call(t.Context(), site.ToolEcho, text("y"), ""), capabilities.StatusError, capabilities.CodeAmbiguousNode)
	if handler.Runs("y") != 0 {
		t.Error("it ran")
	}
}

// A result of the largest size a tool may return arrives whole; one byte more is refused, and costs
// nobody else anything.
func TestLargeBlobs(t *testing.T) {
	t.Parallel()
	h, _, _ := one(t)
	const limit = 33554432
	r := h.Call(t.Context(), site.ToolImage, fmt.Sprintf(`{"text":"x","size":%d}`, limit), "")
	want(t, r, capabilities.StatusOK, "")
	if len(r.Blobs) != 1 || len(r.Blobs[0].Bytes) != limit {
		t.Error("not the bytes")
	}
}
