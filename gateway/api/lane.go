package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Lane is a conversation, and the nodes that are attached to it.
type Lane struct {
	Lane      capabilities.LaneID      `json:"lane"`
	Principal capabilities.PrincipalID `json:"principal,omitempty"` // whose it is; empty until it is first used
	Nodes     []capabilities.NodeID    `json:"nodes"`
	CreatedAt time.Time                `json:"created_at"`
	LastUsed  time.Time                `json:"last_used,omitzero"`
}

// LaneList is the lanes.
type LaneList struct {
	Lanes []Lane `json:"lanes"`
}
