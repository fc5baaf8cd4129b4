package registry

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Registry holds the registered tools. Reads take no lock; changes are rare, and each of
// them goes through change.
type Registry struct {
	log     *slog.Logger
	founded [32]byte // the hash of the catalog that it began with

	now       atomic.Pointer[View]
	announced atomic.Bool

	mu      sync.Mutex // one change at a time; above what follows
	accept  func(next *View) error
	changed chan struct{}
}

// Tool is one tool to register.
type Tool struct {
	*catalog.Descriptor
	// Provider carries it out, if its descriptor targets the gateway and names no
	// capability. Nil for all others: nodes carry those out.
	Provider Provider
}

// New registers every tool of the catalog (nil: none). The log is required.
func New(cat *catalog.Catalog, log *slog.Logger) *Registry {
	r := &Registry{log: log, changed: make(chan struct{}), accept: func(*View) error { return nil }}
	first := emptyView()
	if cat != nil {
		r.founded = cat.Hash()
		for _, d := range cat.All() { // the catalog has refused duplicates already
			first.add(Tool{Descriptor: d})
		}
	}
	r.now.Store(first.finish())
	return r
}

// Announce logs what is registered, and has every later change logged (S4-45). A gateway calls it
// once it serves: until then it may refuse to start.
func (r *Registry) Announce() {
	if !r.announced.Swap(true) {
		r.log.Info("tools.registered", "count", r.Len())
	}
}

// registered logs a change.
func (r *Registry) registered(args ...any) {
	if r.announced.Load() {
		r.log.Info("tools.registered", args...)
	}
}

// Founded is the hash of the catalog that the registry began with, which nodes compare with that of
// their own. A later registration does not change it.
func (r *Registry) Founded() [32]byte { return r.founded }

// Now returns what is registered at this moment.
func (r *Registry) Now() *View { return r.now.Load() }

// Changed is closed at the next change; ask again for the one after.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Accept sets what every change of the tools must pass: f gets the View that is about to hold, and
// its error refuses the change as a whole. It is set once, before anything is registered while
// calls come. f must not call the registry's Register or Provide.
func (r *Registry) Accept(f func(next *View) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accept = f
}

// Register adds tools (S4-14), all of them or none. CodeConflict if an ID, a wire name or
// a capability is taken (S4-50), or if the policy in force could not judge with them what it
// judges now; CodeInvalidRequest if one breaks a rule of the catalog. The registry keeps
// copies: whoever registered a descriptor cannot change it afterwards.
func (r *Registry) Register(tools ...Tool) error {
	kept := make([]Tool, 0, len(tools))
	for _, t := range tools {
		if t.Descriptor == nil {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "no tool to register")
		}
		d, err := catalog.Settle(t.Descriptor)
		if err != nil {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool cannot be registered: %v", err)
		}
		if t.Provider != nil && d.NodeCapability() != "" {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool %s is carried out by nodes, so it takes no provider", d.Tool)
		}
		kept = append(kept, Tool{Descriptor: d, Provider: t.Provider})
	}
	err := r.change(func(draft *View) error {
		for _, t := range kept {
			if err := draft.free(t.Descriptor); err != nil {
				return err
			}
			draft.add(t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range kept {
		r.registered("count", 1, "tool", t.Tool)
	}
	return nil
}

// Hosted makes offered the only tools of a provider that nodes host: one change, in which those
// that it had before go. withheld are tools of it that rules may name and nobody can call. No
// tools take the provider away. Errors as of Register, and CodeInvalidRequest for a tool of
// another provider.
func (r *Registry) Hosted(provider string, hosts []capabilities.NodeID, offered, withheld []*catalog.Descriptor) error {
	return r.backed(provider, hosts, nil, offered, withheld)
}

// Rehosted has the tools of a provider carried out by other nodes, while the tools stay: policy has
// nothing to judge anew. A provider without callable tools is left as it is.
func (r *Registry) Rehosted(provider string, hosts []capabilities.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now.Load()
	if before, ok := now.hosts[provider]; !ok || slices.Equal(before, hosts) {
		return
	}
	next := now.draft()
	next.hosts[provider] = slices.Clone(hosts)
	r.now.Store(next.finish())
	close(r.changed)
	r.changed = make(chan struct{})
}

// Composed is Hosted for tools that the gateway makes of calls of others; by carries out those
// that are offered.
func (r *Registry) Composed(provider string, by Provider, offered, withheld []*catalog.Descriptor) error {
	return r.backed(provider, nil, by, offered, withheld)
}

func (r *Registry) backed(provider string, hosts []capabilities.NodeID, by Provider, offered, withheld []*catalog.Descriptor) error {
	settle := func(tools []*catalog.Descriptor) ([]*catalog.Descriptor, error) {
		kept := make([]*catalog.Descriptor, 0, len(tools))
		for _, t := range tools {
			d, err := catalog.Settle(t)
			if err != nil {
				return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool cannot be registered: %v", err)
			}
			if d.Provider != provider {
				return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool %s is not of the provider %s", d.Tool, provider)
			}
			if d.NodeCapability() == "" && by == nil && hosts != nil || d.NodeCapability() != "" && by != nil {
				return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool %s is not carried out in that way", d.Tool)
			}
			kept = append(kept, d)
		}
		return kept, nil
	}
	kept, err := settle(offered)
	if err != nil {
		return err
	}
	known, err := settle(withheld)
	if err != nil {
		return err
	}
	err = r.change(func(draft *View) error {
		draft.drop(provider)
		for _, d := range kept {
			if err := draft.free(d); err != nil {
				return err
			}
			draft.add(Tool{Descriptor: d, Provider: by})
		}
		for _, d := range known {
			if err := draft.free(d); err != nil {
				return err
			}
			draft.withhold(d)
		}
		if len(kept) > 0 && by == nil {
			draft.hosts[provider] = slices.Clone(hosts)
		}
		return nil
	})
	if err == nil {
		r.registered("count", len(kept), "provider", provider)
	}
	return err
}

// Provide sets what carries out a registered tool that has no provider yet.
// CodeUnknownTool, CodeConflict if it has one, CodeInvalidRequest if nodes carry it out.
func (r *Registry) Provide(id capabilities.ToolID, p Provider) error {
	return r.change(func(draft *View) error {
		d, ok := draft.byTool[id]
		switch {
		case !ok:
			return unknown(id)
		case d.NodeCapability() != "":
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "the tool %s is carried out by nodes, so it takes no provider", id)
		case draft.providers[id] != nil:
			return capabilities.Errorf(capabilities.CodeConflict, "the tool %s has a provider already", id)
		}
		draft.providers[id] = p
		return nil
	})
}

// change is the one way in which what is registered becomes something else.
func (r *Registry) change(edit func(draft *View) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.now.Load().draft()
	if err := edit(next); err != nil {
		return err
	}
	next.finish()
	if next.news {
		if err := r.accept(next); err != nil {
			return err
		}
	}
	r.now.Store(next)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// All returns every tool, sorted by ID. The slice is the caller's.
func (r *Registry) All() []*catalog.Descriptor { return r.Now().All() }

// List is View.List of this moment.
func (r *Registry) List(tags []string, effects catalog.SideEffects) []*catalog.Descriptor {
	return r.Now().List(tags, effects)
}

// Len is the number of registered tools (tools.registry.size).
func (r *Registry) Len() int { return len(r.Now().sorted) }

// Get is View.Get of this moment (S4-16).
func (r *Registry) Get(id capabilities.ToolID) (*catalog.Descriptor, bool) { return r.Now().Get(id) }

// ByWireName is View.ByWireName of this moment.
func (r *Registry) ByWireName(name string) (*catalog.Descriptor, bool) {
	return r.Now().ByWireName(name)
}

// ByCapability is View.ByCapability of this moment.
func (r *Registry) ByCapability(id capabilities.CapabilityID) (*catalog.Descriptor, bool) {
	return r.Now().ByCapability(id)
}

// Provider is View.Provider of this moment.
func (r *Registry) Provider(id capabilities.ToolID) (Provider, bool) { return r.Now().Provider(id) }

// ToolDef is the registry's own view of a tool (S4-33).
type ToolDef struct {
	Name        capabilities.ToolID `json:"name"`
	Description string              `json:"description"`
	Tags        []string            `json:"tags"`
	ArgsSchema  json.RawMessage     `json:"args_schema"`
	SideEffects catalog.SideEffects `json:"side_effects"`
	Risk        policy.Risk         `json:"risk"` // derived from the declared keys, never declared
}

// Def returns the ToolDef of a registered tool.
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
