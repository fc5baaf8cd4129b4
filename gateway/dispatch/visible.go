package dispatch

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Visible returns the tools this caller may use now, sorted by ID: the same
// decision as a call's, with argument conditions taken as possible, so that what
// dispatch would allow is always visible.
func (d *Dispatcher) Visible(_ context.Context, caller Caller) (tools []*catalog.Descriptor) {
	roster := d.opts.Nodes.Snapshot()
	l := d.list(d.opts.Policy(), caller, roster)
	for _, desc := range d.opts.Registry.Now().All() {
		if l.usable(desc, roster) != policy.Deny {
			tools = append(tools, desc)
		}
	}
	return d.listed(caller, tools)
}

// Asks reports whether policy has a person asked about this caller's calls of a tool,
// whatever their arguments: on the first node that could carry one out.
func (d *Dispatcher) Asks(_ context.Context, caller Caller, tool capabilities.ToolID) bool {
	desc, ok := d.opts.Registry.Get(tool)
	if !ok {
		return false
	}
	roster := d.opts.Nodes.Snapshot()
	return d.list(d.opts.Policy(), caller, roster).usable(desc, roster) == policy.Ask
}

// usable is S1-33 for a tool: the catalog declares it for models, policy may allow it
// for this caller, and something here can carry it out. It returns policy's word, Deny
// where one of them is not so.
func (l *listing) usable(desc *catalog.Descriptor, roster []route.Node) policy.Effect {
	if !desc.ModelFacing {
		return policy.Deny
	}
	capability := desc.NodeCapability()
	if capability == "" {
		_, provided := l.d.opts.Registry.Provider(desc.Tool)
		if !provided {
			return policy.Deny
		}
		effect := l.possible(desc, nil).Effect
		if !policy.Visible(desc.ModelFacing, effect != policy.Deny, provided) {
			return policy.Deny
		}
		return effect
	}
	for i := range roster {
		n := &roster[i]
		if !route.Check(n, capability, nil).Eligible() { // first: policy is only asked about what could run
			continue
		}
		if effect := l.possible(desc, n).Effect; policy.Visible(desc.ModelFacing, effect != policy.Deny, true) {
			return effect
		}
	}
	return policy.Deny
}

// Changed is closed when what Visible returns may have changed.
func (d *Dispatcher) Changed() <-chan struct{} { return d.opts.Nodes.Changed() }
