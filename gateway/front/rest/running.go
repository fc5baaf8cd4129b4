package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Running is the calls that run now; gateway/dispatch implements it.
type Running interface {
	// Cancel ends one; CodeNotFound if it does not run.
	Cancel(ctx context.Context, call capabilities.CallID, by capabilities.PrincipalID, reason string) error
	// CancelOwn ends one of one's own; CodeNotFound if it does not run or is another's.
	CancelOwn(ctx context.Context, call capabilities.CallID, by capabilities.PrincipalID, reason string) error
	// CancelRequest ends one's own by its request ID; CodeNotFound if it does not run.
	CancelRequest(ctx context.Context, by capabilities.PrincipalID, request capabilities.RequestID) (capabilities.CallID, error)
}

type cancelledView struct {
	Call capabilities.CallID `json:"call_id"`
}

// cancel ends a call for whoever waits for it, one's own unless one may end anybody's; what
// it did so far is done.
func (s *Server) cancel(c *visit, in reasonBody) (cancelledView, error) {
	id := capabilities.CallID(c.r.PathValue("call"))
	if !principal.Allow(c.who.Role, principal.ActCancelCalls) {
		return cancelledView{id}, s.opts.Running.CancelOwn(c.r.Context(), id, c.who.Principal, in.Reason)
	}
	return cancelledView{id}, s.opts.Running.Cancel(c.r.Context(), id, c.who.Principal, in.Reason)
}

// cancelRequest ends one's own call: who lost the connection to it knows no more of it
// than its request ID.
func (s *Server) cancelRequest(c *visit, _ none) (cancelledView, error) {
	id := c.r.PathValue("request")
	if err := capabilities.ValidateName("request_id", id, 128); err != nil {
		return cancelledView{}, err
	}
	call, err := s.opts.Running.CancelRequest(c.r.Context(), c.who.Principal, capabilities.RequestID(id))
	return cancelledView{call}, err
}
