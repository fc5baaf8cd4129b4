package api

import (
	"slices"
	"strings"
)

// Mode is the state in which a surface shows a call (S1-32).
type Mode string

// The modes, from the calmest. Restricted stands above the others: somebody has to
// know that less was granted than declared.
const (
	ModeSafe       Mode = "safe"       // no network, nothing privileged
	ModeConnected  Mode = "connected"  // reaches a network
	ModeElevated   Mode = "elevated"   // privileged keys
	ModeRestricted Mode = "restricted" // policy gave less than the tool declares
)

// Surface is what a page, a terminal or a client shows of a call beside its controls. It
// follows from the keys that the call was granted, or would be (front.Surface).
type Surface struct {
	Mode         Mode     `json:"mode"`
	Outbound     bool     `json:"outbound,omitempty"`     // a badge: it reaches out (S1-27)
	Destinations []string `json:"destinations,omitempty"` // where to, as far as grants name it
	Secret       bool     `json:"secret,omitempty"`       // it gets a secret: a banner and a checkpoint (S1-28)
	Confirm      bool     `json:"confirm,omitempty"`      // what it destroys is confirmed first (S1-29)
	LongRun      bool     `json:"long_run,omitempty"`     // it may run long: an indicator and a way to cancel (S1-30)
	Picker       bool     `json:"picker,omitempty"`       // files may be chosen for it (S1-26)
	Withheld     []string `json:"withheld,omitempty"`     // keys that it declares and does not get
	// Acknowledge are the keys that an allow has to acknowledge: what is privileged, and what
	// may destroy something (S1-29, S1-32).
	Acknowledge []string `json:"acknowledge,omitempty"`
}

// Words are the mode and what else to know, for a terminal.
func (s Surface) Words() []string {
	words := []string{string(s.Mode)}
	if s.Outbound && s.Mode != ModeConnected {
		words = append(words, "reaches out")
	}
	if s.Secret {
		words = append(words, "gets a secret")
	}
	if s.Confirm {
		words = append(words, "may destroy something")
	}
	if s.LongRun {
		words = append(words, "may run long")
	}
	if len(s.Withheld) > 0 {
		words = append(words, "does not get "+strings.Join(s.Withheld, " or "))
	}
	return words
}

// Privileged reports whether some of the keys are privileged.
func (s Surface) Privileged() bool {
	return slices.ContainsFunc(s.Acknowledge, func(key string) bool { return strings.HasPrefix(key, "privileged.") })
}
