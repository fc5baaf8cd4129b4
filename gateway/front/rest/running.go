package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
)

// Running is the calls that run now; gateway/dispatch implements it.
type Running interface {
	// Cancel ends one; CodeNotFound if it does not run.
	Cancel(ctx context.Context, call capabilities.CallID, by capabilities.PrincipalID, reason string) error
}

type cancelledView struct {
	Call capabilities.CallID `json:"call_id"`
}

// cancel ends a call for whoever waits for it; what it did so far is done.
func (s *Server) cancel(c *visit, in reasonBody) (cancelledView, error) {
	id := capabilities.CallID(c.r.PathValue("call"))
	return cancelledView{id}, s.opts.Running.Cancel(c.r.Context(), id, c.who.Principal, in.Reason)
}
