package rules

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Diff gives the lines that differ between two sets: "--- NAME" before the lines of
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
			lines = append(lines, diffLines(strings.Split(pair[0], "\n"), strings.Split(pair[1], "\n"))...)
		}
	}
	return lines
}

// maxDiff bounds the table of a comparison; what is larger is shown whole.
const maxDiff = 4 << 20

// diffLines gives removed ("-") and added ("+") lines in order, by their longest
// common subsequence.
func diffLines(a, b []string) (out []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	common := make([][]int32, len(a)+1)
	if len(a)*len(b) <= maxDiff {
		for i := range common {
			common[i] = make([]int32, len(b)+1)
		}
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					common[i][j] = common[i+1][j+1] + 1
				} else {
					common[i][j] = max(common[i+1][j], common[i][j+1])
				}
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && common[0] != nil && a[i] == b[j]:
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[0] == nil || common[i+1][j] >= common[i][j+1]):
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return out
}
