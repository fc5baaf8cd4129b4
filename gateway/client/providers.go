package client

import (
	"context"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Providers lists the providers of the gateway.
func (c *Client) Providers(ctx context.Context) ([]api.Provider, error) {
	list, err := get[api.ProviderList](ctx, c, Path("providers"))
	return list.Providers, err
}

// Provider returns one, its tools with their schemas.
func (c *Client) Provider(ctx context.Context, name string) (api.Provider, error) {
	return get[api.Provider](ctx, c, Path("providers", name))
}

// AddProvider has a node host a provider. Nothing of it can be called before it is approved.
func (c *Client) AddProvider(ctx context.Context, p api.AddProvider) (api.Provider, error) {
	return do[api.Provider](ctx, c, http.MethodPost, Path("providers"), p)
}

// CheckProvider asks the provider's host what it offers now.
func (c *Client) CheckProvider(ctx context.Context, name string) (api.Provider, error) {
	return do[api.Provider](ctx, c, http.MethodPost, Path("providers", name, "check"), nil)
}

// ApproveProvider lets a provider's tools be called; a.ManifestHash is what was looked at.
func (c *Client) ApproveProvider(ctx context.Context, name string, a api.ApproveProvider) (api.Provider, error) {
	return do[api.Provider](ctx, c, http.MethodPost, Path("providers", name, "approve"), a)
}

// RemoveProvider ends a provider.
func (c *Client) RemoveProvider(ctx context.Context, name string) error {
	_, err := do[struct{}](ctx, c, http.MethodDelete, Path("providers", name), nil)
	return err
}

// ToolDiff compares what a provider says of a tool now with what was approved.
func (c *Client) ToolDiff(ctx context.Context, tool capabilities.ToolID) (api.ToolDiff, error) {
	return get[api.ToolDiff](ctx, c, Path("tools", string(tool), "diff"))
}

// DecideTool moves a provider's tool to another state; d.Hash is what was looked at.
func (c *Client) DecideTool(ctx context.Context, tool capabilities.ToolID, d api.ToolDecision) (api.ProviderTool, error) {
	return do[api.ProviderTool](ctx, c, http.MethodPost, Path("tools", string(tool), "state"), d)
}
