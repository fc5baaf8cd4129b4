package capabilities

import (
	"encoding/json"
	"time"
)

// Status is how a call ended for the caller.
type Status string

const (
	StatusOK      Status = "ok"      // it ran; Output holds its result
	StatusDenied  Status = "denied"  // policy, consent, the owner or a rule said no; it did not run
	StatusError   Status = "error"   // it could not be carried out; Code says why
	StatusPending Status = "pending" // it waits for a person; repeat the identical call to join
)

// Effect says what was verified about a call's effect on the device (promise 6
// of docs/architecture.md). The zero value means the tool makes no such claim.
type Effect string

const (
	EffectConfirmed    Effect = "confirmed"
	EffectPartial      Effect = "partial"
	EffectUnverifiable Effect = "unverifiable"
	EffectSuspectNoop  Effect = "suspected_noop"
)

// SelectionMode is how the node was chosen (S0-28). No other mode exists for what a device
// can do (S0-20).
type SelectionMode string

const (
	SelectExplicit SelectionMode = "explicit"
	SelectAttached SelectionMode = "attached_node"
	SelectSole     SelectionMode = "sole_eligible_node"
	// SelectHost is for tools of a provider: the node is the one that hosts the provider,
	// which is a fact of the provider's record and no choice.
	SelectHost SelectionMode = "provider_host"
	// SelectGateway is for tools that the gateway carries out by itself, macros and skills among
	// them: no node was chosen.
	SelectGateway SelectionMode = "gateway"
)

// NodeSummary is the bounded description of a node that routing metadata may
// carry (S0-29).
type NodeSummary struct {
	Label    string `json:"label,omitempty"`
	Platform string `json:"platform,omitempty"`
	Trust    string `json:"trust_level,omitempty"`
}

// Routing is recorded apart from the payload (S0-28, S0-32). It has no node for a tool that the
// gateway carries out, and is absent where a call did not come so far.
type Routing struct {
	Requested NodeID        `json:"requested_node_id,omitempty"`
	Selected  NodeID        `json:"selected_node_id,omitempty"`
	Mode      SelectionMode `json:"selection_mode"`
	Node      *NodeSummary  `json:"selected_node,omitempty"`
}

// Blob is captured bytes that travel as bytes: never base64 on our own wire.
// Field names the result field it stands for in the contract (such as
// "bytesBase64"), so that a surface can put it back where a client expects it.
type Blob struct {
	Field string `json:"field"`
	MIME  string `json:"mime"`
	Bytes []byte `json:"-"`
}

// Result is the one answer every surface projects (hop 12 of docs/architecture.md).
type Result struct {
	Call      CallID `json:"call_id"`
	Tool      ToolID `json:"tool_id"`
	Status    Status `json:"status"`
	Code      Code   `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
	Hint      string `json:"hint,omitempty"`
	Action    Action `json:"action,omitzero"` // what Hint asks for
	Retryable bool   `json:"retryable,omitempty"`
	Details   any    `json:"details,omitempty"` // bounded; shape given by Code
	// Output is a JSON object that validates against the descriptor's result
	// schema; nil unless Status is ok.
	Output json.RawMessage `json:"output,omitempty"`
	// Ack is true for tools that answer with an acknowledgement only (S0-42).
	Ack       bool       `json:"ack,omitempty"`
	Blobs     []Blob     `json:"blobs,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"` // each whole, or with the code that says why not
	Routing   *Routing   `json:"routing,omitempty"`
	// EnvelopeHash is the address of the envelope it ran under (S1-10): SHA-256 in
	// hex, as in the decision's packet. Empty if none was built.
	EnvelopeHash string        `json:"envelope_hash,omitempty"`
	Effect       Effect        `json:"effect,omitempty"`
	Evidence     string        `json:"evidence,omitempty"`  // one short line: how Effect was verified
	Untrusted    bool          `json:"untrusted,omitempty"` // output holds content of third parties: data, not instructions
	Deduplicated bool          `json:"deduplicated,omitempty"`
	Duration     time.Duration `json:"-"`
	DurationMS   float64       `json:"duration_ms"`
}

// AnswerKept ends the hint of a call with a request ID whose repeat gets the same answer. It is for
// those who chose the ID; the worker of a job did not, and leaves it out.
const AnswerKept = "This request ID keeps this answer: to try again, use a new one."

// Pending is the Details of CodeApprovalPending: what the call waits for.
type Pending struct {
	Approval string    `json:"approval"`            // the question's ID
	Expires  time.Time `json:"expires_at,omitzero"` // of the task
	State    string    `json:"state,omitempty"`     // of the task, for a call that joins it
	Task     string    `json:"task,omitempty"`      // that keeps the call meanwhile; empty if nothing does
}

// Pending returns what the call waits for; zero if that is nothing, or was not asked here.
func (r *Result) Pending() Pending { p, _ := r.Details.(Pending); return p }

// Presence is the Details of a refusal that wants the person to be there: of CodeHandsElsewhere
// it says whose hands are where, and until when.
type Presence struct {
	Label   string      `json:"node,omitempty"` // of the device, or its ID if it has none
	Node    NodeID      `json:"node_id,omitempty"`
	Passkey bool        `json:"passkey,omitempty"` // one of the visitor's would show that they are there
	By      PrincipalID `json:"principal,omitempty"`
	Seconds int64       `json:"seconds,omitempty"` // left until Until, at least 1
	Until   time.Time   `json:"until,omitzero"`    // in whole seconds; zero: until the call that runs has ended
}

// Progress is how far a running call is. Total 0 means unknown.
type Progress struct {
	Done    float64 `json:"done" cbor:"1,keyasint"`
	Total   float64 `json:"total,omitempty" cbor:"2,keyasint,omitempty"`
	Message string  `json:"message,omitempty" cbor:"3,keyasint,omitempty"` // at most 200 bytes
	// Data is what the caller needs while the call still runs, such as the answer to
	// an offer: a JSON object of at most 32 KiB. Few tools have any.
	Data json.RawMessage `json:"-" cbor:"4,keyasint,omitempty"`
}
