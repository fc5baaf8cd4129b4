package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Visible returns the tools this caller may use now, sorted by ID: the same
// decision as a call's, with argument conditions taken as possible, so that what
// dispatch would allow is always visible. The list is shared;
// do not change it.
func (d *Dispatcher) Visible(_ context.Context, caller Caller) []*catalog.Descriptor {
	return d.listed(caller, d.seenBy(caller).list)
}

// Asks reports whether policy has a person asked about this caller's calls of a tool,
// whatever their arguments: on the first node that could carry one out.
func (d *Dispatcher) Asks(_ context.Context, caller Caller, tool capabilities.ToolID) bool {
	return d.seenBy(caller).asks[tool]
}

// seenBy returns what Visible and Asks stand on.
func (d *Dispatcher) seenBy(caller Caller) visibleEntry {
	engine := d.opts.Policy()
	// The snapshot is taken after the signal, so that a change in between makes the
	// entry stale instead of wrong.
	changed, tools := d.opts.Nodes.Changed(), d.opts.Registry.Now()
	return d.visible.get(caller, engine, changed, tools.Version(), func() (list []*catalog.Descriptor, asks map[capabilities.ToolID]bool) {
		roster := d.opts.Nodes.Snapshot()
		asks = map[capabilities.ToolID]bool{}
		for _, desc := range tools.All() {
			if !desc.ModelFacing {
				continue
			}
			effect := d.usable(engine, caller, desc, roster)
			if effect != policy.Deny {
				list = append(list, desc)
			}
			if effect == policy.Ask {
				asks[desc.Tool] = true
			}
		}
		return list, asks
	})
}

// usable is S1-33 for a tool: the catalog declares it for models, policy may allow it
// for this caller, and something here can carry it out. It returns policy's word, Deny
// where one of them is not so.
func (d *Dispatcher) usable(engine *policy.Engine, caller Caller, desc *catalog.Descriptor, roster []route.Node) policy.Effect {
	capability := desc.NodeCapability()
	if capability == "" {
		_, provided := d.opts.Registry.Provider(desc.Tool)
		if !provided {
			return policy.Deny
		}
		effect := engine.Possible(d.policyRequest(caller, desc, nil)).Effect
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
		if effect := engine.Possible(d.policyRequest(caller, desc, n)).Effect; policy.Visible(desc.ModelFacing, effect != policy.Deny, true) {
			return effect
		}
	}
	return policy.Deny
}

// Changed is closed when what Visible returns may have changed.
func (d *Dispatcher) Changed() <-chan struct{} { return d.opts.Nodes.Changed() }

// visibleAge is how old a cached list may get: policy may look at the time.
const visibleAge = 5 * time.Second

// maxVisible bounds the cache; a gateway has fewer callers than that, and one
// that has more pays with evaluation, not with memory.
const maxVisible = 1024

// visibleCache keeps the lists, because evaluating every tool on every node for
// every tools/list would make large sites slow.
type visibleCache struct {
	mu    sync.Mutex
	lists map[Caller]visibleEntry
}

type visibleEntry struct {
	engine  *policy.Engine
	changed <-chan struct{}
	tools   uint64 // the version of the registry
	made    time.Time
	list    []*catalog.Descriptor
	asks    map[capabilities.ToolID]bool // those that a person is asked about
}

func (v *visibleCache) get(caller Caller, engine *policy.Engine, changed <-chan struct{}, tools uint64, build func() ([]*catalog.Descriptor, map[capabilities.ToolID]bool)) visibleEntry {
	v.mu.Lock()
	e, ok := v.lists[caller]
	v.mu.Unlock()
	if ok && e.engine == engine && e.changed == changed && e.tools == tools && time.Since(e.made) < visibleAge {
		return e
	}
	list, asks := build()
	e = visibleEntry{engine: engine, changed: changed, tools: tools, made: time.Now(), list: list, asks: asks}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lists == nil || len(v.lists) >= maxVisible {
		v.lists = make(map[Caller]visibleEntry)
	}
	v.lists[caller] = e
	return e
}
