package owner

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// somebody stands for any agent that a rule does not name.
const somebody = "somebody"

// Says is what the owner's files together say about a tool now, whatever its arguments:
// Setting, and the rules of the Cedar files. Rules that are about some calls only are
// named in why and change nothing else.
func (r *Rules) Says(tool capabilities.ToolID) (m Mode, why string) {
	m, why = r.Setting(tool)
	r.mu.Lock()
	engine := r.engines[facts{}]
	r.mu.Unlock()
	d := policy.Decision{Effect: policy.Deny}
	if engine != nil {
		d = engine.Possible(policy.Request{
			Principal: somebody, Role: policy.RoleAgent, Lane: somebody, Tool: tool, Given: engine.Profile(tool).
					Class(), Granted: true, Time: r.opts.Now(),
		})
	}
	var always, sometimes []string // files and rules
	if engine != nil {
		for _, f := range engine.Forbids(tool) {
			switch {
			case f.Source == generated: // Setting has told it
			case d.Effect != policy.Allow && slices.Contains(d.Determining, f.ID):
				always = append(always, f.Source+": "+f.ID)
			default:
				sometimes = append(sometimes, f.Source+": "+f.ID)
			}
		}
	}
	cedar := map[policy.Effect]Mode{policy.Deny: ModeNever, policy.Ask: ModeAsk}[d.Effect]
	switch {
	case cedar != "" && len(always) > 0 && stricter(m, cedar) != m:
		m, why = cedar, strings.Join(always, ", ")
	case cedar == ModeNever && m != ModeNever && len(d.Determining) == 0:
		m, why = ModeNever, "no rule of "+CedarName+" permits it for every caller"
	}
	if m != ModeNever && len(sometimes) > 0 {
		if why != "" {
			why += "; "
		}
		why += "of some calls " + strings.Join(sometimes, ", ")
	}
	return m, why
}
