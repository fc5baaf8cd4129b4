package front

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Request is one call as a surface hands it to the dispatcher (DESIGN section 4,
// hop 1).
type Request struct {
	Principal capabilities.PrincipalID
	Role      principal.Role
	Lane      capabilities.LaneID
	Tool      capabilities.ToolID
	Args      json.RawMessage // as received: the dispatcher validates and canonicalises
	RequestID capabilities.RequestID
	Surface   string                      // "mcp" or "rest"
	Progress  func(capabilities.Progress) // nil: nobody listens
}

// Caller is who a list of tools is for.
type Caller struct {
	Principal capabilities.PrincipalID
	Role      principal.Role
	Lane      capabilities.LaneID
}

// Dispatcher is the one pipeline behind every surface. Its methods are safe for
// concurrent use.
type Dispatcher interface {
	// Call carries out one call and always gives a Result. Ending ctx cancels it.
	Call(ctx context.Context, r Request) capabilities.Result
	// Visible gives the tools the caller may use now, sorted by tool ID.
	Visible(ctx context.Context, c Caller) []*catalog.Descriptor
	// Changed gives a channel that receives after what Visible gives may have
	// changed; changes that nobody has read yet fall together. cancel ends it.
	Changed() (changes <-chan struct{}, cancel func())
}

// Tools resolves tool names. Registry and catalog both do.
type Tools interface {
	Get(capabilities.ToolID) (*catalog.Descriptor, bool)
	ByWireName(string) (*catalog.Descriptor, bool)
}

// Lanes admits callers to lanes.
type Lanes interface {
	// Enter gives CodeForbidden if the lane is another principal's.
	Enter(ctx context.Context, who principal.Identity, lane capabilities.LaneID) error
}
