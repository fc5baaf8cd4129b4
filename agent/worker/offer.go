package worker

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/capabilities"
)

// maxImported is how many imported tools a harness is offered in one turn: a model chooses badly
// among hundreds, and reads what each of them says of itself.
const maxImported = 32

// asGated is a list of tools as the gate sees them.
func asGated(tools []Tool) []gate.Tool {
	list := make([]gate.Tool, 0, len(tools))
	for i := range tools {
		t := &tools[i]
		list = append(list, gate.Tool{ID: t.ID, Uses: t.Uses, From: t.From, Keys: t.Keys, Reads: t.Reads})
	}
	return list
}

// nearest leaves out imported tools where they are too many: those stay whose names and
// descriptions have the most words of the message. It narrows, and keeps the order.
func nearest(message string, tools []Tool) []Tool {
	imported := func(t Tool) bool { return t.From != "" && len(t.Uses) == 0 }
	var all []Tool
	for _, t := range tools {
		if imported(t) {
			all = append(all, t)
		}
	}
	if len(all) <= maxImported {
		return tools
	}
	wanted := wordsOf(message)
	common := map[string]int{}
	for _, t := range all {
		for word := range wordsOf(string(t.ID) + " " + t.Description) {
			if wanted[word] {
				common[string(t.ID)]++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Tool) int { return cmp.Compare(common[string(b.ID)], common[string(a.ID)]) })
	near := map[string]bool{}
	for _, t := range all[:maxImported] {
		near[string(t.ID)] = true
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return imported(t) && !near[string(t.ID)] })
}

// wordsOf are the words of a text of three letters and more, and its numbers.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) > 2 || w[0] >= '0' && w[0] <= '9' {
			words[w] = true
		}
	}
	return words
}

// toolID is a tool's ID.
func toolID(t Tool) capabilities.ToolID { return t.ID }

// leftOut returns the tools that are not offered.
func leftOut(all []Tool, offered []capabilities.ToolID) (left []capabilities.ToolID) {
	for _, t := range all {
		if !slices.Contains(offered, t.ID) {
			left = append(left, t.ID)
		}
	}
	return left
}
