package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
)

// Turn is a turn of a worker, as that worker claims it.
type Turn struct {
	ID        string                   `json:"turn_id"`
	Principal capabilities.PrincipalID `json:"principal"` // the worker's
	Received  time.Time                `json:"received_at"`
	First     uint64                   `json:"first_packet,omitempty"` // of its stages, whose packets follow each other
	// LeaseMS is how soon its worker says the next of one that runs, or it is lost; in the answer to
	// such a word alone.
	LeaseMS int64 `json:"lease_ms,omitempty"`
	turn.Claim
}

// TurnList is turns, the newest first.
type TurnList struct {
	Turns []Turn `json:"turns"`
}
