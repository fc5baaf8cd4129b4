package packet

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
)

// Drift is the body of gateway.drift.event: one difference between what was seen and what was
// granted (S1-49). The packet itself names call, tool, principal, lane and node.
type Drift struct {
	ID           string         `json:"drift_id"`
	EnvelopeHash string         `json:"envelope_hash,omitempty"` // SHA-256, hex; empty: the call had none
	Profile      string         `json:"capability_profile_id,omitempty"`
	Snapshot     string         `json:"policy_snapshot_id,omitempty"`
	Key          string         `json:"key"`      // what was seen, as a capability key
	Declared     bool           `json:"declared"` // the tool declares the key, and this call was not granted it
	Signal       drift.Number   `json:"signal"`
	Severity     drift.Severity `json:"severity"`
	Runner       string         `json:"runner_fingerprint,omitempty"` // host, class and manifest, hashed
	Evidence     string         `json:"evidence,omitempty"`           // such as a host's name
	Count        uint32         `json:"count,omitempty"`              // how often
	Response     drift.Response `json:"response"`
}

// DriftResolved is the body of gateway.drift.resolved: a person looked at an event.
type DriftResolved struct {
	ID       string         `json:"drift_id"`
	Signal   drift.Number   `json:"signal"`
	Severity drift.Severity `json:"severity"`
	OpenedUS int64          `json:"opened_us"` // when the event was recorded, µs since 1970
	Reason   string         `json:"reason"`
}

// DriftUncounted is the body of gateway.drift.uncounted: events beyond the rate, of which one
// packet a minute says how many.
type DriftUncounted struct {
	Events   uint32              `json:"events"`
	Severity drift.Severity      `json:"severity"` // the worst of them
	Call     capabilities.CallID `json:"call_id,omitempty"`
}
