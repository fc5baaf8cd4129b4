package dispatch

import (
	"context"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// A person ends one running call and no other; whoever waits is told why, and the
// ledger has who did it.
func TestCancelEndsOneCall(t *testing.T) {
	nodes := newFakeNodes("n1")
	began := make(chan capabilities.CallID, 2)
	nodes.dispatch = func(ctx context.Context, t *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		began <- t.Call
		<-ctx.Done()
		return wire.Answer{}, nil, context.Cause(ctx)
	}
	h := newHouse(t, nodes, nil)
	ends := map[capabilities.CallID]chan capabilities.Result{}
	var ids []capabilities.CallID
	for range 2 {
		end := make(chan capabilities.Result, 1)
		go func() { end <- h.evaluate("") }()
		id := <-began
		ends[id], ids = end, append(ids, id)
	}
	if err := h.Cancel(t.Context(), "c0", "ann", ""); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("a call of nobody's: %v", err)
	}
	if err := h.Cancel(t.Context(), ids[0], "ann", strings.Repeat("x", 501)); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("a reason without end: %v", err)
	}
	must(t, h.Cancel(t.Context(), ids[0], "ann", "it takes too long"))
	got := <-ends[ids[0]]
	want(t, got, capabilities.StatusError, capabilities.CodeCancelled)
	if !strings.Contains(got.Message, "it takes too long") {
		t.Errorf("the agent is told %q", got.Message)
	}
	recorded := false
	for _, p := range h.packets(ids[0]) {
		recorded = recorded || p.Kind == "gateway.call.cancelled" && p.Principal == "ann"
	}
	if !recorded {
		t.Error("nobody is said to have ended it")
	}
	if err := h.Cancel(t.Context(), ids[0], "ann", ""); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("it ended already: %v", err)
	}
	select {
	case r := <-ends[ids[1]]:
		t.Errorf("the other call ended: %+v", r)
	default:
	}
	must(t, h.Cancel(t.Context(), ids[1], "ann", ""))
	want(t, <-ends[ids[1]], capabilities.StatusError, capabilities.CodeCancelled)
}
