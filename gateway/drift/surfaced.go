package drift

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Severity of a difference between seen and granted (S1-50).
type Severity string

// The severities.
const (
	Warning   Severity = "warning"   // harmless, such as a page that an update left open
	Violation Severity = "violation" // somebody was offered what they may not do
	Critical  Severity = "critical"  // and it is privileged
)

// Severities returns them, from the mildest.
func Severities() []Severity { return []Severity{Warning, Violation, Critical} }

// Bounds of one report.
const (
	MaxControls = 200
	MaxKeys     = 200
	maxText     = 200 // bytes of a name
)

// Surfaced is what one page shows its visitor, as the page itself tells it.
type Surfaced struct {
	Surface  string // such as "console"
	Page     string // its address
	Controls []string
	Keys     []Key
}

// Key is a capability key that a page showed as granted to a call.
type Key struct {
	Call capabilities.CallID
	Key  string
}

// Signal is one difference.
type Signal struct {
	Severity Severity
	Control  string
	Call     capabilities.CallID
	Key      string
	Text     string // one plain sentence
}

// Effective is what holds now.
type Effective interface {
	// Control reports whether there is such an action, and whether the visitor may do it.
	Control(name string) (known, may bool)
	// Granted returns the effective grants of a call; false if there is none.
	Granted(capabilities.CallID) ([]string, bool)
}

// Compare returns what a page showed without a grant, in the order of the report.
// CodeInvalidRequest if the report is larger than it may be.
func Compare(s Surfaced, now Effective) ([]Signal, error) {
	if len(s.Controls) > MaxControls || len(s.Keys) > MaxKeys || len(s.Surface) > maxText || len(s.Page) > maxText {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a page reports at most %d controls and %d keys, and names of %d bytes",
			MaxControls, MaxKeys, maxText)
	}
	var all []Signal
	for _, c := range s.Controls {
		known, may := now.Control(c)
		switch {
		case len(c) > maxText || !known:
			all = append(all,
				Signal{Severity: Warning, Control: capabilities.Clip(c, maxText), Text: "The page offered an action that there is none of."})
		case !may:
			all = append(all, Signal{Severity: Violation, Control: c, Text: "The page offered an action that the visitor may not do."})
		}
	}
	granted := map[capabilities.CallID]map[string]bool{}
	for _, k := range s.Keys {
		if len(k.Key) > maxText || len(k.Call) > maxText {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "names have at most %d bytes", maxText)
		}
		have, looked := granted[k.Call]
		if !looked {
			list, _ := now.Granted(k.Call)
			have = make(map[string]bool, len(list))
			for _, g := range list {
				key, _, _ := strings.Cut(g, ":")
				have[key] = true
			}
			granted[k.Call] = have
		}
		key, _, _ := strings.Cut(k.Key, ":")
		if have[key] {
			continue
		}
		bad := Violation
		if strings.HasPrefix(key, "privileged.") {
			bad = Critical
		}
		all = append(all, Signal{Severity: bad, Call: k.Call, Key: k.Key, Text: "The page showed a key that the call was not granted."})
	}
	return all, nil
}
