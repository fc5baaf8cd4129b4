package registry

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Registry holds the registered tools. Reads take no lock; Register is rare.
type Registry struct {
	log *slog.Logger

	register sync.Mutex // one Register at a time
	now      atomic.Pointer[table]
}

// table is one immutable state.
type table struct {
	sorted []*catalog.Descriptor
	byTool map[capabilities.ToolID]*catalog.Descriptor
	byWire map[string]*catalog.Descriptor
	byCap  map[capabilities.CapabilityID]capabilities.ToolID
	words  *index
}

// New registers every tool of the catalog (nil: none). The log is required.
func New(cat *catalog.Catalog, log *slog.Logger) *Registry {
	r := &Registry{log: log}
	var all []*catalog.Descriptor
	if cat != nil {
		all = cat.All() // the catalog has refused duplicates already
	}
	t := newTable(all)
	r.now.Store(t)
	log.Info("tools.registered", "count", len(t.sorted)) // S4-45
	return r
}

func newTable(all []*catalog.Descriptor) *table {
	t := &table{
		sorted: all,
		byTool: make(map[capabilities.ToolID]*catalog.Descriptor, len(all)),
		byWire: make(map[string]*catalog.Descriptor, len(all)),
		byCap:  make(map[capabilities.CapabilityID]capabilities.ToolID, len(all)),
		words:  newIndex(all),
	}
	slices.SortFunc(t.sorted, func(a, b *catalog.Descriptor) int { return strings.Compare(string(a.Tool), string(b.Tool)) })
	for _, d := range t.sorted {
		t.byTool[d.Tool] = d
		t.byWire[d.Tool.WireName()] = d
		if d.Capability != "" {
			t.byCap[d.Capability] = d.Tool
		}
	}
	return t
}

// Register adds a tool (S4-14). CodeConflict if its ID, its wire name or its
// capability is taken (S4-50); CodeInvalidRequest if it breaks a rule of the
// catalog.
func (r *Registry) Register(d *catalog.Descriptor) error {
	if d == nil {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "no tool to register")
	}
	if err := d.Validate(); err != nil {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool cannot be registered: %v", err)
	}
	r.register.Lock()
	defer r.register.Unlock()
	t := r.now.Load()
	if _, taken := t.byTool[d.Tool]; taken {
		return capabilities.Errorf(capabilities.CodeConflict, "the tool %s is registered already", d.Tool)
	}
	if other, taken := t.byWire[d.Tool.WireName()]; taken {
		return capabilities.Errorf(capabilities.CodeConflict, "the tool %s would have the wire name of %s", d.Tool, other.Tool)
	}
	if other, taken := t.byCap[d.Capability]; taken {
		return capabilities.Errorf(capabilities.CodeConflict, "the capability %s belongs to the tool %s", d.Capability, other)
	}
	r.now.Store(newTable(append(slices.Clone(t.sorted), d)))
	r.log.Info("tools.registered", "count", 1, "tool", d.Tool)
	return nil
}

// List gives the tools that carry every one of the tags and have those side
// effects (S4-15, S4-38), sorted by ID. No tags and "" stand for any. The slice
// is the caller's.
func (r *Registry) List(tags []string, effects catalog.SideEffects) []*catalog.Descriptor {
	t := r.now.Load()
	list := make([]*catalog.Descriptor, 0, len(t.sorted))
	for _, d := range t.sorted {
		if effects != "" && d.SideEffects != effects {
			continue
		}
		if !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(d.Tags, tag) }) {
			list = append(list, d)
		}
	}
	return list
}

// Len is the number of registered tools (tools.registry.size).
func (r *Registry) Len() int { return len(r.now.Load().sorted) }

// Get finds a tool by its canonical ID (S4-16).
func (r *Registry) Get(id capabilities.ToolID) (*catalog.Descriptor, bool) {
	d, ok := r.now.Load().byTool[id]
	return d, ok
}

// ByWireName finds a tool by the name MCP clients see.
func (r *Registry) ByWireName(name string) (*catalog.Descriptor, bool) {
	d, ok := r.now.Load().byWire[name]
	return d, ok
}

// ToolDef is the registry's own view of a tool (S4-33).
type ToolDef struct {
	Name        capabilities.ToolID `json:"name"`
	Description string              `json:"description"`
	Tags        []string            `json:"tags"`
	ArgsSchema  json.RawMessage     `json:"args_schema"`
	SideEffects catalog.SideEffects `json:"side_effects"`
	Risk        policy.Risk         `json:"risk"` // derived from the declared keys, never declared
}

// Def gives the ToolDef of a registered tool.
func (r *Registry) Def(id capabilities.ToolID) (ToolDef, bool) {
	d, ok := r.Get(id)
	if !ok {
		return ToolDef{}, false
	}
	return ToolDef{
		Name: d.Tool, Description: d.Description, Tags: slices.Clone(d.Tags), ArgsSchema: d.ModelInput(false),
		SideEffects: d.SideEffects, Risk: policy.DeriveRisk(d.Manifest.Keys()),
	}, true
}

// ValidationResult is what Validate found (S4-17).
type ValidationResult struct {
	Valid      bool                `json:"valid"`
	Violations []catalog.Violation `json:"violations,omitempty"` // every one, at most 32
	Args       catalog.Args        `json:"-"`                    // set if Valid
}

// Validate checks raw arguments against a tool's schema. The error is
// CodeUnknownTool, or CodeInvalidRequest for what is no strict JSON.
func (r *Registry) Validate(id capabilities.ToolID, raw []byte) (ValidationResult, error) {
	d, ok := r.Get(id)
	if !ok {
		return ValidationResult{}, unknown(id)
	}
	args, violations, err := d.SplitArgs(raw)
	if err != nil {
		return ValidationResult{}, err
	}
	return ValidationResult{Valid: len(violations) == 0, Violations: violations, Args: args}, nil
}

// unknown does not repeat what is no tool ID: it may hold anything.
func unknown(id capabilities.ToolID) error {
	if id.Validate() != nil {
		return capabilities.Errorf(capabilities.CodeUnknownTool, "that is no tool ID")
	}
	return capabilities.Errorf(capabilities.CodeUnknownTool, "there is no tool %s", id)
}
