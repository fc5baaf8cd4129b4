package gateway

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/metrics"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// Selector joins the registry's deterministic choice with the ledger and the
// metrics of S4-46.
type Selector struct {
	registry *registry.Registry
	ledger   *ledger.Ledger
	latency  metrics.Histogram
}

func newSelector(r *registry.Registry, l *ledger.Ledger, reg *metrics.Registry) *Selector {
	reg.Gauge("tools_registry_size", "Registered tools.", func() float64 { return float64(r.Len()) })
	return &Selector{registry: r, ledger: l, latency: reg.Histogram("tools_select_latency_ms",
		"Milliseconds from an intent's arrival to its recorded selection.", []float64{0.5, 1, 2, 5, 10, 50, 250, 1000})}
}

// SelectTool chooses a tool and makes request and result durable (S4-21, S4-22).
func (s *Selector) SelectTool(ctx context.Context, who dispatch.Caller, intent registry.Intent,
	candidates []capabilities.ToolID) (registry.ToolSelection, error) {
	began := time.Now()
	defer func() { s.latency.Observe(float64(time.Since(began)) / float64(time.Millisecond)) }()
	return s.registry.Select(ctx, s, intent, registry.Context{Lane: who.Lane, Principal: who.Principal, Role: who.Role}, candidates)
}

// RecordSelection puts one packet of a selection into the ledger.
func (s *Selector) RecordSelection(ctx context.Context, r registry.Record) error {
	return s.ledger.Append(ctx, ledger.Draft{
		Kind: ledger.Kind(r.Kind), Tool: r.Tool, Principal: r.Principal, Lane: r.Lane, Body: r.Body,
	})
}
