package dispatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Visible returns the tools this caller may use now, sorted by ID: the same
// decision as a call's, with argument conditions taken as possible, so that what
// dispatch would allow is always visible.
func (d *Dispatcher) Visible(_ context.Context, caller Caller) (tools []*catalog.Descriptor) {
	roster := d.opts.Nodes.Snapshot()
	l := d.list(d.opts.Policy(), caller, roster)
	for _, desc := range d.opts.Registry.Now().All() {
		if effect, _ := l.usable(desc, roster, 1); effect != policy.Deny {
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
	effect, _ := d.list(d.opts.Policy(), caller, roster).usable(desc, roster, 1)
	return effect == policy.Ask
}

// Possible returns policy's word on this caller's calls of a tool, whatever their arguments, and
// the keys that they would have, narrowed as far as it is known before: on the first node that
// could carry one out. A tool that the caller cannot use is denied and has no keys (S1-33).
func (d *Dispatcher) Possible(_ context.Context, caller Caller, tool capabilities.ToolID) (policy.Decision, []string) {
	desc, ok := d.opts.Registry.Get(tool)
	if !ok {
		return policy.Decision{}, nil
	}
	roster := d.opts.Nodes.Snapshot()
	l := d.list(d.opts.Policy(), caller, roster)
	effect, n := l.usable(desc, roster, 1)
	if effect == policy.Deny {
		return policy.Decision{}, nil
	}
	verdict := l.possible(desc, n)
	var hosts []string
	if n != nil && len(desc.OwnerKeys) > 0 {
		hosts = n.Readiness[desc.NodeCapability()].Hosts
	}
	keys := slices.DeleteFunc(slices.Clone(l.common.engine.Profile(tool).On(hosts).Keys), func(key string) bool {
		return slices.Contains(verdict.Withheld, key)
	})
	if slices.Contains(keys, capabilities.KeyEgress) {
		for _, host := range hosts {
			keys = append(keys, capabilities.NarrowDomains+host)
		}
	}
	return verdict, keys
}

// usable is S1-33 for a tool: the catalog declares it for models, policy may allow it
// for this caller, and something here can carry it out. It returns policy's word, Deny
// where one of them is not so, and the node that it is about, if any. depth is how many composed
// tools desc would be inside of, it counted.
func (l *listing) usable(desc *catalog.Descriptor, roster []route.Node, depth int) (policy.Effect, *route.Node) {
	if !desc.ModelFacing || !l.callsUsable(desc, roster, depth) {
		return policy.Deny, nil
	}
	capability := desc.NodeCapability()
	if capability == "" {
		_, provided := l.d.opts.Registry.Provider(desc.Tool)
		if !provided {
			return policy.Deny, nil
		}
		effect := l.possible(desc, nil).Effect
		if !policy.Visible(desc.ModelFacing, effect != policy.Deny, provided) {
			return policy.Deny, nil
		}
		return effect, nil
	}
	for i := range roster {
		n := &roster[i]
		if !route.Check(n, capability, nil).Eligible() { // first: policy is only asked about what could run
			continue
		}
		if effect := l.possible(desc, n).Effect; policy.Visible(desc.ModelFacing, effect != policy.Deny, true) {
			return effect, n
		}
	}
	return policy.Deny, nil
}

// callsUsable reports whether policy and nodes let a composed tool make its calls, as foresee
// decides about them; arguments are taken as favourable as they can be.
func (l *listing) callsUsable(desc *catalog.Descriptor, roster []route.Node, depth int) bool {
	if !desc.Composes() || depth > maxNesting {
		return true
	}
	p, _ := l.d.opts.Registry.Provider(desc.Tool)
	planner, ok := p.(registry.Planner)
	if !ok {
		return true
	}
	for _, one := range planner.Plan(json.RawMessage(`{}`)) {
		called, ok := l.d.opts.Registry.Get(one.Tool)
		if one.Maybe && (!ok || !l.denied(called, roster)) { // what is in the way may be gone by then
			continue
		}
		if !ok {
			return false
		}
		if effect, _ := l.usable(called, roster, depth+1); effect == policy.Deny {
			return false
		}
	}
	return true
}

// denied reports whether it is policy that keeps a tool from wherever it could be carried out.
func (l *listing) denied(desc *catalog.Descriptor, roster []route.Node) bool {
	capability := desc.NodeCapability()
	if capability == "" {
		return l.possible(desc, nil).Effect == policy.Deny
	}
	denied := false
	for i := range roster {
		if n := &roster[i]; route.Check(n, capability, nil).Eligible() {
			if l.possible(desc, n).Effect != policy.Deny {
				return false
			}
			denied = true
		}
	}
	return denied
}

// Changed is closed when what Visible returns may have changed.
func (d *Dispatcher) Changed() <-chan struct{} { return d.opts.Nodes.Changed() }
