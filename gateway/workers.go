package gateway

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/worker"
	"github.com/handrail-dev/handrail/pairing"
)

// workerDoor says to a worker's paste where the surfaces are, and by which certificate they are
// known.
func (g *Gateway) workerDoor(p *pairing.WorkerPaste) error {
	site := g.describe()
	if site.HTTPAddr == "" {
		return capabilities.Errorf(capabilities.CodeConflict, "the gateway does not listen yet")
	}
	base, err := url.Parse(site.BaseURL)
	if err != nil {
		return err
	}
	p.Plain = base.Scheme == "http"
	if site.Door != nil {
		p.Sum = hex.EncodeToString(site.Door.Sum[:])
	}
	switch {
	case site.PublicURL == "":
		p.Addrs = g.reachable(site.HTTPAddr)
	case base.Port() != "":
		p.Addrs = []string{base.Host}
	default:
		port := "443"
		if p.Plain {
			port = "80"
		}
		p.Addrs = []string{net.JoinHostPort(base.Hostname(), port)}
	}
	return nil
}

// workers is the roster of workers with what else has to know of a change.
type workers struct {
	*worker.Workers
	g *Gateway
}

// Decide also ends the connection to the bus of one that is put out.
func (w workers) Decide(ctx context.Context, by principal.Identity, id, state, reason string) (api.Worker, error) {
	v, err := w.Workers.Decide(ctx, by, id, state, reason)
	if state == route.StateRevoked && v.ID != "" {
		w.g.Bus.PutOut(v.ID)
	}
	return v, err
}

func (w workers) Way(ctx context.Context, tokenID string) *api.WorkerBus {
	id := w.Workers.Holds(ctx, tokenID)
	if id == "" {
		return nil
	}
	addrs, sum, ok := w.g.Bus.Way()
	if !ok && w.g.opts.BusForWorkers {
		w.g.ensureBus(ctx)
		addrs, sum, ok = w.g.Bus.Way()
	}
	if !ok {
		return nil
	}
	return &api.WorkerBus{Worker: id, Addrs: addrs, Sum: sum}
}

// ensureBus starts the bus for a worker. One that does not start leaves HTTPS.
func (g *Gateway) ensureBus(ctx context.Context) {
	if err := g.Bus.Ensure(ctx); err != nil {
		g.log.Warn("bus.start_failed", "err", err)
	}
}

// startBusForWorkers has the bus there again to which workers come back after a restart.
func (g *Gateway) startBusForWorkers(ctx context.Context) {
	if !g.opts.BusForWorkers {
		return
	}
	all, err := g.Workers.Views(ctx)
	if err != nil {
		g.log.Warn("bus.start_failed", "err", err)
		return
	}
	if slices.ContainsFunc(all, func(w api.Worker) bool { return w.State == route.StateApproved }) {
		g.ensureBus(ctx)
	}
}

// plumb answers what a worker asks over the bus, as the REST surface answers it over HTTPS: the
// same table, with the identity of the worker's token. It is looked up each time, so that a worker
// that was put out gets no further answer.
func (g *Gateway) plumb(ctx context.Context, a bus.Asked) bus.Answered {
	who, err := g.Workers.Identity(ctx, a.Worker)
	var r *http.Request
	if err == nil {
		r, err = http.NewRequestWithContext(front.As(ctx, who), a.Method, a.Path, bytes.NewReader(a.Body))
	}
	if err != nil {
		body, _ := json.Marshal(map[string]api.Error{"error": front.ViewError(err)})
		return bus.Answered{Status: capabilities.CodeOf(err).Info().HTTP, Type: "application/json", Body: body}
	}
	r.RequestURI = a.Path
	r.Header.Set("Content-Type", "application/json")
	status, kind, body := g.api.Answer(r)
	return bus.Answered{Status: status, Type: kind, Body: body}
}
