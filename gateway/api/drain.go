package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The states of a gateway that is drained.
const (
	Serving  = "serving"
	Draining = "draining" // it takes no new calls
	Leaving  = "leaving"  // nothing runs, and it ends
)

// Drain is how far a gateway is that is drained.
type Drain struct {
	State string                   `json:"state"`
	By    capabilities.PrincipalID `json:"by,omitempty"`
	Since time.Time                `json:"since,omitzero"`
	// Calls run, or wait for a person: its own, and those of other gateways through it.
	Calls int `json:"calls"`
	// Devices are connected to it.
	Devices int `json:"devices"`
	// Gateways are the others of the site that serve.
	Gateways int `json:"gateways"`
}
