package macro

import "github.com/handrail-dev/handrail/capabilities/catalog/tools"

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
	t.Reach(there)
	return m, tools.ToolManifest{Provider: p.Name, Tools: []tools.RemoteTool{t}}, nil
}
