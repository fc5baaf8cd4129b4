package task

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/store"
)

// people is those who are asked, one question at a time: a test takes it from asked and says in
// answer what Await returns.
type people struct {
	asked  chan consent.Ask
	answer chan error // nil: they allow it
	knows  atomic.Bool
}

func (p *people) Await(ctx context.Context, a consent.Ask) (consent.Permit, error) {
	select {
	case p.asked <- a:
	case <-ctx.Done():
		return consent.Permit{}, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
	select {
	case err := <-p.answer:
		if err != nil {
			return consent.Permit{}, err
		}
		return consent.Permit{Grant: "g-1", Kind: consent.KindCall}, nil
	case <-ctx.Done():
		return consent.Permit{}, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
}

// Approval knows of the one question that waits, unless it was forgotten.
func (p *people) Approval(id string) (consent.Approval, error) {
	if !p.knows.Load() {
		return consent.Approval{}, capabilities.Errorf(capabilities.CodeNotFound, "forgotten")
	}
	return consent.Approval{ID: id, State: consent.StatePending}, nil
}

// newKept is a house with one call that was kept, and whose question the next process
// has forgotten.
func newKept(t *testing.T, nodes *nodestest.Nodes) (*house, *people) {
	t.Helper()
	p := &people{asked: make(chan consent.Ask), answer: make(chan error)}
	p.knows.Store(true)
	h := newHouse(t, nodes, p)
	h.rules(`@id("later") @defer("8h") permit (principal, action, resource) when { context.consent };`)
	end := make(chan capabilities.Result, 1)
	go func() { end <- h.evaluate() }()
	<-p.asked
	p.answer <- capabilities.Errorf(capabilities.CodeApprovalPending, "later").WithDetails(capabilities.Pending{Approval: "a-1"})
	want(t, <-end, capabilities.StatusPending, capabilities.CodeApprovalPending)
	h.stop()
	p.knows.Store(false)
	return h, p
}

func (p *people) Covering(*consent.Ask) (consent.Grant, bool) { return consent.Grant{}, true }

func (p *people) Ended(consent.Permit)       {}
func (p *people) Stands(consent.Permit) bool { return true }
func (p *people) Uses(capabilities.ToolID, capabilities.NodeID, capabilities.PrincipalID) func() {
	return func() {}
}
func (p *people) SpendIn(*store.Tx, consent.Permit) error { return nil }
func (p *people) Withdraw(string)                         {}
func (p *people) Changed() <-chan struct{}                { return nil }

// task waits until the one task is in that state.
func (h *house) task(state State) Task {
	h.t.Helper()
	patience := time.After(30 * time.Second)
	for {
		changed := h.tasks.notice.wait()
		all, err := h.tasks.Tasks(context.Background(), "")
		must(h.t, err)
		if len(all) == 1 && all[0].State == state {
			return all[0]
		}
		select {
		case <-changed:
		case <-patience:
			h.t.Fatalf("no task is %s: %+v", state, all)
		}
	}
}

// The store tells the truth of a kept call: it waits while it is asked about anew, however often
// the gateway ends meanwhile, and runs from its commit on. Its node's act is its end then, whoever
// asks.
func TestAKeptCallIsWhatIsSoOfIt(t *testing.T) {
	nodes := nodestest.New("n1")
	lost := make(chan *wire.Ticket, 1)
	nodes.Carry = func(_ context.Context, ticket *wire.Ticket, _ func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		nodes.Connect(0, false)
		lost <- ticket
		return wire.Answer{}, nil, &capabilities.Error{Code: capabilities.CodeUnknownOutcome}
	}
	h, p := newKept(t, nodes)
	for range 2 {
		h.begin()
		if a := <-p.asked; a.Task == "" {
			t.Fatalf("asked about %+v", a)
		}
		if k := h.task(Waiting); k.Call != "" || k.Code != "" {
			t.Fatalf("nothing ran yet: %+v", k)
		}
		h.stop()
	}

	h.begin()
	<-p.asked
	p.answer <- nil
	ticket := <-lost
	if k := h.task(Running); k.Call != ticket.Call {
		t.Errorf("%s was sent, and of the task is kept %+v", ticket.Call, k)
	}
	h.stop()

	h.begin()
	nodes.Set(func() { nodes.Tell = nodestest.Finished(`{"result":7}`) })
	nodes.Connect(0, true)
	if k := h.task(Ended); k.Call != ticket.Call || k.Code != "" {
		t.Errorf("%+v", k)
	}
	r := h.evaluate()
	want(t, r, capabilities.StatusOK, "")
	if r.Call != ticket.Call || string(r.Output) != `{"result":7}` || len(nodes.Sent()) != 1 {
		t.Errorf("%+v, %d tickets", r, len(nodes.Sent()))
	}
}

// The task has not heard of the end of its call when the gateway ends: the next
// process finds the result.
func TestAKeptCallWhoseEndWasMissed(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = nodestest.Answers(`{"result":7}`)
	h, p := newKept(t, nodes)
	h.begin()
	<-p.asked
	p.answer <- nil
	ended := h.task(Ended)
	h.stop()
	// As it lay between the two commits.
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
		return h.tasks.change(tx, ended.ID, func(k *Task) (ledger.Kind, error) {
			k.State = Running
			return "", nil
		})
	}))
	h.begin()
	if k := h.task(Ended); k.Call != ended.Call || k.Code != "" {
		t.Errorf("%+v", k)
	}
	r := h.evaluate()
	want(t, r, capabilities.StatusOK, "")
	if string(r.Output) != `{"result":7}` || len(nodes.Sent()) != 1 {
		t.Errorf("%+v, %d tickets", r, len(nodes.Sent()))
	}
}

// A kept call that ran and failed is not asked about again, although what it failed of
// may pass: a person's yes is for one try.
func TestAKeptCallIsTriedOnce(t *testing.T) {
	nodes := nodestest.New("n1")
	nodes.Carry = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		return wire.Answer{}, nil, &capabilities.Error{Code: capabilities.CodeNodeDisconnected}
	}
	h, p := newKept(t, nodes)
	h.begin()
	<-p.asked
	p.answer <- nil
	if k := h.task(Ended); k.Code != capabilities.CodeNodeDisconnected || !passes(k.Code) || len(nodes.Sent()) != 1 {
		t.Errorf("%+v, %d tickets", k, len(nodes.Sent()))
	}
}

// A call that was dropped while people were asked about it does not run, and does not come back.
func TestADroppedCallStaysDropped(t *testing.T) {
	for name, answer := range map[string]error{
		"a yes":   nil,
		"silence": capabilities.Errorf(capabilities.CodeApprovalPending, "later").WithDetails(capabilities.Pending{Approval: "a-2"}),
		"a no":    &capabilities.Error{Code: capabilities.CodeConsentDenied},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodestest.New("n1")
			nodes.Carry = nodestest.Answers(`{"result":7}`)
			h, p := newKept(t, nodes)
			h.begin()
			kept := <-p.asked
			must(t, h.tasks.DropTask(t.Context(), agent.Principal, kept.Task, "ann"))
			p.answer <- answer
			patience := time.After(30 * time.Second)
			for {
				changed := h.tasks.notice.wait()
				if len(h.tasks.notice.seenTo()) == 0 {
					break
				}
				select {
				case <-changed:
				case <-patience:
					t.Fatal("it is still seen to")
				}
			}
			all, err := h.tasks.Tasks(t.Context(), "")
			must(t, err)
			if len(all) != 0 || len(nodes.Sent()) != 0 {
				t.Errorf("%+v, %d tickets", all, len(nodes.Sent()))
			}
		})
	}
}

// Asking anew follows the roster, not more often than is good, and goes on without it.
func TestWhenAKeptCallIsAskedAboutAnew(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	now := time.Now()
	var a retries
	if !a.due(first, now) || a.due(first, now) || a.due(first, now.Add(slowTry-1)) {
		t.Error("once for each roster")
	}
	if !a.due(second, now) {
		t.Error("the roster changed")
	}
	if !a.due(second, now.Add(slowTry)) {
		t.Error("the roster stays as it is, and nobody asks any more")
	}
	for range quickTries {
		a.due(first, now.Add(2*slowTry))
		a.due(second, now.Add(2*slowTry))
	}
	if a.due(make(chan struct{}), now.Add(2*slowTry)) {
		t.Error("a roster that changes all the time is followed for ever")
	}
}

func (p *people) AskHost(context.Context, consent.HostAsk) (consent.HostSaid, error) {
	return consent.HostSaid{}, capabilities.Errorf(capabilities.CodeConsentUnavailable, "nobody is asked here")
}

func (p *people) Elicit(context.Context, consent.Elicitation) (consent.Reply, error) {
	return consent.Reply{}, capabilities.Errorf(capabilities.CodeConsentUnavailable, "nobody is asked here")
}
