package front

import (
	"slices"
	"strings"
)

// Named is something that a person may mean: its ID, and the name that people gave it.
type Named struct{ ID, Label string }

// Meant returns what a person may mean by text: what has that ID, else what has that label,
// else all whose ID or label begins with it. Whoever asks chooses none of several. IDs are
// lower case; the case of what people type does not count.
func Meant(text string, all []Named) []Named {
	low := strings.ToLower(text)
	fits := func(does func(Named) bool) []Named {
		return slices.DeleteFunc(slices.Clone(all), func(n Named) bool { return !does(n) })
	}
	for _, does := range []func(Named) bool{
		func(n Named) bool { return n.ID == text },
		func(n Named) bool { return strings.EqualFold(n.Label, text) },
		func(n Named) bool {
			return strings.HasPrefix(n.ID, low) || strings.HasPrefix(strings.ToLower(n.Label), low)
		},
	} {
		if found := fits(does); len(found) > 0 {
			return found
		}
	}
	return nil
}
