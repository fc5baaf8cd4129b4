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
	Declared     bool           `json:"declared"` // the tool declares the key; this call was not granted it, or not for this
	Signal       drift.Number   `json:"signal"`
	Severity     drift.Severity `json:"severity"`
	Runner       string         `json:"runner_fingerprint,omitempty"` // drift.Runner
	Evidence     string         `json:"evidence,omitempty"`           // such as a host's name
	Count        uint32         `json:"count,omitempty"`              // how often
	Response     drift.Response `json:"response"`
	// Among are the calls that its provider was carrying out, of which one did it; the packet names
	// none then. None: the packet's call did; one: it had ended by then.
	Among []capabilities.CallID `json:"open_calls,omitempty"`
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

// DriftQuarantined is the body of gateway.drift.quarantined: a runner takes no further calls
// until a person lifts that (S1-52). The packet names its node and the tool of the last event.
type DriftQuarantined struct {
	Runner     string                      `json:"runner_fingerprint"`
	Class      capabilities.IsolationClass `json:"isolation_class"`
	Walls      string                      `json:"walls_missing,omitempty"`
	Program    string                      `json:"program"`
	ID         string                      `json:"drift_id"`   // the event that it follows
	Violations int                         `json:"violations"` // within the hour, with that one
}

// DriftLifted is the body of gateway.drift.lifted: a person ended a quarantine.
type DriftLifted struct {
	Runner string `json:"runner_fingerprint"`
	Reason string `json:"reason"`
}

// DriftRestricted is the body of gateway.drift.restricted: a tool, which the packet names, is not
// called until a person has reviewed its manifest (S1-53).
type DriftRestricted struct {
	ID       string `json:"drift_id"`      // the event that it follows
	Manifest string `json:"manifest_hash"` // of the tool at that time
}

// DriftReviewed is the body of gateway.drift.reviewed: a person reviewed the manifest of a
// restricted tool and lets it be called again (S1-54).
type DriftReviewed struct {
	Manifest string `json:"manifest_hash"` // that they looked at
	Reason   string `json:"reason"`
}

// DriftCleared is the body of gateway.drift.cleared: so many calls of a tool on a node showed
// nothing that its risk is no longer raised there (S1-05).
type DriftCleared struct {
	Calls int `json:"calls"`
}
