package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Stop is the site's stop switch.
type Stop struct {
	Epoch   uint64                   `json:"epoch"`
	Stopped bool                     `json:"stopped"`
	By      capabilities.PrincipalID `json:"by,omitempty"`
	Reason  string                   `json:"reason,omitempty"`
	Since   time.Time                `json:"since,omitzero"`
}

// Halted is what a turn of the stop switch did.
type Halted struct {
	Stop
	Calls  int    `json:"calls"`  // that were running, and were ended
	Grants int    `json:"grants"` // that were revoked
	Nodes  Heeded `json:"nodes"`
}

// Heeded is how many nodes obey the switch.
type Heeded struct {
	Connected int `json:"connected"` // that were told
	Confirmed int `json:"confirmed"` // of these, those that said they obey
	Away      int `json:"away"`      // that learn it when they come back
}
