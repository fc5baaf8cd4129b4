package gateway

import (
	"context"
	"crypto/ed25519"

	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/trace"
	"github.com/handrail-dev/handrail/pairing"
)

// openTraces makes what tells a collector how calls went, where Options name one. key is the
// gateway's own.
func (g *Gateway) openTraces(key ed25519.PrivateKey) {
	if g.opts.Traces == nil {
		return
	}
	g.traces = trace.New(trace.Options{
		Config: g.opts.Traces, Version: g.opts.Version, Instance: string(pairing.GatewayIDOf(key.Public().(ed25519.PublicKey))),
		Metrics: g.metrics, Log: g.log,
	})
}

// told returns who is told how calls went; nil: nobody is.
func (g *Gateway) told() dispatch.Traces {
	if g.traces == nil {
		return nil
	}
	return g.traces
}

// keepTraces sends what is told, until ctx ends.
func (g *Gateway) keepTraces(ctx context.Context) error {
	if g.traces == nil {
		return nil
	}
	return g.traces.Run(ctx)
}
