package dispatch

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/metrics"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	toolEvaluate   = capabilities.ToolID("tool.browser.evaluate")
	toolScreenshot = capabilities.ToolID("tool.browser.screenshot")
	permitAll      = `permit(principal, action, resource);`
)

type laneMap map[capabilities.LaneID][]capabilities.NodeID

func (l laneMap) Attached(lane capabilities.LaneID) []capabilities.NodeID { return l[lane] }

// house is a Dispatcher over a real store, ledger, outcome store, catalog and
// policy; only the nodes are a fake, so that they fail exactly as a test wants.
type house struct {
	*Dispatcher
	t        *testing.T
	cat      *catalog.Catalog
	nodes    *nodestest.Nodes
	store    *store.Store
	ledger   *ledger.Ledger
	outcomes *outcome.Store
	drift    *events.Book
	engine   atomic.Pointer[policy.Engine]
	metrics  *metrics.Registry
	tune     func(*Options)
	stop     func() // ends Run
}

func newHouse(t *testing.T, nodes *nodestest.Nodes, tune func(*Options)) *house {
	t.Helper()
	h := &house{t: t, nodes: nodes, tune: tune}
	var err error
	h.cat, err = catalog.Embedded()
	must(t, err)
	h.rules(permitAll)
	h.store, err = store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1,
		Migrations: slices.Concat(ledger.Migrations, outcome.Migrations, events.Migrations(), Migrations),
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

// begin makes the Dispatcher of the next process over what the last one left.
func (h *house) begin() {
	h.t.Helper()
	h.metrics = metrics.New()
	h.drift = events.New(events.Options{Store: h.store, Ledger: h.ledger, Manifest: func(id capabilities.ToolID) string {
		return h.engine.Load().Profile(id).ManifestHash
	}})
	must(h.t, h.drift.Load(context.Background()))
	o := Options{
		Registry: registry.New(h.cat, slog.New(slog.DiscardHandler)), Policy: h.engine.Load, Nodes: h.nodes, Lanes: laneMap{},
		Store: h.store, Ledger: h.ledger, Drift: h.drift, Outcomes: h.outcomes, Metrics: NewMetrics(h.metrics),
	}
	if h.tune != nil {
		h.tune(&o)
	}
	h.Dispatcher = New(o)
	must(h.t, h.Recover(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func(d *Dispatcher) { done <- d.Run(ctx) }(h.Dispatcher)
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

func (h *house) rules(cedar string) {
	h.t.Helper()
	e, err := policy.Load([]policy.Source{{Name: "test.cedar", Data: []byte(cedar)}}, h.cat)
	must(h.t, err)
	h.engine.Store(e)
}

var agentCaller = Caller{Principal: "agent-1", Role: policy.RoleAgent, Lane: "main"}

func (h *house) call(ctx context.Context, tool capabilities.ToolID, args string, id capabilities.RequestID) capabilities.Result {
	return h.Call(ctx, Request{Caller: agentCaller, Tool: tool, Args: json.RawMessage(args), RequestID: id, Surface: "test"})
}

func (h *house) evaluate(id capabilities.RequestID) capabilities.Result {
	return h.call(context.Background(), toolEvaluate, `{"expression":"1"}`, id)
}

func (h *house) packets(call capabilities.CallID) []ledger.Packet {
	h.t.Helper()
	all, err := h.ledger.Packets(context.Background(), ledger.Query{Call: call, Limit: 1000})
	must(h.t, err)
	return all
}

// kinds returns the kinds of a call's packets in order, without their prefix.
func (h *house) kinds(call capabilities.CallID) []string {
	h.t.Helper()
	var kinds []string
	for _, p := range h.packets(call) {
		kinds = append(kinds, string(p.Kind[len("tool.call."):]))
	}
	return kinds
}

func (h *house) wantKinds(call capabilities.CallID, want ...string) {
	h.t.Helper()
	if got := h.kinds(call); !slices.Equal(got, want) {
		h.t.Errorf("%s has packets %q, want %q", call, got, want)
	}
}

func (h *house) body(p ledger.Packet) (b struct {
	Status capabilities.Status `json:"status"`
	Code   capabilities.Code   `json:"code"`
	Digest string              `json:"output_digest"`
	Hops   []int64             `json:"hops_us"`
}) {
	h.t.Helper()
	must(h.t, json.Unmarshal(p.Body, &b))
	return b
}

func (h *house) state(call capabilities.CallID) (state opencalls.State) {
	h.t.Helper()
	must(h.t, h.store.Write(context.Background(), func(tx *store.Tx) (err error) {
		err = tx.QueryRow(`SELECT state FROM calls WHERE state IN ('open', 'unknown', 'ended') AND call_id = $1`, string(call)).Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}))
	return state
}

// insert puts a row there, as an earlier process left it.
func (h *house) insert(r *opencalls.Call) {
	h.t.Helper()
	must(h.t, h.store.Write(context.Background(), func(tx *store.Tx) error {
		request := sql.NullString{String: string(r.Request), Valid: r.Request != ""}
		_, err := tx.Exec(`INSERT INTO calls (call_id, principal, request_id, lane, tool, requested, node, args_mac, state, created_ms, until_ms)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, string(r.ID), string(r.Principal), request, string(r.Lane), string(r.Tool),
			string(r.Requested), string(r.Node), r.ArgsMAC, string(r.State), r.Created.UnixMilli(), r.Created.Add(opencalls.UnknownMemory).UnixMilli())
		return err
	}))
}

// losing is a Dispatch that loses the connection once the ticket is out.
func losing(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	return wire.Answer{}, nil, &capabilities.Error{Code: capabilities.CodeUnknownOutcome}
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
