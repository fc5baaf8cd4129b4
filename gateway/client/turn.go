package client

import (
	"context"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Turns returns the token's principal's newest turns, at most limit, 0 for the gateway's default.
func (c *Client) Turns(ctx context.Context, limit int) ([]api.Turn, error) {
	list, err := get[api.TurnList](ctx, c, Query(Path("turns"), "limit", number(limit)))
	return list.Turns, err
}

// Turn returns one turn.
func (c *Client) Turn(ctx context.Context, id string) (api.Turn, error) {
	return get[api.Turn](ctx, c, Path("turns", id))
}

// ClaimTurn records what a worker says of a turn of its own; the same claim again is the same turn.
func (c *Client) ClaimTurn(ctx context.Context, claim turn.Claim) (api.Turn, error) {
	return do[api.Turn](ctx, c, http.MethodPost, Path("turns"), claim)
}
