package api

import "github.com/handrail-dev/handrail/capabilities"

// Surfaced is what one page shows its visitor, as the page itself tells it.
type Surfaced struct {
	Surface  string        `json:"surface"` // such as "console"
	Page     string        `json:"page"`    // its address
	Controls []string      `json:"controls,omitempty"`
	Keys     []SurfacedKey `json:"keys,omitempty"`
}

// SurfacedKey is a capability key that a page showed as granted to a call.
type SurfacedKey struct {
	Call capabilities.CallID `json:"call_id"`
	Key  string              `json:"key"`
}

// Signal is one difference between what was shown and what is granted.
type Signal struct {
	Severity string              `json:"severity"` // warning, violation or critical
	Control  string              `json:"control,omitempty"`
	Call     capabilities.CallID `json:"call_id,omitempty"`
	Key      string              `json:"key,omitempty"`
	Text     string              `json:"text"` // one plain sentence
}

// SignalList is what a page offered and should not have.
type SignalList struct {
	Signals []Signal `json:"signals"`
}
