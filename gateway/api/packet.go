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

// Checkpoint is the ledger as it stands, as a Merkle tree (RFC 6962) that the gateway signed.
type Checkpoint struct {
	Checkpoint string `json:"checkpoint"` // the signed note (C2SP tlog-checkpoint)
	Key        string `json:"key"`        // that signed it, as witnesses take it
	Size       uint64 `json:"size"`       // packets
	Root       string `json:"root"`       // base64
	// Consistency is base64 hashes by which an earlier checkpoint of the size asked about is the
	// beginning of this one (RFC 6962 section 2.1.2).
	Consistency []string `json:"consistency"`
}

// Proof says that a packet is in the ledger.
type Proof struct {
	Seq   uint64 `json:"seq"`
	Proof string `json:"proof"` // C2SP tlog-proof; its extra line has the packet
}
