package rest

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Kept is the arguments of recorded calls; gateway/dispatch implements it.
type Kept interface {
	KeptArgs(ctx context.Context, call capabilities.CallID) (json.RawMessage, error)
}

// Running is the calls that run now; gateway/dispatch implements it.
type Running interface {
	// Cancel ends one and returns its ID; CodeNotFound if it does not run, or is another's
	// where it has to be one's own.
	Cancel(ctx context.Context, by dispatch.Caller, c dispatch.Cancelling) (capabilities.CallID, error)
}

// cancel ends a call for whoever waits for it, one's own unless one may end anybody's; what
// it did so far is done.
func (s *Server) cancel(c *visit, in api.Reason) (api.CancelledCall, error) {
	id := capabilities.CallID(c.r.PathValue("call"))
	_, err := s.opts.Running.Cancel(c.r.Context(), front.Caller(c.who, ""), dispatch.Cancelling{
		Call: id, Others: c.who.May(principal.ActCancelCalls), Reason: in.Reason,
	})
	return api.CancelledCall{Call: id}, err
}

// cancelRequest ends one's own call: who lost the connection to it knows no more of it
// than its request ID.
func (s *Server) cancelRequest(c *visit, _ none) (api.CancelledCall, error) {
	id := c.r.PathValue("request")
	if err := capabilities.ValidateName("request_id", id, 128); err != nil {
		return api.CancelledCall{}, err
	}
	call, err := s.opts.Running.Cancel(c.r.Context(), front.Caller(c.who, ""), dispatch.Cancelling{Request: capabilities.RequestID(id)})
	return api.CancelledCall{Call: call}, err
}
