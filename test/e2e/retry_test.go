package e2e

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/test/site"
)

// A retry while the call runs joins it: one execution, everybody's result and
// progress.
func TestRetryDuringTheCallJoins(t *testing.T) {
	h, handler, _ := one(t)
	first := h.calling(ctx(), site.ToolSlow, text("x"), "r1")
	started(t, handler, "x")
	var others []<-chan capabilities.Result
	for range 5 {
		others = append(others, h.calling(ctx(), site.ToolSlow, text("x"), "r1"))
	}
	want(t, h.Call(t.Context(), site.ToolSlow, text("y"), "r1"), capabilities.StatusError, capabilities.CodeRequestIDConflict)
	handler.Finish("x")
	r := await(t, "the first", first)
	want(t, r, capabilities.StatusOK, "")
	for _, c := range others {
		if again := await(t, "a retry", c); again.Call != r.Call || again.Status != capabilities.StatusOK || !again.Deduplicated {
			t.Errorf("%+v", again)
		}
	}
	if handler.Runs("x") != 1 || handler.Runs("y") != 0 {
		t.Errorf("ran %d and %d times", handler.Runs("x"), handler.Runs("y"))
	}
	h.wantStory(r.Call, "request", "decision", "dispatch", "result")
}

// ticking reports progress again and again, so that who joins late hears of it.
type ticking struct{ *site.Handler }

func (h ticking) Handle(c context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				inv.Progress(capabilities.Progress{Done: 1})
			}
		}
	}()
	return h.Handler.Handle(c, inv)
}

// The first caller goes; the call goes on for the one who joined.
func TestRetryKeepsTheCallAlive(t *testing.T) {
	h, handler := start(t, site.Options{}), site.NewHandler()
	h.AddNode("one", ticking{handler})
	first, leave := context.WithCancel(ctx())
	gone := h.calling(first, site.ToolSlow, text("x"), "r1")
	started(t, handler, "x")
	joined, stays := make(chan struct{}), make(chan capabilities.Result, 1)
	go func() {
		hear := sync.OnceFunc(func() { close(joined) })
		stays <- h.Dispatcher.Call(ctx(), dispatch.Request{
			Caller: dispatch.Caller{Principal: "agent", Role: "agent", Lane: "main"}, Tool: site.ToolSlow, Args: []byte(text("x")), RequestID: "r1",
			Progress: func(capabilities.Progress) { hear() },
		})
	}()
	await(t, "the second caller to hear of progress", joined)
	leave()
	want(t, await(t, "the one who left", gone), capabilities.StatusError, capabilities.CodeCancelled)
	handler.Finish("x")
	r := await(t, "the one who stayed", stays)
	if want(t, r, capabilities.StatusOK, ""); handler.Runs("x") != 1 {
		t.Errorf("grave: ran %d times", handler.Runs("x"))
	}
}

// A retry afterwards gets the recorded outcome, bytes and all, and so does one
// after a restart of the gateway, before its node is back.
func TestRetryAfterwards(t *testing.T) {
	h, handler, n := one(t)
	args := map[capabilities.ToolID]string{
		site.ToolEcho: text("echo"), site.ToolImage: `{"text":"image","size":300000}`, site.ToolFail: `{"text":"fail","code":"element_not_found"}`,
		"tool.node.list": `{}`,
	}
	first := map[capabilities.ToolID]capabilities.Result{}
	for tool, a := range args {
		first[tool] = h.Call(t.Context(), tool, a, capabilities.RequestID(tool))
	}
	want(t, first[site.ToolImage], capabilities.StatusOK, "")
	want(t, first[site.ToolFail], capabilities.StatusError, capabilities.CodeElementNotFound)
	if blobs := first[site.ToolImage].Blobs; len(blobs) != 1 || len(blobs[0].Bytes) != 300000 {
		t.Fatalf("%d blobs", len(blobs))
	}
	again := func(when string) {
		t.Helper()
		for tool, a := range args {
			r, was := h.Call(t.Context(), tool, a, capabilities.RequestID(tool)), first[tool]
			if r.Call != was.Call || r.Status != was.Status || r.Code != was.Code || !bytes.Equal(r.Output, was.Output) || !r.Deduplicated || len(r.Blobs) != len(was.Blobs) {
				t.Errorf("%s, %s: %+v, was %+v", when, tool, r, was)
			}
			for i, b := range was.Blobs {
				if i >= len(r.Blobs) {
					break
				}
				if !bytes.Equal(b.Bytes, r.Blobs[i].Bytes) || b.MIME != r.Blobs[i].MIME || b.Field != r.Blobs[i].Field {
					t.Errorf("%s, %s: other bytes", when, tool)
				}
			}
		}
		for _, text := range []string{"echo", "image", "fail"} {
			if handler.Runs(text) != 1 {
				t.Errorf("grave: %s: %s ran %d times", when, text, handler.Runs(text))
			}
		}
	}
	again("at once")
	n.Stop()
	n.AwaitGone()
	again("with the node away")
	h.Restart()
	again("after a restart, with the node away")
	n.Start()
	again("with the node back")
}

func TestRetryThatAsksSomethingElse(t *testing.T) {
	h, handler, n := one(t)
	want(t, h.Call(t.Context(), site.ToolEcho, text("x"), "r1"), capabilities.StatusOK, "")
	conflicts := func(when string) {
		t.Helper()
		for name, r := range map[string]capabilities.Result{
			"other arguments": h.Call(t.Context(), site.ToolEcho, text("y"), "r1"),
			"another tool":    h.Call(t.Context(), site.ToolSlow, text("x"), "r1"),
			"another node":    h.Call(t.Context(), site.ToolEcho, `{"text":"x","node_id":"`+string(n.ID)+`"}`, "r1"),
			"another lane":    h.by("agent", "other", site.ToolEcho, text("x"), "r1"),
		} {
			if r.Status != capabilities.StatusError || r.Code != capabilities.CodeRequestIDConflict {
				t.Errorf("%s, %s: %+v", when, name, r)
			}
			h.wantStory(r.Call, "request", "decision", "failed")
		}
	}
	conflicts("at once")
	h.Restart()
	n.AwaitReady()
	conflicts("after a restart")
	// Somebody else's request ID is nobody's business.
	r := h.by("stranger", "main", site.ToolEcho, text("z"), "r1")
	if want(t, r, capabilities.StatusOK, ""); r.Deduplicated {
		t.Errorf("%+v", r)
	}
	for text, n := range map[string]int{"x": 1, "y": 0, "z": 1} {
		if handler.Runs(text) != n {
			t.Errorf("grave: %s ran %d times, want %d", text, handler.Runs(text), n)
		}
	}
}

// The gateway restarts while the call runs on the node. Nobody starts it again;
// the retry gets what the node did.
func TestGatewayRestartMidCall(t *testing.T) {
	h, handler, n := one(t)
	first := h.calling(ctx(), site.ToolSlow, text("x"), "r1")
	started(t, handler, "x")
	h.Restart()
	r := await(t, "the call that lost its gateway", first)
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	retry := h.calling(ctx(), site.ToolSlow, text("x"), "r1") // the node may not even be back
	want(t, h.Call(t.Context(), site.ToolSlow, text("y"), "r1"), capabilities.StatusError, capabilities.CodeRequestIDConflict)
	n.AwaitReady()
	handler.Finish("x")
	again := await(t, "the retry", retry)
	want(t, again, capabilities.StatusOK, "")
	if again.Call != r.Call || string(again.Output) != text("x") || handler.Runs("x") != 1 {
		t.Errorf("grave: %+v, ran %d times", again, handler.Runs("x"))
	}
	h.wantStory(r.Call, "request", "decision", "dispatch", "result")
}

// Many with one request ID at the same moment: one execution.
func TestStampede(t *testing.T) {
	h, handler, _ := one(t)
	for round := range 20 {
		name := fmt.Sprint("x", round)
		var all []<-chan capabilities.Result
		for range 16 {
			all = append(all, h.calling(ctx(), site.ToolEcho, text(name), capabilities.RequestID(name)))
		}
		var call capabilities.CallID
		for _, c := range all {
			r := await(t, "one of many", c)
			want(t, r, capabilities.StatusOK, "")
			if call == "" {
				call = r.Call
			}
			if r.Call != call {
				t.Errorf("%s and %s answer one request", r.Call, call)
			}
		}
		if handler.Runs(name) != 1 {
			t.Errorf("grave: ran %d times", handler.Runs(name))
		}
	}
}
