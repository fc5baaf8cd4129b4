package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A call that is cancelled after its start says so and warns; what its node then says
// is what a retry gets, and what the ledger ends with.
func TestCancelledAfterItsStart(t *testing.T) {
	for name, c := range map[string]struct {
		word   func(capabilities.NodeID, capabilities.CallID) wire.JournalState
		kinds  []string
		status capabilities.Status
		code   capabilities.Code
		runs   int
	}{
		"and it had ended well": {nodestest.Finished(`{"result":1}`), []string{"failed", "reconciled"}, capabilities.StatusOK, "", 1},
		"and it had failed": {func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
			return wire.JournalState{State: wire.StateFinished, Answer: &wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeNavigationFailed}}
		}, []string{"failed", "reconciled"}, capabilities.StatusError, capabilities.CodeNavigationFailed, 1},
		"and the node ended it": {func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
			return wire.JournalState{State: wire.StateFinished, Answer: &wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeCancelled}}
		}, []string{"failed"}, capabilities.StatusError, capabilities.CodeCancelled, 1},
		"and nobody knows":       {nodestest.Says(wire.StateUnknown), []string{"failed"}, capabilities.StatusError, capabilities.CodeCancelled, 1},
		"and it never started":   {nodestest.Says(wire.StateNeverStarted), []string{"failed", "reconciled"}, capabilities.StatusOK, "", 2},
		"and its result is gone": {nodestest.Says(wire.StateFinished), []string{"failed", "reconciled"}, capabilities.StatusError, capabilities.CodeResultExpired, 1},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			began := make(chan capabilities.CallID, 1)
			nodes.Carry = func(ctx context.Context, t *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
				began <- t.Call
				<-ctx.Done()
				return wire.Answer{}, nil, context.Cause(ctx)
			}
			h := newHouse(t, nodes, nil)
			end := make(chan capabilities.Result, 1)
			go func() { end <- h.evaluate("r1") }()
			id := <-began
			if call, err := h.Cancel(t.Context(), Caller{Principal: "another"}, Cancelling{Request: "r1"}); err == nil {
				t.Errorf("another cancelled %s", call)
			}
			if call, err := h.Cancel(t.Context(), agentCaller, Cancelling{Request: "r1"}); err != nil || call != id {
				t.Fatalf("%s, %v", call, err)
			}
			r := <-end
			want(t, r, capabilities.StatusError, capabilities.CodeCancelled)
			if !strings.Contains(r.Message, "had started") || !strings.Contains(r.Hint, "before repeating") || strings.Contains(r.Hint, "Call again") {
				t.Errorf("%q %q", r.Message, r.Hint)
			}
			if again := h.evaluate("r1"); again.Call != id || again.Code != capabilities.CodeCancelled || again.Message != r.Message {
				t.Errorf("before the node's word: %+v", again)
			}
			nodes.Set(func() { nodes.Carry = nodestest.Answers(`{"result":1}`) })
			nodes.Set(func() { nodes.Tell = c.word })
			var kinds []string
			for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				kinds = nil
				for _, p := range h.packets(id) {
					if p.Kind.Terminal() {
						kinds = append(kinds, string(p.Kind[len("tool.call."):]))
					}
				}
				if h.open.Unsettled() == 0 && slices.Equal(kinds, c.kinds) {
					break
				}
			}
			if !slices.Equal(kinds, c.kinds) {
				t.Errorf("ended as %q, want %q", kinds, c.kinds)
			}
			again := h.evaluate("r1")
			want(t, again, c.status, c.code)
			if len(nodes.Sent()) != c.runs || again.Retryable {
				t.Errorf("%d tickets, %+v", len(nodes.Sent()), again)
			}
		})
	}
}

// A call that is cancelled before anything of it left says that, too.
func TestCancelledBeforeItsStart(t *testing.T) {
	c := newTrail(&Request{Caller: agentCaller, Tool: toolEvaluate}, time.Now())
	r := newHouse(t, nodestest.New("n1"), nil).refuse(t.Context(), c, &capabilities.Error{Code: capabilities.CodeCancelled})
	if !strings.Contains(r.Message, "Nothing of it was carried out") || !strings.Contains(r.Hint, "Call again") {
		t.Errorf("%q %q", r.Message, r.Hint)
	}
}

// "Retryable" is true: what a node refused before the start frees its request ID, and a
// failure that the ID keeps does not say that it passes.
func TestRetryableIsTrue(t *testing.T) {
	for name, c := range map[string]struct {
		answer wire.Answer
		freed  bool
	}{
		"the node's journal is full":  {wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeLedgerUnavailable}, true},
		"the ticket came too late":    {wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeTicketExpired}, true},
		"the page did not load":       {wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeNavigationFailed, Isolation: capabilities.ClassT2}, false},
		"it took too long":            {wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeDeadlineExceeded, Isolation: capabilities.ClassT2}, false},
		"an overload after the start": {wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeOverloaded, Isolation: capabilities.ClassT2}, false},
		"the owner said no":           {wire.Answer{Status: capabilities.StatusDenied, Code: capabilities.CodeDeniedByNode}, false},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
				return c.answer, nil, nil
			}
			h := newHouse(t, nodes, nil)
			first := h.evaluate("r1")
			if first.Code != c.answer.Code || first.Retryable != c.freed {
				t.Errorf("%+v", first)
			}
			if without := h.evaluate(""); without.Retryable != c.answer.Code.Info().Retryable {
				t.Errorf("without a request ID: %+v", without)
			}
			nodes.Set(func() { nodes.Carry = nodestest.Answers(`{"result":1}`) })
			again := h.evaluate("r1")
			if c.freed {
				if want(t, again, capabilities.StatusOK, ""); again.Call == first.Call || again.Deduplicated {
					t.Errorf("%+v", again)
				}
				h.wantKinds(first.Call, "request", "decision", "dispatch", "failed")
				h.wantKinds(again.Call, "request", "decision", "dispatch", "result")
				return
			}
			if again.Call != first.Call || again.Retryable || again.Hint != first.Hint || c.answer.Code.Info().Retryable && !strings.Contains(again.Hint, "use a new one") {
				t.Errorf("%+v", again)
			}
		})
	}
}

// The ledger's knowledge of a call is told when its result is no longer kept.
func TestTheLedgerTells(t *testing.T) {
	nodes := nodestest.New("n1")
	h := newHouse(t, nodes, nil)
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	well := h.evaluate("well")
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		return wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeNavigationFailed, Isolation: capabilities.ClassT2}, nil, nil
	}
	badly := h.evaluate("badly")
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec("DELETE FROM outcome"); return err }))
	again := h.evaluate("well")
	if want(t, again, capabilities.StatusError, capabilities.CodeResultExpired); again.Call != well.Call || !strings.Contains(again.Message, "ended well") || !strings.Contains(again.Hint, "Do not repeat") {
		t.Errorf("%+v", again)
	}
	again = h.evaluate("badly")
	if want(t, again, capabilities.StatusError, capabilities.CodeNavigationFailed); again.Call != badly.Call || again.Retryable {
		t.Errorf("%+v", again)
	}
}

// The node's log says that it ended well and nobody has the result any more: the ledger
// says so, too.
func TestEndedWellAndGone(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry, nodes.Tell = losing, nodestest.Says(wire.StateFinished)
	h := newHouse(t, nodes, nil)
	r := h.evaluate("r1")
	want(t, r, capabilities.StatusError, capabilities.CodeResultExpired)
	h.wantKinds(r.Call, "request", "decision", "dispatch", "result")
	all := h.packets(r.Call)
	if b := h.body(all[len(all)-1]); b.Status != capabilities.StatusOK || b.Code != capabilities.CodeResultExpired {
		t.Errorf("%+v", b)
	}
}

// While the disk takes nothing, memory says what became of a call; with room again it is
// written down, result and all.
func TestMemoryTellsWhileTheDiskIsFull(t *testing.T) {
	nodes := nodestest.New("n1")
	began, finish := make(chan struct{}, 1), make(chan struct{})
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		began <- struct{}{}
		<-finish
		return wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"result":1}`), Isolation: capabilities.ClassT2}, nil, nil
	}
	h := newHouse(t, nodes, nil)
	end := make(chan capabilities.Result, 1)
	go func() { end <- h.evaluate("r1") }()
	<-began
	var pages int
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
		if err := tx.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
			return err
		}
		return tx.QueryRow(fmt.Sprintf("PRAGMA max_page_count = %d", pages)).Scan(new(int))
	}))
	for i := 0; ; i++ {
		err := h.ledger.Append(t.Context(), ledger.Draft{Kind: "gateway.test", Body: map[string]any{"n": i}})
		if err != nil {
			if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
				t.Fatal(err)
			}
			break
		}
	}
	close(finish)
	first := <-end
	want(t, first, capabilities.StatusOK, "")
	for range 3 {
		if again := h.evaluate("r1"); again.Status != capabilities.StatusOK || again.Call != first.Call || string(again.Output) != string(first.Output) || !again.Deduplicated {
			t.Fatalf("while it is full: %+v", again)
		}
	}
	want(t, h.call(t.Context(), toolEvaluate, `{"expression":"2"}`, "r1"), capabilities.StatusError, capabilities.CodeRequestIDConflict)
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRow(fmt.Sprintf("PRAGMA max_page_count = %d", pages+10000)).Scan(new(int))
	}))
	for deadline := time.Now().Add(30 * time.Second); h.late.first() != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	h.wantKinds(first.Call, "request", "decision", "dispatch", "result")
	h.stop()
	h.begin()
	if again := h.evaluate("r1"); again.Status != capabilities.StatusOK || again.Call != first.Call || len(nodes.Sent()) != 1 {
		t.Errorf("with room again: %+v, %d tickets", again, len(nodes.Sent()))
	}
}
