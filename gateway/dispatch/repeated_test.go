package dispatch

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
)

// repeats are the packets of repetitions, by what they say.
func (h *house) repeats() (all []packet.Repeated, calls []capabilities.CallID) {
	h.t.Helper()
	found, err := h.ledger.Packets(context.Background(), ledger.Query{Kind: ledger.KindCallRepeated, Limit: 100})
	must(h.t, err)
	for i := range found {
		var body packet.Repeated
		must(h.t, json.Unmarshal(found[i].Body, &body))
		all, calls = append(all, body), append(calls, found[i].Call)
	}
	return all, calls
}

// A repetition that joins, and one that gets the recorded outcome, leave a packet that names
// the call that they repeat, before they have its result (S4-43).
func TestARepetitionNamesItsCall(t *testing.T) {
	nodes := nodestest.New("n1")
	began, finish := make(chan struct{}), make(chan struct{})
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		close(began)
		<-finish
		return nodestest.Answers(`{"result":1}`)(nil, nil, nil)
	}
	h := newHouse(t, nodes, nil)
	first, joined := make(chan capabilities.Result, 1), make(chan capabilities.Result, 1)
	go func() { first <- h.evaluate("r1") }()
	<-began
	go func() { joined <- h.evaluate("r1") }()
	h.awaitWaiters("r1", 2)
	close(finish)
	r := <-first
	<-joined
	if again := h.evaluate("r1"); again.Call != r.Call {
		t.Errorf("%+v", again)
	}
	all, calls := h.repeats()
	if len(all) != 2 || all[0].How != repeatJoined || all[1].How != repeatReplayed {
		t.Fatalf("%+v", all)
	}
	for i, body := range all {
		if body.Of != r.Call || body.RequestID != "r1" || body.Surface != "test" || calls[i] == r.Call || calls[i] == "" {
			t.Errorf("%s: %+v", calls[i], body)
		}
	}
	h.wantKinds(r.Call, "request", "decision", "dispatch", "result")
}

// A call that a surface refuses is recorded and counted as one that is refused here.
func TestARefusalOfTheSurface(t *testing.T) {
	h := newHouse(t, nodestest.New("n1"), nil)
	no := capabilities.Errorf(capabilities.CodeInvalidRequest, "no batch")
	refuse := func() capabilities.Result {
		return h.Refuse(t.Context(), Request{Caller: agentCaller, Tool: toolEvaluate, Surface: "test"}, no)
	}
	r := refuse()
	want(t, r, capabilities.StatusError, capabilities.CodeInvalidRequest)
	h.wantKinds(r.Call, "request", "decision", "failed")
	for range 2000 {
		if r = refuse(); r.Code == capabilities.CodeOverloaded {
			break
		}
	}
	want(t, r, capabilities.StatusError, capabilities.CodeOverloaded)
	h.wantKinds(r.Call)
}

// A principal that is over the rate for refusals leaves no packets, and is counted with its tools.
func TestCallsThatAreTurnedAway(t *testing.T) {
	h := newHouse(t, nodestest.New("n1"), nil)
	for range 2000 {
		h.refusals.Count(agentCaller.Principal, h.served.Add(time.Hour)) // nothing of its allowance comes back meanwhile
	}
	for _, tool := range []capabilities.ToolID{toolEvaluate, toolEvaluate, "tool.made.up"} {
		r := h.call(t.Context(), tool, `{}`, "")
		want(t, r, capabilities.StatusError, capabilities.CodeOverloaded)
		h.wantKinds(r.Call)
	}
	h.stop() // the last word
	found, err := h.ledger.Packets(t.Context(), ledger.Query{Kind: kindTurnedAway, Limit: 100})
	must(t, err)
	calls := map[capabilities.ToolID]int{}
	for i := range found {
		var body struct {
			Refusals int
			Tools    []struct {
				Tool  capabilities.ToolID `json:"tool_id"`
				Calls int
			}
		}
		must(t, json.Unmarshal(found[i].Body, &body))
		for _, one := range body.Tools {
			calls[one.Tool] += one.Calls
		}
		if found[i].Principal != agentCaller.Principal || body.Refusals == 0 {
			t.Errorf("%+v", found[i])
		}
	}
	if calls[toolEvaluate] != 2 || calls[""] != 1 || len(calls) != 2 {
		t.Errorf("%v", calls)
	}
}
