package rest_test

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/secret"
)

// noSecrets is a vault with nothing in it; the whole of it is tested on a site.
type noSecrets struct{}

func (noSecrets) Set(context.Context, capabilities.PrincipalID, string, capabilities.Secret) error {
	return nil
}
func (noSecrets) List(context.Context) ([]secret.Entry, error) { return []secret.Entry{}, nil }
func (noSecrets) Allow(context.Context, capabilities.PrincipalID, secret.Spec) (secret.Reference, error) {
	return secret.Reference{}, nil
}
func (noSecrets) Remove(context.Context, capabilities.PrincipalID, string) error { return nil }

func (noSecrets) Done(context.Context, capabilities.PrincipalID, capabilities.LaneID) (int, []capabilities.NodeID, error) {
	return 1, nil, nil
}
