package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Permission returns what covers a call of the token's principal before it is made; args nil: of
// any call of the tool. lane empty: the token's.
func (c *Client) Permission(ctx context.Context, tool capabilities.ToolID, lane capabilities.LaneID,
	args json.RawMessage) (api.Permission, error) {
	return do[api.Permission](ctx, c, http.MethodPost, Path("permissions", "check"), api.CheckPermission{Tool: tool, Lane: lane, Args: args})
}
