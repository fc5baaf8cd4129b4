package macro

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Offer reads the macro of a provider's record and returns what it says of the one tool that
// it is, with everything that any of its steps may touch. An error is that of Read or Check.
func Offer(p *tools.Provider, there Tools) (*Macro, tools.ToolManifest, error) {
	m, err := Read(p.Name, p.Manifest)
	if err != nil {
		return nil, tools.ToolManifest{}, err
	}
	if err := m.Check(there); err != nil {
		return nil, tools.ToolManifest{}, err
	}
	t := tools.RemoteTool{
		Name: m.Name, Title: m.Title, Description: m.Description, Input: m.Input, TimeoutMS: m.TimeoutMS,
		Uses: m.Uses(), Origin: tools.OriginOf(p, p.Manifest), Tags: []string{"macro"},
	}
	for i := range m.Steps {
		t.Plan = append(t.Plan, m.Steps[i].Says)
	}
	if m.Output != nil {
		t.Plan = append(t.Plan, "output "+m.Returns)
	}
	m.reach(&t, there)
	return m, tools.ToolManifest{Provider: p.Name, Tools: []tools.RemoteTool{t}}, nil
}

// reach makes the tool declare the union of what its steps declare. A key is optional if every
// step that has it works without.
func (m *Macro) reach(t *tools.RemoteTool, there Tools) {
	reads, destroys, again, open := true, false, true, false
	needed := map[string]bool{}
	for _, id := range m.Uses() {
		desc, ok := there(id)
		if !ok {
			continue // Check has refused it
		}
		for _, key := range desc.Manifest.Keys() {
			needed[key] = needed[key] || !slices.Contains(desc.Optional, key)
		}
		reads = reads && desc.SideEffects == catalog.EffectsNone
		destroys = destroys || desc.Annotations.Destructive
		again = again && (desc.Annotations.Idempotent || desc.Annotations.ReadOnly)
		open = open || desc.Annotations.OpenWorld
	}
	for key, must := range needed {
		t.Keys = append(t.Keys, key)
		if !must {
			t.OptionalKeys = append(t.OptionalKeys, key)
		}
	}
	slices.Sort(t.Keys)
	slices.Sort(t.OptionalKeys)
	t.ReadOnly, t.Destructive, t.Idempotent, t.OpenWorld = &reads, &destroys, &again, &open
}
