package skill

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// Tool is the tool that loads a skill: the only way to its text, from whichever surface (S3-17,
// S3-18).
const Tool capabilities.ToolID = "tool.skill.load"

var _ registry.Provider = (*Shelf)(nil)

// Execute loads a skill's SKILL.md, or another of its files; without a name it says which skills
// there are.
func (s *Shelf) Execute(_ context.Context, o registry.Order) (capabilities.Output, error) {
	var args struct {
		Name string `json:"name"`
		File string `json:"file"`
	}
	if err := json.Unmarshal(o.Args, &args); err != nil {
		return capabilities.Output{}, err
	}
	s.Look()
	if args.Name == "" {
		now := s.now.Load()
		out := api.Skill{Skills: []api.SkillSummary{}, Broken: now.broken}
		for _, one := range now.all {
			out.Skills = append(out.Skills, api.SkillSummary{Name: one.Name, Description: one.Description})
		}
		return capabilities.Output{Result: out, Effect: capabilities.EffectConfirmed}, nil
	}
	one, ok := s.Get(args.Name)
	if !ok {
		for _, b := range s.Broken() {
			if b.Name == args.Name {
				return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "the skill %s cannot be loaded: %s", b.Name, b.Why)
			}
		}
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no skill %.64q", args.Name).
			WithHint("Call it without a name: it lists the skills.")
	}
	out := api.Skill{Name: one.Name, Description: one.Description, Path: Main, Text: one.Body}
	if args.File != "" { // SKILL.md by its name is the whole file, with its head
		f, ok := one.File(args.File)
		if !ok {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "the skill %s has no file %.256q", one.Name, args.File).
				WithHint("Load the skill without a file: it lists its files.")
		}
		return capabilities.Output{Result: api.Skill{Name: one.Name, Path: f.Path, Text: f.Text}, Effect: capabilities.EffectConfirmed}, nil
	}
	for _, f := range one.Files[1:] {
		out.Files = append(out.Files, api.SkillFile{Path: f.Path, Bytes: len(f.Text)})
	}
	return capabilities.Output{Result: out, Effect: capabilities.EffectConfirmed}, nil
}
