package rules

import (
	"fmt"

	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Set is the files of one policy, as every surface returns and shows them.
type Set struct {
	Snapshot string `json:"snapshot_id"`
	Sources  []File `json:"sources"`
}

// File is one policy file.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// SetOf returns the files that an engine was made of.
func SetOf(e *policy.Engine) Set {
	s := Set{Snapshot: e.SnapshotID(), Sources: []File{}}
	for _, f := range e.Sources() {
		s.Sources = append(s.Sources, File{f.Name, string(f.Data)})
	}
	return s
}

// Files returns the files as policy reads them.
func (s Set) Files() []policy.Source {
	list := make([]policy.Source, 0, len(s.Sources))
	for _, f := range s.Sources {
		list = append(list, policy.Source{Name: f.Name, Data: []byte(f.Text)})
	}
	return list
}

// Short is as much of a policy's hash as finds it.
func Short(snapshot string) string {
	hash := trimHash(snapshot)
	return hash[:min(len(hash), 16)]
}

// Instead says what would have been decided.
func (c *Change) Instead() string {
	if c.Unsure {
		return c.Would.String() + " (unsure)"
	}
	return c.Would.String()
}

// Summary counts what a replay found, in one sentence.
func (r *Replay) Summary() string {
	calls := "calls"
	if r.Calls == 1 {
		calls = "call"
	}
	return fmt.Sprintf("%d recorded %s judged again: %d as they were, %d stricter, %d looser, %d unsure; %d not decided by policy.",
		r.Calls, calls, r.Same, r.Stricter, r.Looser, r.Unsure, r.Skipped)
}
