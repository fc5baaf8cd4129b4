package api

// Skill is what tool.skill.load returns: a skill with its text, a file of one, or, of a call that
// names none, which skills there are.
type Skill struct {
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Path        string         `json:"path,omitempty"`
	Text        string         `json:"text,omitempty"`
	Files       []SkillFile    `json:"files,omitempty"`  // beside SKILL.md
	Skills      []SkillSummary `json:"skills,omitempty"` // of a call that names none
	Broken      []BrokenSkill  `json:"broken,omitempty"` // beside Skills
}

// SkillFile is a file that a skill has.
type SkillFile struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

// SkillSummary is what is told of a skill before it is loaded.
type SkillSummary struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// BrokenSkill is a folder that is no skill, or a file that was left out, and why.
type BrokenSkill struct {
	Name string `json:"name"` // of the folder, or SKILL/FILE
	Why  string `json:"why"`
}
