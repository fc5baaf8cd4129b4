package agent

import (
	"sync"

	"github.com/handrail-dev/handrail/agent/runner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Hosted are the tools of the providers that a node hosts; agent/provider implements it.
type Hosted interface {
	runner.Hosted
	// Tools returns all of them, sorted by ID, and a number that moves when they change.
	Tools() ([]*catalog.Descriptor, uint64)
}

// hosted is o.Hosted for the runner, which wants no interface around nothing.
func (o *Options) hosted() runner.Hosted {
	if o.Hosted == nil {
		return nil
	}
	return o.Hosted
}

// tool finds a tool that this node has, compiled in or hosted.
func (o *Options) tool(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	d, ok := o.Catalog.Get(id)
	if !ok && o.Hosted != nil {
		return o.Hosted.Tool(id)
	}
	return d, ok
}

// toolbox returns what tells all tools that this node has now; nil: those of the catalog.
func (o *Options) toolbox() func() *catalog.Catalog {
	if o.Hosted == nil {
		return nil
	}
	var mu sync.Mutex
	var at uint64
	var all *catalog.Catalog
	return func() *catalog.Catalog {
		tools, version := o.Hosted.Tools()
		mu.Lock()
		defer mu.Unlock()
		if all != nil && version == at {
			return all
		}
		next, err := o.Catalog.With(tools...)
		if err != nil { // the host refuses names that are taken, so this is a defect of ours
			o.Log.Error("provider.tools", "err", err)
			next = o.Catalog
		}
		all, at = next, version
		return all
	}
}
