package rest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/live"
)

// mayTakeOver refuses who comes from a device that an agent has in its hands, other
// than the node itself: what an agent clicks on one device must not be a person's hand
// on another. From the node itself an agent could only keep itself waiting.
func (s *Server) mayTakeOver(c *visit) (capabilities.NodeID, error) {
	node := capabilities.NodeID(c.r.PathValue("node"))
	if s.opts.Elsewhere == nil {
		return node, nil
	}
	return node, s.opts.Elsewhere(c.r, node)
}

// takeOver keeps a node to the caller. The session outlives the request, but not the
// token.
func (s *Server) takeOver(c *visit, in api.TakeOver) (api.Control, error) {
	node, err := s.mayTakeOver(c)
	if err != nil {
		return api.Control{}, err
	}
	lane := capabilities.LaneID(fmt.Sprintf("live-%s", c.who.Principal)) // of the person's hands, not of their agents
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, lane); err != nil {
		return api.Control{}, err
	}
	life, release := s.held.hold(context.WithoutCancel(c.r.Context()), c.who.TokenID, s.opts.Tokens.Valid)
	taken, err := s.opts.Live.Take(c.r.Context(), life, release, front.Caller(c.who, lane), node, in.Pause)
	return front.ViewControl(&taken), err
}

func (s *Server) hold(c *visit, _ none) (api.Control, error) {
	node, err := s.mayTakeOver(c)
	if err != nil {
		return api.Control{}, err
	}
	held, err := s.opts.Live.Hold(c.who.Principal, node, c.r.PathValue("session"))
	return front.ViewControl(&held), err
}

// useControl is one gesture or some keys of the person's.
func (s *Server) useControl(c *visit, in api.UseControl) (capabilities.Result, error) {
	node, err := s.mayTakeOver(c)
	if err != nil {
		return capabilities.Result{}, err
	}
	result, err := s.opts.Live.Input(c.r.Context(), c.who.Principal, node, c.r.PathValue("session"), c.r.PathValue("with"), in.Args)
	return front.ViewResult(result), err
}

func (s *Server) handBack(c *visit, _ none) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), endTime)
	defer cancel()
	node := capabilities.NodeID(c.r.PathValue("node"))
	if err := s.opts.Live.HandBack(ctx, c.who.Principal, node, c.r.PathValue("session")); err != nil {
		return nil, err
	}
	return map[string]bool{"handed_back": true}, nil
}

// Take refuses.
func (dark) Take(_, _ context.Context, release func(), _ dispatch.Caller, _ capabilities.NodeID, _ bool) (live.Control, error) {
	release()
	return live.Control{}, noLive()
}

// notTaken is what a gateway says on which nothing can be taken over.
func notTaken() error {
	return capabilities.Errorf(capabilities.CodeNotFound, "that was handed back, or never taken over")
}

// Hold finds nothing.
func (dark) Hold(capabilities.PrincipalID, capabilities.NodeID, string) (live.Control, error) {
	return live.Control{}, notTaken()
}

// Input refuses.
func (dark) Input(context.Context, capabilities.PrincipalID, capabilities.NodeID, string, string,
	json.RawMessage) (capabilities.Result, error) {
	return capabilities.Result{}, notTaken()
}

// HandBack finds nothing.
func (dark) HandBack(context.Context, capabilities.PrincipalID, capabilities.NodeID, string) error {
	return notTaken()
}

// Taken is empty.
func (dark) Taken(capabilities.NodeID) []live.Control { return []live.Control{} }
