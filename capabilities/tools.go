package capabilities

import (
	"context"
	"encoding/json"
	"time"
)

// Tool is a capability of a handler and F, the function that carries it out.
type Tool[F any] struct {
	Capability CapabilityID
	Run        F
}

// Tools is what a handler implements, in the order in which it lists it: the one table that
// Capabilities, Readiness and Handle read.
type Tools[F any] []Tool[F]

// Capabilities lists what is implemented.
func (t Tools[F]) Capabilities() []CapabilityID {
	all := make([]CapabilityID, len(t))
	for i, tool := range t {
		all[i] = tool.Capability
	}
	return all
}

// Find returns what carries a capability out; CodeNotSupported if nothing does.
func (t Tools[F]) Find(c CapabilityID) (run F, err error) {
	for _, tool := range t {
		if tool.Capability == c {
			return tool.Run, nil
		}
	}
	return run, Errorf(CodeNotSupported, "This node does not implement %s.", c).
		WithHint("Choose a node for which tool.node.list reports the tool as available, or update this one.")
}

// DefaultTimeout bounds a call whose context brings no deadline.
const DefaultTimeout = 30 * time.Second

// Prepare completes a call for the handler that carries it out: Progress and Observe can be
// called, Args is an object, and the context ends. The caller calls cancel with nil at the
// call's end.
func Prepare(ctx context.Context, inv Invocation) (context.Context, Invocation, context.CancelCauseFunc) {
	if inv.Progress == nil {
		inv.Progress = func(Progress) {}
	}
	if inv.Observe == nil {
		inv.Observe = func(string, string) {}
	}
	if len(inv.Args) == 0 {
		inv.Args = json.RawMessage("{}")
	}
	stop := func() {}
	if _, ok := ctx.Deadline(); !ok {
		ctx, stop = context.WithTimeout(ctx, DefaultTimeout)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, inv, func(cause error) { cancel(cause); stop() }
}
