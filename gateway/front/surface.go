package front

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/policy"
)

// The controls and warnings of a surface follow from the keys that a call was granted, by this
// function and no other (S1-25 … S1-33): a page is a projection of the envelope and no policy
// engine of its own.

// Mood is the state in which a surface shows a call (S1-32).
type Mood string

// The moods, from the calmest. Restricted stands above the others: somebody has to
// know that less was granted than declared.
const (
	MoodSafe       Mood = "safe"       // no network, nothing privileged
	MoodConnected  Mood = "connected"  // reaches a network
	MoodElevated   Mood = "elevated"   // privileged keys
	MoodRestricted Mood = "restricted" // policy gave less than the tool declares
)

// Signals is what a surface shows of a call beside its controls.
type Signals struct {
	Mood         Mood
	Outbound     bool     // a badge: it reaches out (S1-27)
	Destinations []string // where to, as far as grants name it
	Banner       bool     // it gets a secret: a banner and a checkpoint (S1-28)
	Confirm      bool     // what it destroys is confirmed first (S1-29)
	LongRun      bool     // it may run long: an indicator and a way to cancel (S1-30)
	Picker       bool     // files may be chosen for it (S1-26)
	Missing      []string // declared and not granted
}

// Surface returns the signals for what a tool declares and a call was granted; both
// are full keys, grants with their value behind a colon where they are narrowed.
func Surface(declared, granted []string) Signals {
	has := func(key string) bool {
		return slices.ContainsFunc(granted, func(g string) bool { return g == key || strings.HasPrefix(g, key+":") })
	}
	s := Signals{Mood: MoodSafe}
	privileged := false
	for _, g := range granted {
		key, value, narrowed := strings.Cut(g, ":")
		switch {
		case strings.HasPrefix(key, "network."):
			s.Outbound = true
			if narrowed {
				s.Destinations = append(s.Destinations, value)
			}
		case strings.HasPrefix(key, "privileged."):
			privileged = true
		}
	}
	for _, d := range declared {
		if !has(d) {
			s.Missing = append(s.Missing, d)
		}
	}
	s.Banner = has("privileged.secret.read")
	s.Confirm = has("ui.action.confirm_destructive")
	s.LongRun = has("execution.timeout.extended")
	s.Picker = policy.Visible(slices.Contains(declared, "ui.input.file_upload") || has("ui.input.file_upload"), has("ui.input.file_upload"), has("data.write.workspace"))
	switch {
	case len(s.Missing) > 0:
		s.Mood = MoodRestricted
	case privileged:
		s.Mood = MoodElevated
	case s.Outbound:
		s.Mood = MoodConnected
	}
	return s
}
