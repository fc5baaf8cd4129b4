package nodestest

import (
	"context"
	"slices"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Carrying is what a node does with a ticket.
type Carrying = func(ctx context.Context, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)

// Telling is what a node's journal says of a call.
type Telling = func(node capabilities.NodeID, call capabilities.CallID) wire.JournalState

// Nodes is a roster and its journals. The fields are a test's to set before it is used, and
// within Set or Change after that.
type Nodes struct {
	Roster []route.Node
	Carry  Carrying // required where a ticket is sent
	Tell   Telling  // the zero Call of its answer means the call that was asked about
	Deaf   error    // what Ask returns in place of an answer; nil: none

	mu      sync.Mutex // above what follows, and over the fields while it is in use
	changed chan struct{}
	tickets []capabilities.CallID
	asked   int
	recalls map[capabilities.CallID]string
}

// New makes nodes that are connected, offer tyrum.browser.evaluate, and whose journals say that
// every call runs.
func New(ids ...capabilities.NodeID) *Nodes {
	n := &Nodes{Tell: Says(wire.StateRunning), changed: make(chan struct{}), recalls: map[capabilities.CallID]string{}}
	for _, id := range ids {
		n.Roster = append(n.Roster, route.Node{
			ID: id, Paired: route.StateApproved, Connected: true, Session: 1, Allow: route.AllowPatterns("*"),
			Readiness: map[capabilities.CapabilityID]capabilities.Readiness{
				"tyrum.browser.evaluate": {Capability: "tyrum.browser.evaluate", Isolation: capabilities.ClassT2},
			},
		})
	}
	return n
}

// Says is a journal that has every call in that state.
func Says(s wire.CallState) Telling {
	return func(capabilities.NodeID, capabilities.CallID) wire.JournalState { return wire.JournalState{State: s} }
}

// Finished is a journal that has every call finished well, with that output.
func Finished(output string) Telling {
	return func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
		return wire.JournalState{State: wire.StateFinished, Answer: &wire.Answer{Status: capabilities.StatusOK, Output: []byte(output)}}
	}
}

// Answers is a node that answers every ticket at once, with that output.
func Answers(output string) Carrying {
	return func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		return wire.Answer{Status: capabilities.StatusOK, Output: []byte(output), Effect: capabilities.EffectConfirmed}, nil, nil
	}
}

// Set alters the fields.
func (n *Nodes) Set(alter func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	alter()
}

// Change alters the fields and wakes whoever waits for a change of the roster.
func (n *Nodes) Change(alter func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	alter()
	close(n.changed)
	n.changed = make(chan struct{})
}

// Rebind makes another channel for changes: one of the bubble of testing/synctest
// that it is called in. Nobody may wait for the old one.
func (n *Nodes) Rebind() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = make(chan struct{})
}

// Connect has the node at an index come or go.
func (n *Nodes) Connect(at int, on bool) {
	n.Change(func() {
		n.Roster[at].Connected = on
		if on {
			n.Roster[at].Session++
		}
	})
}

// Sent returns the calls whose tickets were sent, in that order.
func (n *Nodes) Sent() []capabilities.CallID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.tickets)
}

// Asked returns how often a journal was asked.
func (n *Nodes) Asked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// Recalled returns what a journal was last told that it recalled when a call's ticket was sent;
// false: it was not asked about the call.
func (n *Nodes) Recalled(call capabilities.CallID) (recall string, asked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	recall, asked = n.recalls[call]
	return recall, asked
}

// Snapshot returns the roster.
func (n *Nodes) Snapshot() []route.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.Roster)
}

// Order returns the hosts as they are.
func (n *Nodes) Order(hosts []capabilities.NodeID) []capabilities.NodeID { return hosts }

// Changed is closed at the next Change.
func (n *Nodes) Changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// Ask answers by Tell.
func (n *Nodes) Ask(_ context.Context, node capabilities.NodeID, ask *wire.JournalAsk) ([]wire.JournalState, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.Deaf != nil {
		return nil, n.Deaf
	}
	var all []wire.JournalState
	for i, c := range ask.Calls {
		n.recalls[c] = ask.Recall(i)
		state := n.Tell(node, c)
		if state.Call == "" {
			state.Call = c
		}
		all = append(all, state)
	}
	return all, nil
}

// Dispatch answers by Carry, without the lock.
func (n *Nodes) Dispatch(ctx context.Context, _ capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	n.mu.Lock()
	n.tickets = append(n.tickets, t.Call)
	carry := n.Carry
	n.mu.Unlock()
	return carry(ctx, t, progress)
}

// Deliver is Dispatch: no key is asked for.
func (n *Nodes) Deliver(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	_ func(key []byte) ([]byte, error)) (wire.Answer, []capabilities.Blob, error) {
	return n.Dispatch(ctx, node, t, progress)
}

// Conduct is Dispatch: no step is asked for.
func (n *Nodes) Conduct(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	_ func(context.Context, *wire.Step) *wire.StepOrder, _ func(*wire.StepEnd)) (wire.Answer, []capabilities.Blob, error) {
	return n.Dispatch(ctx, node, t, progress)
}

// Converse is Dispatch: nobody is asked anything.
func (n *Nodes) Converse(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
	_ func(context.Context, *wire.Elicit) *wire.Elicited,
	_ func(context.Context, *wire.HostAsk) *wire.HostAnswer) (wire.Answer, []capabilities.Blob, error) {
	return n.Dispatch(ctx, node, t, progress)
}

// Scene tells nothing.
func (n *Nodes) Scene(context.Context, capabilities.NodeID, wire.SceneAsk) (wire.Scene, error) {
	return wire.Scene{}, nil
}
