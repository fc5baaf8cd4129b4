package gateway

import "github.com/handrail-dev/handrail/gateway/skill"

// openSkills reads the skills and has their tool load them.
func (g *Gateway) openSkills() (err error) {
	if g.Skills, err = skill.Open(g.opts.Skills, g.log); err != nil {
		return err
	}
	return g.Registry.Provide(skill.Tool, g.Skills)
}
