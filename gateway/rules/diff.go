package rules

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Diff returns the lines that differ between two sets: "--- NAME" before the lines of
// each file that is not the same, removed ones after "- ", added ones after "+ ".
func Diff(from, to []policy.Source) []string {
	lines := []string{}
	texts := map[string][2]string{}
	var names []string
	for i, set := range [][]policy.Source{from, to} {
		for _, s := range set {
			pair, seen := texts[s.Name]
			if !seen {
				names = append(names, s.Name)
			}
			pair[i] = string(s.Data)
			texts[s.Name] = pair
		}
	}
	for _, name := range names {
		if pair := texts[name]; pair[0] != pair[1] {
			lines = append(lines, "--- "+name)
			lines = append(lines, diffLines(pair[0], pair[1])...)
		}
	}
	return lines
}

// diffLines returns removed ("-") and added ("+") lines in order.
func diffLines(from, to string) (out []string) {
	text := diff.Diff("from", []byte(from+"\n"), "to", []byte(to+"\n"))
	_, hunks, _ := strings.Cut(string(text), "\n@@") // after the lines with the names
	for line := range strings.Lines(hunks) {
		if sign := line[0]; sign == '-' || sign == '+' {
			out = append(out, string(sign)+" "+strings.TrimSuffix(line[1:], "\n"))
		}
	}
	return out
}
