package capabilities

import (
	"context"
	"encoding/json"
)

// StepCall is another call inside a running one: the gateway judges
// and records it as any call, under the parent's ID, and the node's guard has its word.
// Which tools a call may take as steps is in the descriptors.
type StepCall struct {
	Tool ToolID
	Args json.RawMessage // as a caller would send them
	// Run carries the step out in the parent's own turn, once it may; step.Args are
	// canonical and valid. Default: the handler of the tool's capability.
	Run func(ctx context.Context, step Invocation) (Output, error)
}

// EndsParent reports whether a step's refusal ends the call that took it, whatever its
// handler would make of it: a person still has to answer, or no step can be asked for
// any more.
func EndsParent(err error) bool {
	switch CodeOf(err) {
	case CodeApprovalPending, CodeStopped, CodeNodeDisconnected:
		return true
	}
	return false
}
