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
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
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
	nodes    *nodestest.Nodes
	people   *people
	store    *store.Store
	ledger   *ledger.Ledger
	outcomes *outcome.Store
	engine   atomic.Pointer[policy.Engine]
	calls    *dispatch.Dispatcher
	tasks    *Tasks
	stop     func() // ends this process
}

func newHouse(t *testing.T, nodes *nodestest.Nodes, p *people) *house {
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
