package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/stop"
)

// Halted is what a turn of the stop switch did.
type Halted struct {
	stop.State
	Calls  int // that were running, and were ended
	Grants int // that were revoked
	Nodes  nodes.Heeded
}

// Brake is the site's stop switch; the gateway implements it.
type Brake interface {
	State() stop.State
	// Stop ends everything until Resume. It is in effect also when it returns an error, which says
	// that it could not be made durable.
	Stop(ctx context.Context, by capabilities.PrincipalID, reason string) (Halted, error)
	Resume(ctx context.Context, by capabilities.PrincipalID, reason string) (Halted, error)
}

// Drain has this gateway end without cutting a call off; the gateway implements it.
type Drain interface {
	// Drained returns how far it is.
	Drained(ctx context.Context) (api.Drain, error)
	// Drain takes no new calls, and ends the gateway once none runs.
	Drain(ctx context.Context, by capabilities.PrincipalID) (api.Drain, error)
	// Undrain takes calls again; CodeConflict once the gateway ends.
	Undrain(ctx context.Context, by capabilities.PrincipalID) (api.Drain, error)
}

func (s *Server) drained(c *visit, _ none) (api.Drain, error) {
	return s.opts.Drain.Drained(c.r.Context())
}

func (s *Server) drain(c *visit, _ none) (api.Drain, error) {
	return s.opts.Drain.Drain(c.r.Context(), c.who.Principal)
}

func (s *Server) undrain(c *visit, _ none) (api.Drain, error) {
	return s.opts.Drain.Undrain(c.r.Context(), c.who.Principal)
}

// noDrain is for a gateway that nobody drains.
type noDrain struct{}

func (noDrain) Drained(context.Context) (api.Drain, error) { return api.Drain{State: api.Serving}, nil }

func (d noDrain) Drain(context.Context, capabilities.PrincipalID) (api.Drain, error) {
	return api.Drain{}, capabilities.Errorf(capabilities.CodeNotSupported, "This gateway is not a program of its own, so it is not drained.").
		WithHint("End the program that it is part of: it waits for calls that run.")
}

func (d noDrain) Undrain(ctx context.Context, _ capabilities.PrincipalID) (api.Drain, error) {
	return d.Drained(ctx)
}

func (s *Server) stopState(*visit, none) (api.Stop, error) {
	return front.ViewStop(s.opts.Brake.State()), nil
}

func (s *Server) stop(c *visit, in api.Reason) (api.Halted, error) {
	return halted(s.opts.Brake.Stop(c.r.Context(), c.who.Principal, in.Reason))
}

func (s *Server) resume(c *visit, in api.Reason) (api.Halted, error) {
	return halted(s.opts.Brake.Resume(c.r.Context(), c.who.Principal, in.Reason))
}

func halted(h Halted, err error) (api.Halted, error) {
	return api.Halted{Stop: front.ViewStop(h.State), Calls: h.Calls, Grants: h.Grants, Nodes: api.Heeded(h.Nodes)}, err
}
