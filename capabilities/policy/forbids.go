package policy

import "github.com/handrail-dev/handrail/capabilities"

// Forbid names a rule that forbids, and the file that it stands in.
type Forbid struct{ ID, Source string }

// Forbids returns the rules in force that can forbid a call of a tool, or want a person for
// it, whoever calls and whatever the arguments are, in the order of the files.
func (e *Engine) Forbids(tool capabilities.ToolID) (list []Forbid) {
	p := e.byAction[tool]
	if p == nil {
		return nil
	}
	for _, r := range p.enforced {
		if !r.permit {
			list = append(list, Forbid{string(r.id), r.source})
		}
	}
	return list
}
