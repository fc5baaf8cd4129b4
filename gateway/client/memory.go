package client

import (
	"context"
	"net/http"

	"github.com/handrail-dev/handrail/gateway/api"
)

// Facts returns what the token's principal has remembered: those with words of a text, the best
// first, or for "" the newest; at most limit, 0 for the gateway's default.
func (c *Client) Facts(ctx context.Context, text string, limit int) ([]api.Fact, error) {
	list, err := get[api.FactList](ctx, c, Query(Path("memory"), "q", text, "limit", number(limit)))
	return list.Facts, err
}

// Fact returns one fact.
func (c *Client) Fact(ctx context.Context, id string) (api.Fact, error) {
	return get[api.Fact](ctx, c, Path("memory", id))
}

// KeepFact remembers a fact, in place of the one of the same subject and attribute. Code
// "acknowledgement_required" says that it is private and that nobody agreed; "forbidden", that it
// is a credential.
func (c *Client) KeepFact(ctx context.Context, f api.KeepFact) (api.Fact, error) {
	return do[api.Fact](ctx, c, http.MethodPost, Path("memory"), f)
}

// EditFact replaces the words of a fact and returns it; the errors of KeepFact.
func (c *Client) EditFact(ctx context.Context, id string, e api.EditFact) (api.Fact, error) {
	return do[api.Fact](ctx, c, http.MethodPatch, Path("memory", id), e)
}

// ForgetFact forgets a fact.
func (c *Client) ForgetFact(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, Path("memory", id), nil, nil)
}
