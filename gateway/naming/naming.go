package naming

import (
	"slices"
	"strings"
)

// Thing is something that a person may mean: its ID, and the name that people gave it.
type Thing struct{ ID, Label string }

// Meant returns the things that a person may mean by text: those with that ID, else those with
// that label, else all whose ID or label begins with it. The caller chooses none of several.
// IDs are lower case; the case of what people type does not count.
func Meant(text string, all []Thing) []Thing {
	low := strings.ToLower(text)
	fits := func(does func(Thing) bool) []Thing {
		return slices.DeleteFunc(slices.Clone(all), func(n Thing) bool { return !does(n) })
	}
	for _, does := range []func(Thing) bool{
		func(n Thing) bool { return n.ID == text },
		func(n Thing) bool { return strings.EqualFold(n.Label, text) },
		func(n Thing) bool {
			return strings.HasPrefix(n.ID, low) || strings.HasPrefix(strings.ToLower(n.Label), low)
		},
	} {
		if found := fits(does); len(found) > 0 {
			return found
		}
	}
	return nil
}
