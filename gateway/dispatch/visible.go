package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Visible gives the tools this caller may use now, sorted by ID: the same
// decision as a call's, with argument conditions taken as possible, so that what
// dispatch would allow is always visible (DESIGN section 6). The list is shared;
// do not change it.
func (d *Dispatcher) Visible(_ context.Context, caller Caller) []*catalog.Descriptor {
	engine := d.opts.Policy()
	// The snapshot is taken after the signal, so that a change in between makes the
	// entry stale instead of wrong.
	changed := d.opts.Nodes.Changed()
	return d.listed(caller, d.visible.get(caller, engine, changed, func() []*catalog.Descriptor {
		roster := d.opts.Nodes.Snapshot()
		var list []*catalog.Descriptor
		for _, desc := range d.opts.Registry.List(nil, "") {
			if desc.ModelFacing && d.usable(engine, caller, desc, roster) {
				list = append(list, desc)
			}
		}
		return list
	}))
}

// usable is S1-33 for a tool: the catalog declares it for models, policy may allow it
// for this caller, and something here can carry it out.
func (d *Dispatcher) usable(engine *policy.Engine, caller Caller, desc *catalog.Descriptor, roster []route.Node) bool {
	capability := desc.NodeCapability()
	if capability == "" {
		_, provided := d.providers[desc.Tool]
		return policy.Visible(desc.ModelFacing, provided && engine.Possible(d.policyRequest(caller, desc, nil)).Effect != policy.Deny, provided)
	}
	for i := range roster {
		n := &roster[i]
		mapped := route.Check(n, capability, nil).Eligible() // first: policy is only asked about what could run
		if policy.Visible(desc.ModelFacing, mapped && engine.Possible(d.policyRequest(caller, desc, n)).Effect != policy.Deny, mapped) {
			return true
		}
	}
	return false
}

// Changed is closed when what Visible gives may have changed.
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
	made    time.Time
	list    []*catalog.Descriptor
}

func (v *visibleCache) get(caller Caller, engine *policy.Engine, changed <-chan struct{}, build func() []*catalog.Descriptor) []*catalog.Descriptor {
	v.mu.Lock()
	e, ok := v.lists[caller]
	v.mu.Unlock()
	if ok && e.engine == engine && e.changed == changed && time.Since(e.made) < visibleAge {
		return e.list
	}
	list := build()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lists == nil || len(v.lists) >= maxVisible {
		v.lists = make(map[Caller]visibleEntry)
	}
	v.lists[caller] = visibleEntry{engine: engine, changed: changed, made: time.Now(), list: list}
	return list
}
