package tools

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// InProcessTool is a tool that is compiled in: its descriptor, and what carries a call out.
type InProcessTool struct {
	*catalog.Descriptor
	// Run is a handler's Handle for this tool alone.
	Run func(context.Context, capabilities.Invocation) (capabilities.Output, error)
}
