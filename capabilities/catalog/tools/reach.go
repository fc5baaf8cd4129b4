package tools

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Reach makes a tool that calls others declare the union of what those in Uses declare. A key is
// optional if every one that has it works without. A tool that is not there counts for nothing.
func (t *RemoteTool) Reach(there func(capabilities.ToolID) (*catalog.Descriptor, bool)) {
	reads, destroys, again, open := true, false, true, false
	needed := map[string]bool{}
	for _, id := range t.Uses {
		desc, ok := there(id)
		if !ok {
			continue
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
