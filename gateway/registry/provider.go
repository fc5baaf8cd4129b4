package registry

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
)

// Provider carries out tools whose descriptor targets the gateway. It is safe for
// concurrent use.
type Provider interface {
	// Execute carries out one call; ctx ends with the call's time.
	Execute(ctx context.Context, o Order) (capabilities.Output, error)
}

// Order is one admitted call for a Provider.
type Order struct {
	Caller Context
	Call   capabilities.CallID
	Args   json.RawMessage // canonical, valid
}
