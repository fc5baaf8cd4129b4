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
	// Step makes another call inside this one, which goes the whole way of a call: decided,
	// asked about and recorded by itself, under this call's ID. Nil for tools whose descriptor
	// takes no steps. Safe for concurrent use, until Execute returns.
	Step func(ctx context.Context, n Nested) capabilities.Result
	// Progress reports how far the call is; never nil.
	Progress func(capabilities.Progress)
}

// Nested is a call that a composed tool makes inside its own (S3-14, S3-16).
type Nested struct {
	Tool capabilities.ToolID
	Args json.RawMessage // as a caller would send them
	// Undo says that it undoes an earlier one: it is made although the time of its call is over.
	Undo bool
	// Lane is what the call belongs to; empty: that of the call which it is inside of.
	Lane capabilities.LaneID
	// Opened are the tools that the turn opened which makes it, as of a call of a caller's own
	// (S2-20); nil: nothing is said.
	Opened []capabilities.ToolID
}

// Planned is a call that a composed tool is going to make, as far as it is known beforehand.
type Planned struct {
	Name  string // for messages
	Tool  capabilities.ToolID
	Node  capabilities.NodeID // empty: none is named
	Args  json.RawMessage     // as a caller would send them; nil: not known yet
	Maybe bool                // it may not come
}

// Planner is a Provider whose calls are known beforehand: they are decided before the first
// of them is made.
type Planner interface {
	Provider
	// Plan returns the calls of a call with those arguments, which are canonical and valid.
	Plan(args json.RawMessage) []Planned
}
