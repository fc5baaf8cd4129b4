package main

import "testing"

// Hints name the data directory that a command was given, but for commands that are for
// another machine or need none.
func TestHintsCarryTheDataDirectory(t *testing.T) {
	for _, c := range []struct{ hint, want string }{
		{"Run 'handrail nodes'.", "Run 'handrail nodes --data /d'."},
		{"Run 'handrail doctor' on the node.", "Run 'handrail doctor' on the node."},
		{"There, run 'handrail node join' again.", "There, run 'handrail node join' again."},
		{"Start 'handrail ci' with it.", "Start 'handrail ci' with it."},
		{"See 'handrail up --data /e'.", "See 'handrail up --data /e'."},
	} {
		if got := onData(c.hint, " --data /d"); got != c.want {
			t.Errorf("%s became %s, want %s", c.hint, got, c.want)
		}
		if got := onData(c.hint, ""); got != c.hint {
			t.Errorf("%s became %s without a flag", c.hint, got)
		}
	}
}
