package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
)

// A person ends one running call and no other; whoever waits is told why, and the
// ledger has who did it.
func TestCancelEndsOneCall(t *testing.T) {
	nodes := nodestest.New("n1")
	began := make(chan capabilities.CallID, 2)
	nodes.Carry = func(ctx context.Context, t *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
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
	ann := Caller{Principal: "ann", Role: "operator"}
	cancel := func(call capabilities.CallID, reason string) error {
		_, err := h.Cancel(t.Context(), ann, Cancelling{Call: call, Others: true, Reason: reason})
		return err
	}
	if err := cancel("c0", ""); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("a call of nobody's: %v", err)
	}
	if err := cancel(ids[0], strings.Repeat("x", 501)); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Errorf("a reason without end: %v", err)
	}
	must(t, cancel(ids[0], "it takes too long"))
	got := <-ends[ids[0]]
	want(t, got, capabilities.StatusError, capabilities.CodeCancelled)
	if !strings.Contains(got.Message, "it takes too long") {
		t.Errorf("the agent is told %q", got.Message)
	}
	recorded := false
	for _, p := range h.packets(ids[0]) {
		recorded = recorded || p.Kind == "gateway.call.cancelled" && p.Principal == "ann"
	}
	if by := h.endedBy(ids[0], capabilities.CodeCancelled); by != packet.ByPerson {
		t.Errorf("its last packet says that %q ended it", by)
	}
	if !recorded {
		t.Error("nobody is said to have ended it")
	}
	if err := cancel(ids[0], ""); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("it ended already: %v", err)
	}
	select {
	case r := <-ends[ids[1]]:
		t.Errorf("the other call ended: %+v", r)
	default:
	}
	must(t, cancel(ids[1], ""))
	want(t, <-ends[ids[1]], capabilities.StatusError, capabilities.CodeCancelled)
}

// A person and an agent of the same name are two: neither meets the other's calls by a request
// ID, while they run and after they ended, and neither ends them as one's own.
func TestAPersonIsNoAgentOfTheSameName(t *testing.T) {
	nodes := nodestest.New("n1")
	began := make(chan capabilities.CallID, 2)
	nodes.Carry = func(ctx context.Context, t *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		began <- t.Call
		<-ctx.Done()
		return wire.Answer{}, nil, context.Cause(ctx)
	}
	h := newHouse(t, nodes, nil)
	agent := Caller{Principal: "sam", Role: policy.RoleAgent, Lane: "main"}
	person := Caller{Principal: "sam", Role: "operator", Lane: "main"}
	call := func(by Caller) chan capabilities.Result {
		end := make(chan capabilities.Result, 1)
		go func() {
			end <- h.Call(context.Background(), Request{Caller: by, Tool: toolEvaluate, Args: json.RawMessage(`{"expression":"1"}`), RequestID: "r1", Surface: "test"})
		}()
		return end
	}
	ofAgent := call(agent)
	first := <-began
	ofPerson := call(person)
	var second capabilities.CallID
	select {
	case second = <-began:
	case r := <-ofPerson:
		t.Fatalf("the person's call got %+v", r)
	case <-time.After(20 * time.Second):
		t.Fatal("the person's call has joined the agent's")
	}
	if id, err := h.Cancel(t.Context(), person, Cancelling{Call: first}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("the person ended the agent's call %s as their own: %v", id, err)
	}
	if id, err := h.Cancel(t.Context(), person, Cancelling{Request: "r1"}); err != nil || id != second {
		t.Errorf("the person ended %s, want %s: %v", id, second, err)
	}
	if r := <-ofPerson; r.Call != second {
		t.Errorf("the person got %+v", r)
	}
	if id, err := h.Cancel(t.Context(), agent, Cancelling{Call: first}); err != nil || id != first {
		t.Errorf("the agent ended %s, want %s: %v", id, first, err)
	}
	if r := <-ofAgent; r.Call != first {
		t.Errorf("the agent got %+v", r)
	}
	for by, want := range map[Caller]capabilities.CallID{agent: first, person: second} {
		if r := <-call(by); r.Call != want || !r.Deduplicated {
			t.Errorf("%s repeats the call and gets that of %s, want %s", by.Role, r.Call, want)
		}
	}
}

// endedBy is what the last packet of a call says of who ended it.
func (h *house) endedBy(id capabilities.CallID, code capabilities.Code) packet.Ender {
	h.t.Helper()
	var body packet.End
	for _, p := range h.packets(id) {
		if p.Kind.Terminal() {
			must(h.t, json.Unmarshal(p.Body, &body))
		}
	}
	if body.Code != code {
		h.t.Errorf("it ended with %q", body.Code)
	}
	return body.EndedBy
}

// The ledger tells who ended a call on purpose from what merely cut it off.
func TestWhoEndedACall(t *testing.T) {
	nodes := nodestest.New("n1")
	began := make(chan capabilities.CallID, 1)
	nodes.Carry = func(ctx context.Context, t *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		began <- t.Call
		<-ctx.Done()
		return wire.Answer{}, nil, because(ctx, capabilities.Wrap(capabilities.CodeCancelled, context.Cause(ctx), ""))
	}
	h := newHouse(t, nodes, nil)
	silent := capabilities.Errorf(capabilities.CodeCancelled, "The console was not heard of.")
	for name, c := range map[string]struct {
		cause error
		want  packet.Ender
	}{
		"the caller left":        {nil, packet.ByCaller},
		"the viewer ended it":    {&Ended{By: packet.ByCaller, Err: capabilities.Errorf(capabilities.CodeCancelled, "the viewer ended the session")}, packet.ByCaller},
		"a token was revoked":    {&Ended{By: packet.ByPerson, Err: NoToken()}, packet.ByPerson},
		"a console fell silent":  {silent, ""},
		"something else failed":  {errors.New("the pipe broke"), ""},
		"a person who gave none": {&Ended{By: packet.ByPerson, Err: silent}, packet.ByPerson},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		end := make(chan capabilities.Result, 1)
		go func() {
			end <- h.call(ctx, toolEvaluate, `{"expression":"1"}`, "")
		}()
		id := <-began
		cancel(c.cause)
		code := capabilities.CodeCancelled
		if name == "a token was revoked" {
			code = capabilities.CodeUnauthenticated
		}
		want(t, <-end, capabilities.StatusError, code)
		h.landed(id)
		if by := h.endedBy(id, code); by != c.want {
			t.Errorf("%s: the ledger says %q, want %q", name, by, c.want)
		}
	}
}

// landed waits until a call that nobody waits for has ended.
func (h *house) landed(id capabilities.CallID) {
	h.t.Helper()
	for {
		changed := h.ledger.Changed()
		for _, p := range h.packets(id) {
			if p.Kind.Terminal() {
				return
			}
		}
		select {
		case <-changed:
		case <-time.After(30 * time.Second):
			h.t.Fatal("the call has no end")
		}
	}
}
