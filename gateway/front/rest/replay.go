package rest

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
)

// nothingKept is a Kept of a gateway that keeps no arguments.
type nothingKept struct{}

// KeptArgs finds nothing.
func (nothingKept) KeptArgs(context.Context, capabilities.CallID) (json.RawMessage, error) {
	return nil, capabilities.Errorf(capabilities.CodeResultExpired, "no arguments are kept")
}

type replayedView struct {
	rules.CallReplay
	Result *capabilities.Result `json:"result,omitempty"` // of the call that ran again
}

// replayCall decides a recorded call again and, where it is asked for and allowed, runs it again:
// as a call of the visitor's own in the same lane, recorded with the ID of the one that it repeats
// (S4-05).
func (s *Server) replayCall(c *visit, in api.ReplayCall) (replayedView, error) {
	call := capabilities.CallID(c.r.PathValue("call"))
	again, err := s.opts.Rules.ReplayCall(c.r.Context(), call)
	if err != nil || !in.Run {
		return replayedView{CallReplay: again}, err
	}
	if err := c.who.Require(principal.ActCall); err != nil {
		return replayedView{}, err
	}
	d, ok := s.opts.Tools.Get(again.Tool)
	if !ok {
		return replayedView{}, capabilities.Errorf(capabilities.CodeUnknownTool,
			"There is no tool %s any more, so the call does not run again.", again.Tool)
	}
	if !d.ModelFacing || !d.Replays() {
		return replayedView{}, capabilities.Errorf(capabilities.CodeNotSupported,
			"A call of %s can leave something behind, so it is not run again from the record.", again.Tool).
			WithHint("Make it as a call of your own, with the arguments that you mean.")
	}
	args, err := s.opts.Kept.KeptArgs(c.r.Context(), call)
	if err != nil {
		if capabilities.CodeOf(err) != capabilities.CodeResultExpired {
			return replayedView{}, err
		}
		return replayedView{}, capabilities.Errorf(capabilities.CodeResultExpired, "The arguments of that call are not kept any more.").
			WithHint("They are kept for an hour, of calls that carry a request_id. Make it as a call of your own.")
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, again.Lane); err != nil {
		return replayedView{}, err
	}
	ctx, release := s.held.hold(c.r.Context(), c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	result := s.opts.Dispatcher.Call(ctx, dispatch.Request{
		Caller: front.Caller(c.who, again.Lane), Tool: again.Tool, Args: args, ReplayOf: call, Surface: "rest", Token: c.who.TokenID,
	})
	result.Output = fill(result.Output, result.Blobs)
	return replayedView{CallReplay: again, Result: &result}, nil
}
