package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/stop"
)

// Halted is what a turn of the stop switch did.
type Halted struct {
	stop.State
	Calls  int          `json:"calls"`  // that were running, and were ended
	Grants int          `json:"grants"` // that were revoked
	Nodes  nodes.Heeded `json:"nodes"`
}

// Brake is the site's stop switch; the gateway implements it.
type Brake interface {
	State() stop.State
	// Stop ends everything until Resume. It is in effect also when it returns an error, which says
	// that it could not be made durable.
	Stop(ctx context.Context, by capabilities.PrincipalID, reason string) (Halted, error)
	Resume(ctx context.Context, by capabilities.PrincipalID, reason string) (Halted, error)
}

func (s *Server) stopState(*visit, none) (stop.State, error) { return s.opts.Brake.State(), nil }

func (s *Server) stop(c *visit, in reasonBody) (Halted, error) {
	return s.opts.Brake.Stop(c.r.Context(), c.who.Principal, in.Reason)
}

func (s *Server) resume(c *visit, in reasonBody) (Halted, error) {
	return s.opts.Brake.Resume(c.r.Context(), c.who.Principal, in.Reason)
}
