package rest

import (
	"context"
	"time"

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
	List(ctx context.Context, q turn.Query) ([]turn.Turn, error)
	Moved() <-chan struct{}
}

// allTurns is asked for to have those that run and those that were lost, too. Without it there are
// those alone that have ended: programs of before know no other.
const allTurns = "all"

func (s *Server) turnTable() []*endpoint {
	if s.opts.Turns == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{method: get, path: "/v1/turns", action: principal.ActReadCalls,
			summary: "Turns of one's worker or, for those who read all calls, of everybody's, the newest first",
			query: []param{limitParam, {"session", "of this conversation; of a job, its ID", "string"},
				{"state", "ended (the default), running, lost or all; lost are those whose worker said nothing any more", "string"}}}, s.turns),
		serveJSON(endpoint{method: get, path: "/v1/turns/{turn}", action: principal.ActReadCalls, summary: "One turn, with its stages"}, s.turn),
		s.raw(endpoint{method: get, path: "/v1/turns/{turn}/events", action: principal.ActReadCalls, media: "text/event-stream",
			summary: "A turn as it is and after each stage (server-sent events: turn), until it has ended or is lost"}, s.turnEvents),
		serveJSON(endpoint{method: post, path: "/v1/turns", action: principal.ActCall,
			summary: "Record what a worker says of a turn of its own; recorded as its claim, and nothing is decided by it. " +
				"With the state running it says where it is, and again within lease_ms, or the turn is lost"}, s.claimTurn),
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
	q := turn.Query{Principal: ofTurns(c), Session: c.param("session"), State: claim.Ended, Limit: int(limit)}
	switch state := c.param("state"); state {
	case "":
	case allTurns:
		q.State = ""
	case string(claim.Ended), string(claim.Running), string(claim.Lost):
		q.State = claim.State(state)
	default:
		return api.TurnList{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "state must be %s, %s, %s or %s",
			claim.Ended, claim.Running, claim.Lost, allTurns)
	}
	list, err := s.opts.Turns.List(c.r.Context(), q)
	return api.TurnList{Turns: viewAll(list, front.ViewTurn)}, err
}

func (s *Server) turn(c *visit, _ none) (api.Turn, error) {
	one, err := s.opts.Turns.Get(c.r.Context(), ofTurns(c), c.r.PathValue("turn"))
	return front.ViewTurn(&one), err
}

func (s *Server) claimTurn(c *visit, in claim.Claim) (api.Turn, error) {
	one, err := s.opts.Turns.Put(c.r.Context(), c.who.Principal, in)
	view := front.ViewTurn(&one)
	if !one.Until.IsZero() {
		view.LeaseMS = time.Until(one.Until).Milliseconds()
	}
	return view, err
}

// turnEvents streams a turn as it is and after each stage of it, until it has ended, is lost or is
// forgotten.
func (s *Server) turnEvents(c *visit) error {
	id, whose := c.r.PathValue("turn"), ofTurns(c)
	return s.follow(c, "turn", s.opts.Turns.Moved, func(ctx context.Context) (followed, error) {
		one, err := s.opts.Turns.Get(ctx, whose, id)
		return followed{front.ViewTurn(&one), one.Claim.State != claim.Running, one.Until}, err
	})
}
