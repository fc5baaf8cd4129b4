package front

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
)

// The controls and warnings of a surface follow from the keys that a call was granted, by this
// function and no other (S1-25 … S1-33): a page is a projection of the envelope and no policy
// engine of its own.

// Surface returns what a surface shows for what a tool declares and a call was granted; both
// are full keys, grants with their value behind a colon where they are narrowed.
func Surface(declared, granted []string) api.Surface {
	has := func(key string) bool {
		return slices.ContainsFunc(granted, func(g string) bool { return g == key || strings.HasPrefix(g, key+":") })
	}
	s := api.Surface{Mode: api.ModeSafe}
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
			s.Acknowledge = append(s.Acknowledge, key)
		case key == confirmKey:
			s.Acknowledge = append(s.Acknowledge, key)
		}
	}
	for _, d := range declared {
		if !has(d) {
			s.Withheld = append(s.Withheld, d)
		}
	}
	s.Secret = has("privileged.secret.read")
	s.Confirm = has(confirmKey)
	s.LongRun = has("execution.timeout.extended")
	s.Picker = policy.Visible(slices.Contains(declared, "ui.input.file_upload") || has("ui.input.file_upload"), has("ui.input.file_upload"),
		has("data.write.workspace"))
	switch {
	case len(s.Withheld) > 0:
		s.Mode = api.ModeRestricted
	case privileged:
		s.Mode = api.ModeElevated
	case s.Outbound:
		s.Mode = api.ModeConnected
	}
	return s
}

// confirmKey is the key of what may destroy something.
const confirmKey = "ui.action.confirm_destructive"
