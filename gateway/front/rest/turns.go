package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	claim "github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/turn"
)

// Turns are what workers say of their turns; gateway/turn implements it.
type Turns interface {
	Put(ctx context.Context, p capabilities.PrincipalID, c claim.Claim) (turn.Turn, error)
	Get(ctx context.Context, p capabilities.PrincipalID, id string) (turn.Turn, error)
	List(ctx context.Context, p capabilities.PrincipalID, session string, limit int) ([]turn.Turn, error)
}

func (s *Server) turnTable() []*endpoint {
	if s.opts.Turns == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{method: get, path: "/v1/turns", action: principal.ActReadCalls,
			summary: "Turns of one's worker or, for those who read all calls, of everybody's, the newest first",
			query:   []param{limitParam, {"session", "of this conversation; of a job, its ID", "string"}}}, s.turns),
		serveJSON(endpoint{method: get, path: "/v1/turns/{turn}", action: principal.ActReadCalls, summary: "One turn, with its stages"}, s.turn),
		serveJSON(endpoint{method: post, path: "/v1/turns", action: principal.ActCall,
			summary: "Record what a worker says of a turn of its own; recorded as its claim, and nothing is decided by it"}, s.claimTurn),
	}
}

// ofTurns returns whose turns a visitor may see; "" for everybody's.
func ofTurns(c *visit) capabilities.PrincipalID {
	if c.who.Require(principal.ActReadAllCalls) == nil {
		return ""
	}
	return c.who.Principal
}

func (s *Server) turns(c *visit, _ none) (api.TurnList, error) {
	limit, err := c.number("limit", 100, turn.MaxListed)
	if err != nil {
		return api.TurnList{}, err
	}
	list, err := s.opts.Turns.List(c.r.Context(), ofTurns(c), c.param("session"), int(limit))
	return api.TurnList{Turns: viewAll(list, front.ViewTurn)}, err
}

func (s *Server) turn(c *visit, _ none) (api.Turn, error) {
	one, err := s.opts.Turns.Get(c.r.Context(), ofTurns(c), c.r.PathValue("turn"))
	return front.ViewTurn(&one), err
}

func (s *Server) claimTurn(c *visit, in claim.Claim) (api.Turn, error) {
	one, err := s.opts.Turns.Put(c.r.Context(), c.who.Principal, in)
	return front.ViewTurn(&one), err
}
