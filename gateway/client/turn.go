package client

import (
	"context"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Turns returns the token's principal's newest turns, at most limit, 0 for the gateway's default:
// those that run and those that were lost, too, unless the gateway is one of before, which knows
// none of them.
func (c *Client) Turns(ctx context.Context, limit int) ([]api.Turn, error) {
	list, err := get[api.TurnList](ctx, c, Query(Path("turns"), "limit", number(limit), "state", "all"))
	if capabilities.CodeOf(err) == capabilities.CodeInvalidRequest {
		list, err = get[api.TurnList](ctx, c, Query(Path("turns"), "limit", number(limit)))
	}
	return list.Turns, err
}

// Turn returns one turn.
func (c *Client) Turn(ctx context.Context, id string) (api.Turn, error) {
	return get[api.Turn](ctx, c, Path("turns", id))
}

// WatchTurn calls fn with a turn as it is, and after each stage of it, until it has ended or is
// lost, ctx ends or fn returns an error. io.EOF: the gateway ended before the turn did.
func (c *Client) WatchTurn(ctx context.Context, id string, fn func(api.Turn) error) error {
	return watch(ctx, c, Path("turns", id, "events"), "turn", fn, func(one *api.Turn) bool { return one.State != turn.Running })
}

// ClaimTurn records what a worker says of a turn of its own; the same claim again is the same turn.
// CodeInvalidRequest: the gateway is one of before, if the claim says that its turn runs.
func (c *Client) ClaimTurn(ctx context.Context, claim turn.Claim) (api.Turn, error) {
	return do[api.Turn](ctx, c, http.MethodPost, Path("turns"), claim)
}
