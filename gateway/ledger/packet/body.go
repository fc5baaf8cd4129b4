package packet

import (
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// Body is the body of a packet of this package: *Request, *Decision, *Dispatch, *End,
// *Repeated or *Resolved.
type Body interface {
	// append appends the members in canonical form; ok=false leaves it to reflection.
	append(o *object) (ok bool)
}

// Under names the call that a step was taken by, in each of its packets.
type Under struct {
	Parent capabilities.CallID `json:"parent_call_id,omitempty"`
}

// SetParent notes the call that the step belongs to; empty for a call that is no step.
func (u *Under) SetParent(call capabilities.CallID) { u.Parent = call }

// Request is the body of tool.call.request: digests and the descriptor's evidence
// allowlist, never the payload (S0-31).
type Request struct {
	Under
	Step      uint32                 `json:"step,omitempty"` // which of its parent's
	Surface   string                 `json:"surface,omitempty"`
	ReplayOf  capabilities.CallID    `json:"replay_of,omitempty"` // the call that a person had run again (S4-05)
	RequestID capabilities.RequestID `json:"request_id,omitempty"`
	Requested capabilities.NodeID    `json:"requested_node_id,omitempty"`
	Digest    string                 `json:"args_digest,omitempty"` // keyed SHA-256 of the arguments, hex
	Evidence  map[string]any         `json:"evidence,omitempty"`
	TimeoutMS int64                  `json:"timeout_ms,omitempty"`
}

// Decision is the body of tool.call.decision, and of tool.call.escalated, the decision on one more
// host of a running call. The envelope is kept whole: it holds no
// payload, and it is what reports and verifiers link to (S1-59).
type Decision struct {
	Under
	Effect policy.Effect     `json:"effect"`
	Code   capabilities.Code `json:"code,omitempty"`
	// Reason is of Code: why policy refused an activation, or that it left the call no node; or of an
	// escalation while the call ran.
	Reason       string                `json:"reason,omitempty"`
	Policies     []string              `json:"policies,omitempty"` // that determined it
	LogOnly      []string              `json:"log_only,omitempty"`
	Errors       []string              `json:"policy_errors,omitempty"`
	Snapshot     string                `json:"policy_snapshot_id,omitempty"`
	EnvelopeHash string                `json:"envelope_hash,omitempty"` // SHA-256 of Envelope, hex
	Grant        string                `json:"grant,omitempty"`         // of a person's
	Approval     string                `json:"approval,omitempty"`      // the question that it answers, of an escalation while the call ran
	Envelope     json.RawMessage       `json:"envelope,omitempty"`      // canonical
	Routing      *capabilities.Routing `json:"routing,omitempty"`
	Degraded     string                `json:"isolation_degraded,omitempty"`
	// The facts that policy looked at beside the envelope, for replays.
	Given    capabilities.IsolationClass `json:"isolation_given,omitempty"`
	Hosts    []string                    `json:"hosts,omitempty"` // that the node's owner named for the tool
	Labels   []string                    `json:"labels,omitempty"`
	Role     string                      `json:"role,omitempty"`
	Taint    []string                    `json:"taint,omitempty"`
	Raised   int64                       `json:"risk_raised,omitempty"` // levels, by drift of before
	Withheld []string                    `json:"withheld_keys,omitempty"`
	Runner   string                      `json:"runner_fingerprint"` // that was to carry it out, at its node; "": the gateway, or none
}

// Summary returns the fields of the envelope that surfaces show; nil if the packet has no
// envelope that can be read.
func (d *Decision) Summary() *policy.Summary {
	var s *policy.Summary
	if len(d.Envelope) == 0 || json.Unmarshal(d.Envelope, &s) != nil || s == nil {
		return nil
	}
	s.Hash = d.EnvelopeHash
	return s
}

// Dispatch is the body of tool.call.dispatch, the intent.
type Dispatch struct {
	Under
	Target     string                      `json:"target"` // node or gateway
	Grants     []string                    `json:"grants"`
	Isolation  capabilities.IsolationClass `json:"isolation_class"`
	Given      capabilities.IsolationClass `json:"isolation_given,omitempty"`
	DeadlineMS int64                       `json:"deadline_ms"`
}

// End is the body of tool.call.result, tool.call.failed, tool.call.reconciled and
// tool.call.pending_approval.
type End struct {
	Under
	Status     capabilities.Status         `json:"status"`
	Code       capabilities.Code           `json:"code,omitempty"`
	Message    string                      `json:"message,omitempty"` // of Code, where policy refused an activation
	Effect     capabilities.Effect         `json:"effect,omitempty"`
	Did        *Did                        `json:"did,omitempty"`
	Digest     string                      `json:"output_digest,omitempty"` // keyed SHA-256 of the output, hex
	Artifacts  []Artifact                  `json:"artifacts,omitempty"`
	Blobs      []Blob                      `json:"blobs,omitempty"`
	Isolation  capabilities.IsolationClass `json:"isolation_given,omitempty"`
	Observed   []Observed                  `json:"observed,omitempty"`
	DurationMS float64                     `json:"duration_ms,omitempty"`
	// Runners are the programs that carried it out, with the walls that stood around each.
	Runners []Ran `json:"runners,omitempty"`
	// Masked is how often personal data was taken out of what the call returned; nil: the call has
	// no key that wants it.
	Masked *int64 `json:"masked,omitempty"`
	// Hops are when the hops of a call ended, from HopResolve to HopRecord, in µs since the
	// call came in; the list ends where the call did. Guard and run are told from the node's
	// own duration.
	Hops []int64 `json:"hops_us,omitempty"`
	// EndedBy is who ended the call on purpose, if Code is cancelled and somebody did.
	EndedBy Ender `json:"ended_by,omitempty"`
	// Approval is the question that a pending call waits for, and Task what keeps it
	// meanwhile, if it was deferred.
	Approval string `json:"approval,omitempty"`
	Task     string `json:"task,omitempty"`
}

// Ender says who ended a call on purpose; empty: nobody did. A caller that fell silent and
// an end with the gateway are none of them.
type Ender string

// The enders.
const (
	ByCaller Ender = "caller" // the caller cancelled it, left, or ended what it showed them
	ByPerson Ender = "person" // a person ended the call, or revoked the token that it was made with
)

// Did is what the call did, for lists that people read.
type Did struct {
	App    string `json:"app,omitempty"`
	Fields uint32 `json:"fields,omitempty"` // of a form, that were filled
	Typed  uint32 `json:"typed,omitempty"`  // characters, of no secret
}

// Artifact is an artifact of the call: its name may say something and is left out, its ID
// says nothing.
type Artifact struct {
	ID   capabilities.ArtifactID `json:"artifact_id"`
	MIME string                  `json:"mime"`
	Size int64                   `json:"size"` // bytes
	Code capabilities.Code       `json:"code,omitempty"`
	// Retention is its class, if that is not the standard one.
	Retention string `json:"retention,omitempty"`
}

// Blob is captured bytes that the result held.
type Blob struct {
	Field  string `json:"field"`
	MIME   string `json:"mime"`
	Size   int    `json:"size"`             // bytes
	Digest string `json:"digest,omitempty"` // keyed, like the output's; empty of a step: its parent's packet has it
}

// Observed is what the node saw happen under one capability key.
type Observed struct {
	Key    string `json:"key"`
	Detail string `json:"detail,omitempty"`
	Count  uint32 `json:"count"`
	// Of is the call that did it, where another one tells; of several that could be, all of them.
	Of string `json:"of_call,omitempty"`
}

// Ran is a program that carried a call out, as its node reported it when its walls stood.
type Ran struct {
	Class   capabilities.IsolationClass `json:"isolation_class"`
	Program string                      `json:"program,omitempty"`  // the hash of its file
	Runner  string                      `json:"runner_fingerprint"` // drift.Runner
	Walls   []string                    `json:"walls"`
}

// Repeated is the body of tool.call.repeated: a call that was answered with the outcome of
// another one. Nothing of it was carried out.
type Repeated struct {
	Of capabilities.CallID `json:"repeats_call_id"`
	// joined: it ran; replayed: it had ended; deferred: it was kept; reused: its result stood for
	// the same call
	How       string                 `json:"how"`
	RequestID capabilities.RequestID `json:"request_id,omitempty"`
	Surface   string                 `json:"surface,omitempty"`
}

// Resolved is the body of secret.resolved: which secret leaves the vault for which call.
type Resolved struct {
	Reference string `json:"secret_ref_id"`
	Alias     string `json:"secret_alias,omitempty"`
	Envelope  string `json:"envelope_hash"` // SHA-256, hex
	Grant     string `json:"grant,omitempty"`
}
