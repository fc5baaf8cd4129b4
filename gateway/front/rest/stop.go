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
