package front

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Dispatcher is the one pipeline behind every surface; gateway/dispatch
// implements it. Its methods are safe for concurrent use.
type Dispatcher interface {
	// Call carries out one call and always returns a Result. Ending ctx cancels it.
	Call(ctx context.Context, r dispatch.Request) capabilities.Result
	// Refuse records a call that its surface refuses with e, and counts it as the
	// principal's refusal.
	Refuse(ctx context.Context, r dispatch.Request, e *capabilities.Error) capabilities.Result
	// Visible returns the tools the caller may use now, sorted by tool ID; shared,
	// read only.
	Visible(ctx context.Context, c dispatch.Caller) []*catalog.Descriptor
	// Asks reports whether a person is asked about the caller's calls of a tool.
	Asks(ctx context.Context, c dispatch.Caller, tool capabilities.ToolID) bool
	// Possible returns policy's word on the caller's calls of a tool, and the keys that they would
	// have; none for a tool that the caller cannot use.
	Possible(ctx context.Context, c dispatch.Caller, tool capabilities.ToolID) (policy.Decision, []string)
	// Covered returns what covers a call before it is made; nothing is carried out or recorded.
	Covered(ctx context.Context, r dispatch.Request) dispatch.Coverage
	// Changed is closed when what Visible returns may have changed; ask again for the next change.
	Changed() <-chan struct{}
}

// Tools resolves tool names; gateway/registry implements it.
type Tools interface {
	Get(capabilities.ToolID) (*catalog.Descriptor, bool)
	ByWireName(string) (*catalog.Descriptor, bool)
}

// Lanes admits callers to lanes; gateway/lane implements it.
type Lanes interface {
	// Enter returns CodeForbidden if the lane is another principal's.
	Enter(ctx context.Context, who principal.Identity, lane capabilities.LaneID) error
}

// Caller is who speaks in a lane, as the dispatcher knows it.
func Caller(who principal.Identity, lane capabilities.LaneID) dispatch.Caller {
	return dispatch.Caller{Principal: who.Principal, Role: string(who.Role), Lane: lane}
}
