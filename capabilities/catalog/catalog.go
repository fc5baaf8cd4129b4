package catalog

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Catalog is an immutable set of descriptors.
type Catalog struct {
	sorted       []*Descriptor
	byTool       map[capabilities.ToolID]*Descriptor
	byCapability map[capabilities.CapabilityID]*Descriptor
	byWire       map[string]*Descriptor
	hash         [32]byte
}

var embedded = sync.OnceValues(func() (*Catalog, error) { return Load() })

// Embedded returns the catalog that is compiled in, parsed once.
func Embedded() (*Catalog, error) { return embedded() }

// Get finds a tool by its canonical ID.
func (c *Catalog) Get(id capabilities.ToolID) (*Descriptor, bool) {
	d, ok := c.byTool[id]
	return d, ok
}

// ByCapability finds the tool that mirrors a capability.
func (c *Catalog) ByCapability(id capabilities.CapabilityID) (*Descriptor, bool) {
	d, ok := c.byCapability[id]
	return d, ok
}

// ByWireName finds a tool by the name MCP clients see.
func (c *Catalog) ByWireName(name string) (*Descriptor, bool) {
	d, ok := c.byWire[name]
	return d, ok
}

// All returns every descriptor, sorted by tool ID. The slice is the caller's.
func (c *Catalog) All() []*Descriptor { return append([]*Descriptor(nil), c.sorted...) }

// FieldNames lists the names of the tools' fields that are of more than one word, sorted.
func (c *Catalog) FieldNames() []string {
	names := map[string]bool{}
	for _, d := range c.sorted {
		for _, schema := range [][]byte{d.Input, d.Result} {
			for _, m := range fieldName.FindAllSubmatch(schema, -1) {
				names[string(m[1])] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

var fieldName = regexp.MustCompile(`"([a-z]+(?:_[a-z]+)+)"\s*:`)

// Hash is the SHA-256 of all canonical descriptors in order: two sides with the
// same hash mean the same by every tool ID.
func (c *Catalog) Hash() [32]byte { return c.hash }

// With returns a catalog that holds tools besides what c holds, each of which Settle has
// returned. Hash stays that of c: it says what is compiled in. The error names the tool whose
// ID, wire name or capability is taken.
func (c *Catalog) With(tools ...*Descriptor) (*Catalog, error) {
	next, err := newCatalog(append(c.All(), tools...))
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeConflict, "%v", err)
	}
	next.hash = c.hash
	return next, nil
}

func newCatalog(all []*Descriptor) (*Catalog, error) {
	c := &Catalog{
		sorted:       all,
		byTool:       make(map[capabilities.ToolID]*Descriptor, len(all)),
		byCapability: make(map[capabilities.CapabilityID]*Descriptor, len(all)),
		byWire:       make(map[string]*Descriptor, len(all)),
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Tool < all[j].Tool })
	sum := sha256.New()
	for _, d := range all {
		if _, ok := c.byTool[d.Tool]; ok {
			return nil, refuse(d, "the tool ID is taken")
		}
		c.byTool[d.Tool] = d
		if other, ok := c.byWire[d.Tool.WireName()]; ok {
			return nil, refuse(d, "its wire name %s is that of %s too", d.Tool.WireName(), other.Tool)
		}
		c.byWire[d.Tool.WireName()] = d
		if d.Capability != "" {
			if other, ok := c.byCapability[d.Capability]; ok {
				return nil, refuse(d, "the capability belongs to %s", other.Tool)
			}
			c.byCapability[d.Capability] = d
		}
	}
	for _, d := range all {
		if via := d.Routing.Via; via != "" {
			if _, ok := c.byCapability[via]; !ok {
				return nil, refuse(d, "routing.via names %s, which is not in the catalog", via)
			}
		}
		data, err := d.canonical()
		if err != nil {
			return nil, refuse(d, "%v", err)
		}
		if !d.settled {
			d.settled = true
			d.hashOnce.Do(func() { d.hash = sha256.Sum256(data) })
		}
		sum.Write(data)
		sum.Write([]byte{'\n'})
	}
	sum.Sum(c.hash[:0])
	return c, nil
}

// refuse names the tool; Load puts the code on it.
func refuse(d *Descriptor, format string, args ...any) error {
	return fmt.Errorf(string(d.Tool)+": "+format, args...)
}
