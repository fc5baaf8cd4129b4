package dispatch

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/opencalls"
)

// The picture follows by itself: a call that ended leaves nothing behind, and one that
// goes on has its row.
func TestTheMarkFollows(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	want(t, h.evaluate(""), capabilities.StatusOK, "")
	tip, _ := h.ledger.Tip()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var seq uint64
		must(t, h.store.Read().QueryRow(`SELECT seq FROM calls_mark`).Scan(&seq))
		if seq >= tip {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mark stands at %d, the ledger at %d", seq, tip)
		}
	}
	rows, err := New(h.opts).open.LeftOpen(t.Context())
	must(t, err)
	if len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

// A call that only the ledger knows lives through several starts, and in the end is
// recorded as unknown like any other, and reconciled.
func TestUnknownAfterSeveralStarts(t *testing.T) {
	nodes := nodestest.New("n1")
	lost := make(chan struct{})
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		nodes.Connect(0, false)
		close(lost)
		return losing(context.Background(), nil, nil)
	}
	h := newHouse(t, nodes, nil)
	first := make(chan capabilities.Result, 1)
	go func() { first <- h.evaluate("") }()
	<-lost
	h.stop()
	r := <-first
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	for range 3 {
		h.begin()
		for range 2 { // the moment, and the mark of it
			must(t, h.store.Write(t.Context(), h.open.MarkIn))
		}
		if got := h.state(r.Call); got != opencalls.Open {
			t.Errorf("the row is %q", got)
		}
		h.stop()
	}
	h.wantKinds(r.Call, "request", "decision", "dispatch")
	h.begin()
	nodes.Set(func() { nodes.Tell = nodestest.Says(wire.StateUnknown) })
	nodes.Connect(0, true)
	h.awaitKinds(r.Call, "request", "decision", "dispatch", "failed")
	for range 2 {
		must(t, h.store.Write(t.Context(), h.open.MarkIn))
	}
	h.stop()
	rows, err := New(h.opts).open.LeftOpen(t.Context())
	must(t, err)
	if len(rows) > 1 || len(rows) == 1 && rows[0].State != opencalls.Unknown {
		t.Errorf("%+v", rows)
	}
}

// A node is told what it recalled when the ticket went, though it recalls something else by now;
// the next process of the gateway does not know it, and says so.
func TestTheNodeIsToldWhatItRecalled(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Roster[0].Recall = "before"
	nodes.Carry = func(ctx context.Context, t *wire.Ticket, p func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		nodes.Change(func() { nodes.Roster[0].Recall = "after" })
		return losing(ctx, t, p)
	}
	told := make(chan capabilities.CallID, 100)
	nodes.Tell = func(_ capabilities.NodeID, call capabilities.CallID) wire.JournalState {
		told <- call
		return wire.JournalState{State: wire.StateRunning}
	}
	h := newHouse(t, nodes, nil)
	result := make(chan capabilities.Result, 1)
	go func() { result <- h.evaluate("") }()
	call := <-told
	if said, _ := nodes.Recalled(call); said != "before" {
		t.Errorf("it was told %q", said)
	}
	h.stop()
	<-result
	for len(told) > 0 {
		<-told
	}
	h.begin()
	if <-told != call {
		t.Error("the next process asks about another call")
	}
	if said, asked := nodes.Recalled(call); said != "" || !asked {
		t.Errorf("the next process said %q", said)
	}
}

func (h *house) awaitKinds(call capabilities.CallID, kinds ...string) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if slices.Equal(h.kinds(call), kinds) {
			return
		}
	}
	h.wantKinds(call, kinds...)
}
