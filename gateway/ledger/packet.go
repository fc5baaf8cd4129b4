package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Kind says what a packet records. The tool kinds are those of S4-21 … S4-27; a
// room may add kinds under node., policy., token. and gateway..
type Kind string

const (
	KindSelectRequest Kind = "tool.select.request"
	KindSelectResult  Kind = "tool.select.result"

	KindCallRequest    Kind = "tool.call.request"
	KindCallDecision   Kind = "tool.call.decision"
	KindCallEscalated  Kind = "tool.call.escalated" // a person granted it one more host while it ran
	KindCallDispatch   Kind = "tool.call.dispatch"
	KindCallResult     Kind = "tool.call.result"
	KindCallFailed     Kind = "tool.call.failed"
	KindCallReconciled Kind = "tool.call.reconciled"
	KindCallPending    Kind = "tool.call.pending_approval"
	KindCallRepeated   Kind = "tool.call.repeated" // it got the outcome of another call

	KindSecretResolved Kind = "secret.resolved" // a value leaves the vault for a call

	KindArtifactRead    Kind = "artifact.read"    // somebody gets the bytes; one packet for ten minutes of reading
	KindArtifactRemoved Kind = "artifact.removed" // before its time

	KindDrift          Kind = "gateway.drift.event"     // something was seen and not granted
	KindDriftUncounted Kind = "gateway.drift.uncounted" // more of it than one call's events hold
	KindDriftSurfaced  Kind = "gateway.drift.surfaced"  // a page offered what was not granted
	KindDriftResolved  Kind = "gateway.drift.resolved"  // a person looked at an event
	KindQuarantined    Kind = "gateway.drift.quarantined"
	KindLifted         Kind = "gateway.drift.lifted"     // a quarantine, by a person
	KindRestricted     Kind = "gateway.drift.restricted" // a tool
	KindReviewed       Kind = "gateway.drift.reviewed"   // a restricted tool, by a person
	KindRiskCleared    Kind = "gateway.drift.cleared"    // by clean calls

	KindStarted       Kind = "gateway.started"
	KindPruned        Kind = "gateway.ledger.pruned"
	KindNodeRegressed Kind = "node.journal.regressed"
)

// Terminal reports whether a packet of this kind ends its call.
func (k Kind) Terminal() bool {
	return k == KindCallResult || k == KindCallFailed || k == KindCallReconciled
}

// usesReserve reports whether a packet of this kind is written although the disk is full.
func (k Kind) usesReserve() bool { return k.Terminal() || k == KindStarted }

// Limits of a packet.
const (
	MaxBody = 16 << 10 // bytes of canonical JSON
	maxName = 256      // bytes of each of the other fields
)

// Body is canonical JSON made by Encode, which AppendIn takes as it is.
type Body []byte

// Encode makes a packet's body ahead of the transaction, so that the one writer
// does not spend its time on it.
func Encode(v any) (Body, error) {
	var b []byte
	var err error
	switch v := v.(type) {
	case nil:
		return Body("{}"), nil
	case Body:
		return v, nil
	case packet.Body:
		b, err = packet.Encode(v)
	case json.RawMessage:
		b, err = canonical.Parse(v, canonical.Limits{MaxBytes: 2 * MaxBody})
	default:
		b, err = canonical.Marshal(v)
	}
	if err != nil {
		return nil, err
	}
	if len(b) > MaxBody {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "a packet's body has %d bytes; %d are allowed", len(b), MaxBody)
	}
	if b[0] != '{' {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "a packet's body must be a JSON object")
	}
	return b, nil
}

// Draft is a packet to be. Kind is required; everything else may be empty.
type Draft struct {
	Kind      Kind
	Call      capabilities.CallID
	Tool      capabilities.ToolID // audit anchors on it (S0-27)
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Node      capabilities.NodeID
	Body      any // a JSON object: Body, packet.Body, json.RawMessage or a Go value; nil is {}
}

func (d *Draft) check() error {
	if d.Kind == "" {
		return capabilities.Errorf(capabilities.CodeInternal, "a packet needs a kind")
	}
	for _, s := range [...]string{string(d.Kind), string(d.Call), string(d.Tool), string(d.Principal), string(d.Lane), string(d.Node)} {
		if len(s) > maxName {
			return capabilities.Errorf(capabilities.CodeInternal, "a field of packet %s has %d bytes; %d are allowed",
				d.Kind[:min(len(d.Kind), maxName)], len(s), maxName)
		}
	}
	return nil
}

// Packet is one immutable entry of the chain.
type Packet struct {
	Seq       uint64                   `json:"seq"`
	TimeUS    int64                    `json:"time_us"` // µs since 1970, UTC
	Kind      Kind                     `json:"kind"`
	Call      capabilities.CallID      `json:"call_id,omitempty"`
	Tool      capabilities.ToolID      `json:"tool_id,omitempty"`
	Principal capabilities.PrincipalID `json:"principal,omitempty"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"` // S4-20 calls it thread_id
	Node      capabilities.NodeID      `json:"node_id,omitempty"`
	Body      json.RawMessage          `json:"body"` // canonical
	Prev      chain.Hash               `json:"prev"`
	Hash      chain.Hash               `json:"hash"`
}

// Time is when the packet was recorded.
func (p *Packet) Time() time.Time { return time.UnixMicro(p.TimeUS).UTC() }

// appendPreimage appends what Hash is the SHA-256 of. The body enters by its
// digest.
func (p *Packet) appendPreimage(dst []byte) []byte {
	body := sha256.Sum256(p.Body)
	dst = chain.AppendEntry(dst, p.Seq, p.Prev, p.TimeUS, string(p.Kind))
	dst = chain.AppendField(dst, p.Call)
	dst = chain.AppendField(dst, p.Tool)
	dst = chain.AppendField(dst, p.Principal)
	dst = chain.AppendField(dst, p.Lane)
	dst = chain.AppendField(dst, p.Node)
	return chain.AppendField(dst, body[:])
}

// appendLine appends the packet as one line of JSON without HTML escapes, so
// that the body stays byte for byte what was hashed.
func appendLine(dst *bytes.Buffer, v any) error {
	enc := json.NewEncoder(dst)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
