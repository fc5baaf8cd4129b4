package registry

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// View is all that is registered at one moment. It never changes.
type View struct {
	version      uint64
	sorted       []*catalog.Descriptor
	byTool       map[capabilities.ToolID]*catalog.Descriptor
	byWire       map[string]*catalog.Descriptor
	byCapability map[capabilities.CapabilityID]*catalog.Descriptor
	providers    map[capabilities.ToolID]Provider
	hosts        map[string][]capabilities.NodeID // of each provider that nodes host
	withheld     []*catalog.Descriptor            // of providers; rules may name them, nobody calls them
	words        *index                           // made when it is first asked for
	indexed      sync.Once
	news         bool // it holds other tools than the View before it
}

// draft is what a change begins with: what v holds, as the next version. Its caller
// adds to it and settles it before anybody else sees it.
func (v *View) draft() *View {
	return &View{
		version: v.version + 1, sorted: slices.Clone(v.sorted), byTool: maps.Clone(v.byTool), byWire: maps.Clone(v.byWire),
		byCapability: maps.Clone(v.byCapability), providers: maps.Clone(v.providers),
		hosts: maps.Clone(v.hosts), withheld: slices.Clone(v.withheld),
	}
}

func emptyView() *View {
	return &View{
		byTool: map[capabilities.ToolID]*catalog.Descriptor{}, byWire: map[string]*catalog.Descriptor{},
		byCapability: map[capabilities.CapabilityID]*catalog.Descriptor{}, providers: map[capabilities.ToolID]Provider{},
		hosts: map[string][]capabilities.NodeID{},
	}
}

// add puts a tool into a draft.
func (v *View) add(t Tool) {
	d := t.Descriptor
	v.news = true
	v.sorted = append(v.sorted, d)
	v.byTool[d.Tool], v.byWire[d.Tool.WireName()] = d, d
	if d.Capability != "" {
		v.byCapability[d.Capability] = d
	}
	if t.Provider != nil {
		v.providers[d.Tool] = t.Provider
	}
}

// drop takes a provider and its tools out of a draft.
func (v *View) drop(provider string) {
	before := len(v.withheld)
	v.withheld = slices.DeleteFunc(v.withheld, func(d *catalog.Descriptor) bool { return d.Provider == provider })
	v.news = v.news || len(v.withheld) != before
	v.sorted = slices.DeleteFunc(v.sorted, func(d *catalog.Descriptor) bool {
		if d.Provider != provider {
			return false
		}
		v.news = true
		delete(v.byTool, d.Tool)
		delete(v.providers, d.Tool)
		delete(v.byWire, d.Tool.WireName())
		delete(v.byCapability, d.Capability)
		return true
	})
	delete(v.hosts, provider)
}

// withhold puts a tool into a draft that only rules know.
func (v *View) withhold(d *catalog.Descriptor) {
	v.news = true
	v.withheld = append(v.withheld, d)
}

// finish makes a View of a draft.
func (v *View) finish() *View {
	slices.SortFunc(v.sorted, func(a, b *catalog.Descriptor) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	return v
}

// index finds the tools of this View by words. It is made once, so that a change of tools, of which
// there may be many in a row, does not wait for it.
func (v *View) index() *index {
	v.indexed.Do(func() { v.words = newIndex(v.sorted) })
	return v.words
}

// free refuses a tool one of whose names is taken (S4-50): CodeConflict. CodeInvalidRequest
// if it is carried out through what is not there.
func (v *View) free(d *catalog.Descriptor) error {
	if _, taken := v.byTool[d.Tool]; taken {
		return capabilities.Errorf(capabilities.CodeConflict, "the tool %s is registered already", d.Tool)
	}
	if other, taken := v.byWire[d.Tool.WireName()]; taken {
		return capabilities.Errorf(capabilities.CodeConflict, "the tool %s would have the wire name of %s", d.Tool, other.Tool)
	}
	if other, taken := v.byCapability[d.Capability]; taken && d.Capability != "" {
		return capabilities.Errorf(capabilities.CodeConflict, "the capability %s belongs to the tool %s", d.Capability, other.Tool)
	}
	if via := d.Routing.Via; via != "" && v.byCapability[via] == nil {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool %s is carried out through %s, which no tool has", d.Tool, via)
	}
	return nil
}

// Version is higher than that of every earlier View of the same registry.
func (v *View) Version() uint64 { return v.version }

// All returns every tool, sorted by ID. The slice is the caller's.
func (v *View) All() []*catalog.Descriptor { return slices.Clone(v.sorted) }

// Known is what rules can speak about: all that is registered, and the tools of providers that
// nobody may call now. A rule that names one of those outlives that it is taken back.
func (v *View) Known() Known { return Known{v} }

// Known is the tools of a View that rules can name.
type Known struct{ v *View }

var _ policy.Tools = Known{}

// All returns them in no order that means anything.
func (k Known) All() []*catalog.Descriptor { return append(k.v.All(), k.v.withheld...) }

// List returns the tools that carry every one of the tags and have those side
// effects (S4-15, S4-38), sorted by ID. No tags and "" stand for any. The slice
// is the caller's.
func (v *View) List(tags []string, effects catalog.SideEffects) []*catalog.Descriptor {
	list := make([]*catalog.Descriptor, 0, len(v.sorted))
	for _, d := range v.sorted {
		if d.Is(tags, effects) {
			list = append(list, d)
		}
	}
	return list
}

// Get finds a tool by its canonical ID (S4-16).
func (v *View) Get(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	d, ok := v.byTool[id]
	return d, ok
}

// ByWireName finds a tool by the name MCP clients see.
func (v *View) ByWireName(name string) (*catalog.Descriptor, bool) {
	d, ok := v.byWire[name]
	return d, ok
}

// ByCapability finds the tool that mirrors a capability.
func (v *View) ByCapability(id capabilities.CapabilityID) (*catalog.Descriptor, bool) {
	d, ok := v.byCapability[id]
	return d, ok
}

// Hosts returns the nodes that host a provider; the slice is shared.
func (v *View) Hosts(provider string) []capabilities.NodeID { return v.hosts[provider] }

// Provider finds what carries a tool of the gateway out.
func (v *View) Provider(id capabilities.ToolID) (Provider, bool) {
	p, ok := v.providers[id]
	return p, ok
}
