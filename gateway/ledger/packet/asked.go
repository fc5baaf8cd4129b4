package packet

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The bodies below are of what people are asked, and of what they answer.

// Asked is the body of gateway.approval.asked: of a call that waits, or of one that runs.
type Asked struct {
	Approval  string              `json:"approval"`
	Call      capabilities.CallID `json:"call"`
	Tool      capabilities.ToolID `json:"tool"`
	Node      capabilities.NodeID `json:"node"`
	Lane      capabilities.LaneID `json:"lane"`
	Arguments map[string]any      `json:"arguments,omitempty"` // those that may be recorded
	Risk      string              `json:"risk,omitempty"`
	ExpiresAt time.Time           `json:"expires_at"`
	Snapshot  string              `json:"policy_snapshot_id"`
	// Host, Escalated and EnvelopeHash are of a host that a running call was not granted.
	Host         string   `json:"host,omitempty"`
	Escalated    []string `json:"escalated_keys,omitempty"`
	EnvelopeHash string   `json:"envelope_hash,omitempty"` // SHA-256, hex
	// Provider and Form, the names of its fields, are of what a provider asks for.
	Provider string   `json:"provider,omitempty"`
	Form     []string `json:"form,omitempty"`
}

// Extended is the body of gateway.approval.extended: a question stays open for longer.
type Extended struct {
	Approval  string    `json:"approval"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Answered is the body of gateway.approval.answered.
type Answered struct {
	Approval string              `json:"approval"`
	State    string              `json:"state"`
	Reason   string              `json:"reason"`
	Via      string              `json:"via"`
	Known    string              `json:"known_by"` // how the person proved who they are
	Node     capabilities.NodeID `json:"node,omitempty"`
	// Acknowledged are the keys that the person was shown and acknowledged (S1-32).
	Acknowledged []string `json:"acknowledged,omitempty"`
	Snapshot     string   `json:"policy_snapshot_id,omitempty"` // that the call was decided under
	Grant        string   `json:"grant,omitempty"`
	// Action and Digest, a keyed SHA-256 of what was filled in, are of a form.
	Action string `json:"action,omitempty"`
	Digest string `json:"content_digest,omitempty"`
}

// AnsweredLate is the body of gateway.approval.late: an answer to what was answered already.
type AnsweredLate struct {
	Approval   string                   `json:"approval"`
	Answer     string                   `json:"answer"`
	Reason     string                   `json:"reason"`
	State      string                   `json:"state"` // that the first answer left
	AnsweredBy capabilities.PrincipalID `json:"answered_by"`
}

// ApprovalClosed is the body of gateway.approval.closed: nobody wants an answer any more.
type ApprovalClosed struct {
	Approval string `json:"approval"`
	Reason   string `json:"reason"`
}

// OfApproval is what all bodies of gateway.approval have in common.
type OfApproval struct {
	Approval string `json:"approval"`
}

// GrantRevoked is the body of gateway.grant.revoked. No reason: a person ended it.
type GrantRevoked struct {
	Grant  string `json:"grant"`
	Reason string `json:"reason,omitempty"`
}

// Task is the body of the packets of a task, as they left it.
type Task struct {
	ID        string              `json:"task"`
	State     string              `json:"state"`
	Approval  string              `json:"approval"`
	ExpiresAt time.Time           `json:"expires_at"`
	Code      capabilities.Code   `json:"code"`
	Call      capabilities.CallID `json:"call,omitempty"` // that it became
}

// TaskForgotten is the body of the packets of a task's end: its result was taken, or it was
// dropped.
type TaskForgotten struct {
	ID   string                   `json:"task"`
	Of   capabilities.PrincipalID `json:"of"`
	Code capabilities.Code        `json:"code"`
}

// Cancelled is the body of gateway.call.cancelled.
type Cancelled struct {
	Reason string `json:"reason"`
}

// TurnedAway is the body of gateway.calls.muted: calls that nobody looked at, because their caller
// was refused too often.
type TurnedAway struct {
	Refusals uint64         `json:"refusals"`
	Tools    []TurnedAwayOf `json:"tools"`
}

// TurnedAwayOf is how many of them wanted one tool.
type TurnedAwayOf struct {
	Tool  capabilities.ToolID `json:"tool_id"`
	Calls uint64              `json:"calls"`
}
