package gateway

import "github.com/handrail-dev/handrail/gateway/skill"

// openSkills reads the skills and has their tool load them.
func (g *Gateway) openSkills() (err error) {
	if g.Skills, err = skill.Open(g.opts.Skills); err != nil {
		return err
	}
	for _, why := range g.Skills.Refused {
		g.log.Warn("skill.refused", "skill", why)
	}
	return g.Registry.Provide(skill.Tool, g.Skills)
}
