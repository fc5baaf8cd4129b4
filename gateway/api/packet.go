package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Packet is one entry of the ledger.
type Packet struct {
	Seq       uint64                   `json:"seq"`
	TimeUS    int64                    `json:"time_us"` // µs since 1970, UTC
	Kind      string                   `json:"kind"`
	Call      capabilities.CallID      `json:"call_id,omitempty"`
	Tool      capabilities.ToolID      `json:"tool_id,omitempty"`
	Principal capabilities.PrincipalID `json:"principal,omitempty"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"`
	Node      capabilities.NodeID      `json:"node_id,omitempty"`
	Body      json.RawMessage          `json:"body"` // canonical
	Prev      string                   `json:"prev"` // hash, hex
	Hash      string                   `json:"hash"`
}

// Time is when the packet was recorded.
func (p *Packet) Time() time.Time { return time.UnixMicro(p.TimeUS).UTC() }

// PacketList is packets of the ledger, in order.
type PacketList struct {
	Packets []Packet `json:"packets"`
}

// CompareLedger asks to hold the ledger against a node's own log.
type CompareLedger struct {
	Log string `json:"log"` // as 'handrail node log --out' wrote it
}
