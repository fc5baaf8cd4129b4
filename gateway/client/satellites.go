package client

import (
	"context"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Satellites lists the satellites of the gateway.
func (c *Client) Satellites(ctx context.Context) ([]api.Satellite, error) {
	list, err := get[api.SatelliteList](ctx, c, Path("satellites"))
	return list.Satellites, err
}

// Satellite returns one.
func (c *Client) Satellite(ctx context.Context, id capabilities.NodeID) (api.Satellite, error) {
	return get[api.Satellite](ctx, c, Path("satellites", string(id)))
}

// InviteSatellite makes a one-time code for a satellite.
func (c *Client) InviteSatellite(ctx context.Context, in api.InviteSatellite) (api.InvitedSatellite, error) {
	return do[api.InvitedSatellite](ctx, c, http.MethodPost, Path("satellites"), in)
}

// ApproveSatellite lets one in.
func (c *Client) ApproveSatellite(ctx context.Context, id capabilities.NodeID) (api.Satellite, error) {
	return do[api.Satellite](ctx, c, http.MethodPost, Path("satellites", string(id), "approve"), api.Reason{})
}

// DenySatellite turns one away that waits.
func (c *Client) DenySatellite(ctx context.Context, id capabilities.NodeID, reason string) (api.Satellite, error) {
	return do[api.Satellite](ctx, c, http.MethodPost, Path("satellites", string(id), "deny"), api.Reason{Reason: reason})
}

// RevokeSatellite puts one out, at once and for good.
func (c *Client) RevokeSatellite(ctx context.Context, id capabilities.NodeID, reason string) (api.Satellite, error) {
	return do[api.Satellite](ctx, c, http.MethodPost, Path("satellites", string(id), "revoke"), api.Reason{Reason: reason})
}

// BusKeys returns the public keys that a NATS server elsewhere has to know.
func (c *Client) BusKeys(ctx context.Context) (api.BusKeys, error) {
	return get[api.BusKeys](ctx, c, Path("bus"))
}
