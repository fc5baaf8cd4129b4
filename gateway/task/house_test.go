package task

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tool = capabilities.ToolID("tool.browser.evaluate")

var agent = dispatch.Caller{Principal: "agent-1", Role: policy.RoleAgent, Lane: "main"}

// house is tasks and a pipeline over a real store, ledger, outcome store, catalog and
// policy; the nodes and the people are fakes.
type house struct {
	t        *testing.T
	cat      *catalog.Catalog
	nodes    *fakeNodes
	people   *people
	store    *store.Store
	ledger   *ledger.Ledger
	outcomes *outcome.Store
	engine   atomic.Pointer[policy.Engine]
	calls    *dispatch.Dispatcher
	tasks    *Tasks
	stop     func() // ends this process
}

func newHouse(t *testing.T, nodes *fakeNodes, p *people) *house {
	t.Helper()
	h := &house{t: t, nodes: nodes, people: p}
	var err error
	h.cat, err = catalog.Embedded()
	must(t, err)
	h.store, err = store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1,
		Migrations: slices.Concat(ledger.Migrations, outcome.Migrations, dispatch.Migrations, Migrations),
	})
	must(t, err)
	t.Cleanup(func() { _ = h.store.Close() })
	h.ledger, err = ledger.Open(t.Context(), ledger.Options{Store: h.store, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32))})
	must(t, err)
	h.outcomes, err = outcome.Open(outcome.Options{Store: h.store, Key: make([]byte, outcome.KeySize)})
	must(t, err)
	h.begin()
	t.Cleanup(func() { h.stop() })
	return h
}

// begin makes the next process over what the last one left.
func (h *house) begin() {
	h.t.Helper()
	r := registry.New(h.cat, slog.New(slog.DiscardHandler))
	h.tasks = New(Options{Store: h.store, Ledger: h.ledger, Outcomes: h.outcomes, Registry: r, Consent: h.people, Nodes: h.nodes.Changed})
	h.calls = dispatch.New(dispatch.Options{
		Registry: r, Policy: h.engine.Load, Nodes: h.nodes, Lanes: noLanes{}, Store: h.store, Ledger: h.ledger, Outcomes: h.outcomes,
		Consent: h.people, Deferred: h.tasks,
	})
	must(h.t, h.calls.Recover(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	var runs sync.WaitGroup
	calls, tasks := h.calls, h.tasks
	runs.Go(func() { _ = calls.Run(ctx) })
	runs.Go(func() { _ = tasks.Run(ctx, calls) })
	h.stop = sync.OnceFunc(func() { cancel(); runs.Wait() })
}

func (h *house) rules(cedar string) {
	h.t.Helper()
	e, err := policy.Load([]policy.Source{{Name: "test.cedar", Data: []byte(cedar)}}, h.cat)
	must(h.t, err)
	h.engine.Store(e)
}

func (h *house) evaluate() capabilities.Result {
	return h.calls.Call(context.Background(), dispatch.Request{Caller: agent, Tool: tool, Args: []byte(`{"expression":"1"}`), Surface: "test"})
}

type noLanes struct{}

func (noLanes) Attached(capabilities.LaneID) []capabilities.NodeID { return nil }

// dispatching is what a node does with a ticket.
type dispatching = func(ctx context.Context, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)

// fakeNodes is one node and its journal, as a test wants them.
type fakeNodes struct {
	dispatch dispatching

	mu      sync.Mutex
	changed chan struct{}
	roster  []route.Node
	ask     func(capabilities.NodeID, capabilities.CallID) wire.JournalState
	tickets int
}

func newFakeNodes(id capabilities.NodeID) *fakeNodes {
	return &fakeNodes{
		changed: make(chan struct{}),
		ask: func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
			return wire.JournalState{State: wire.StateRunning}
		},
		roster: []route.Node{{
			ID: id, Paired: route.StateApproved, Connected: true, Allow: route.AllowPatterns("*"),
			Readiness: map[capabilities.CapabilityID]capabilities.Readiness{
				"tyrum.browser.evaluate": {Capability: "tyrum.browser.evaluate", Isolation: capabilities.ClassT2},
			},
		}},
	}
}

func (f *fakeNodes) Snapshot() []route.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.roster)
}

func (f *fakeNodes) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeNodes) connect(i int, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roster[i].Connected = on
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeNodes) answers(ask func(capabilities.NodeID, capabilities.CallID) wire.JournalState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask = ask
}

func (f *fakeNodes) sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tickets
}

func (f *fakeNodes) Ask(_ context.Context, node capabilities.NodeID, calls []capabilities.CallID) ([]wire.JournalState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []wire.JournalState
	for _, c := range calls {
		state := f.ask(node, c)
		state.Call = c
		all = append(all, state)
	}
	return all, nil
}

func (f *fakeNodes) Dispatch(ctx context.Context, _ capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	f.mu.Lock()
	f.tickets++
	f.mu.Unlock()
	return f.dispatch(ctx, t, progress)
}

func (f *fakeNodes) Deliver(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress), _ func([]byte) ([]byte, error)) (wire.Answer, []capabilities.Blob, error) {
	return f.Dispatch(ctx, node, t, progress)
}

func (f *fakeNodes) Conduct(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress), _ func(context.Context, *wire.Step) *wire.StepOrder, _ func(*wire.StepEnd)) (wire.Answer, []capabilities.Blob, error) {
	return f.Dispatch(ctx, node, t, progress)
}

func (f *fakeNodes) Scene(context.Context, capabilities.NodeID, wire.SceneAsk) (wire.Scene, error) {
	return wire.Scene{}, nil
}

func answering(output string) dispatching {
	return func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		return wire.Answer{Status: capabilities.StatusOK, Output: []byte(output), Effect: capabilities.EffectConfirmed}, nil, nil
	}
}

func finishedState(output string) func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
	return func(capabilities.NodeID, capabilities.CallID) wire.JournalState {
		return wire.JournalState{State: wire.StateFinished, Answer: &wire.Answer{Status: capabilities.StatusOK, Output: []byte(output)}}
	}
}

func want(t *testing.T, r capabilities.Result, status capabilities.Status, code capabilities.Code) {
	t.Helper()
	if r.Status != status || r.Code != code {
		t.Errorf("got %s %q (%s), want %s %q", r.Status, r.Code, r.Message, status, code)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
