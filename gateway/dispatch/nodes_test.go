package dispatch

import (
	"context"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/route"
)

// fakeNodes is a roster and its journals as a test wants them.
type fakeNodes struct {
	mu       sync.Mutex
	changed  chan struct{}
	roster   []route.Node
	ask      func(node capabilities.NodeID, call capabilities.CallID) wire.JournalState
	askErr   error
	dispatch func(ctx context.Context, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)
	tickets  []capabilities.CallID
}

// Deliver and Conduct are Dispatch: no test of this package has a node that keeps to more.
func (f *fakeNodes) Deliver(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress), _ func([]byte) ([]byte, error)) (wire.Answer, []capabilities.Blob, error) {
	return f.Dispatch(ctx, node, t, progress)
}

func (f *fakeNodes) Conduct(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress), _ func(context.Context, *wire.Step) *wire.StepOrder, _ func(*wire.StepEnd)) (wire.Answer, []capabilities.Blob, error) {
	return f.Dispatch(ctx, node, t, progress)
}

func (f *fakeNodes) Scene(context.Context, capabilities.NodeID, wire.SceneAsk) (wire.Scene, error) {
	return wire.Scene{}, nil
}

func newFakeNodes(ids ...capabilities.NodeID) *fakeNodes {
	f := &fakeNodes{changed: make(chan struct{})}
	f.ask = func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
		return wire.JournalState{State: wire.StateRunning}
	}
	for _, id := range ids {
		f.roster = append(f.roster, route.Node{
			ID: id, Paired: route.StateApproved, Connected: true, Allow: route.AllowPatterns("*"),
			Readiness: map[capabilities.CapabilityID]capabilities.Readiness{
				"tyrum.browser.evaluate": {Capability: "tyrum.browser.evaluate", Isolation: capabilities.ClassT2},
			},
		})
	}
	return f
}

func (f *fakeNodes) Snapshot() []route.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]route.Node(nil), f.roster...)
}

func (f *fakeNodes) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// change alters the fake under its lock and wakes who waits for a change.
func (f *fakeNodes) change(alter func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alter()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeNodes) connect(i int, on bool) { f.change(func() { f.roster[i].Connected = on }) }

func (f *fakeNodes) answers(fn func(capabilities.NodeID, capabilities.CallID) wire.JournalState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask = fn
}

func (f *fakeNodes) Ask(_ context.Context, node capabilities.NodeID, calls []capabilities.CallID) ([]wire.JournalState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.askErr != nil {
		return nil, f.askErr
	}
	var all []wire.JournalState
	for _, c := range calls {
		st := f.ask(node, c)
		if st.Call == "" {
			st.Call = c
		}
		all = append(all, st)
	}
	return all, nil
}

func (f *fakeNodes) Dispatch(ctx context.Context, _ capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	f.mu.Lock()
	f.tickets = append(f.tickets, t.Call)
	fn := f.dispatch
	f.mu.Unlock()
	return fn(ctx, t, progress)
}

func (f *fakeNodes) sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tickets)
}

func finishedState(output string) func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
	return func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
		return wire.JournalState{State: wire.StateFinished, Answer: &wire.Answer{Status: capabilities.StatusOK, Output: []byte(output)}}
	}
}

func stateIs(s wire.CallState) func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
	return func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
		return wire.JournalState{State: s}
	}
}
