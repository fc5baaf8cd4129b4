package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Call is a call as the ledger has it, told in one.
type Call struct {
	ID         capabilities.CallID      `json:"call_id"`
	Tool       capabilities.ToolID      `json:"tool_id"`
	Principal  capabilities.PrincipalID `json:"principal"`
	Lane       capabilities.LaneID      `json:"lane"`
	Node       capabilities.NodeID      `json:"node_id,omitempty"`
	NodeLabel  string                   `json:"node_label,omitempty"` // what people called the node then
	Surface    string                   `json:"surface,omitempty"`
	Parent     capabilities.CallID      `json:"parent_call_id,omitempty"` // of a step: the call that took it
	Step       uint32                   `json:"step,omitempty"`           // which of its steps
	StartedAt  time.Time                `json:"started_at"`
	Decision   string                   `json:"decision,omitempty"` // allow, ask or deny
	State      string                   `json:"state"`              // requested, dispatched, pending or ended
	Outcome    string                   `json:"outcome"`            // one of Outcomes
	EndedBy    string                   `json:"ended_by,omitempty"` // of what was ended on purpose: caller or person
	Status     capabilities.Status      `json:"status,omitempty"`
	Code       capabilities.Code        `json:"code,omitempty"`
	Effect     capabilities.Effect      `json:"effect,omitempty"`
	DurationMS float64                  `json:"duration_ms,omitempty"`
	// Envelope is what the last decision stood on; absent where the call was refused
	// before there was one.
	Envelope *Envelope `json:"envelope,omitempty"`
	// Given is the isolation class that it got, or that its node gives if it was not carried out;
	// Degraded is what of it policy let it do without.
	Given    capabilities.IsolationClass `json:"isolation_given,omitempty"`
	Degraded string                      `json:"isolation_degraded,omitempty"`
	// Runner is the fingerprint of what carried it out, or was to; absent: the gateway, or none.
	Runner string `json:"runner_fingerprint,omitempty"`
	// Runners are the programs that carried it out, once it has ended; of what runs within the node
	// there are none.
	Runners  []Ran  `json:"runners,omitempty"`
	FirstSeq uint64 `json:"first_seq"` // of its packets
	LastSeq  uint64 `json:"last_seq"`
	// Phrase says in a few words what was done, or was to be done.
	Phrase string `json:"phrase,omitempty"`
}

// Ran is a program that carried a call out, with the walls that stood around it.
type Ran struct {
	Class   capabilities.IsolationClass `json:"isolation_class"`
	Program string                      `json:"program,omitempty"` // the hash of its file
	Runner  string                      `json:"runner_fingerprint"`
	Walls   []string                    `json:"walls"`
}

// Outcomes returns the words for how far a call is, by which lists are filtered: asked, when
// no more is known; over, when what it waited for ended without it; ended, when its caller or
// a person ended it on purpose.
func Outcomes() []string {
	return []string{"asked", "waits", "over", "running", "done", "ended", "failed", "denied"}
}

// Envelope is what surfaces show of a call's envelope.
type Envelope struct {
	Hash         string                      `json:"hash"` // SHA-256 of the envelope's bytes, hex
	ToolSlug     string                      `json:"tool_slug"`
	Action       string                      `json:"action"`
	Capabilities Keys                        `json:"capabilities"` // declared
	Profile      string                      `json:"capability_profile_id"`
	Risk         string                      `json:"risk_level"` // low, medium, high or critical
	Isolation    capabilities.IsolationClass `json:"isolation_class"`
	Snapshot     string                      `json:"policy_snapshot_id"`
	Grants       []string                    `json:"effective_grants"`
}

// Keys are capability keys without their category, by category.
type Keys struct {
	Data       []string `json:"data"`
	Execution  []string `json:"execution"`
	Network    []string `json:"network"`
	Privileged []string `json:"privileged"`
	UI         []string `json:"ui"`
}

// Task is a call that is kept until a person answers.
type Task struct {
	ID        string                   `json:"task"`
	State     string                   `json:"state"` // waiting, running or ended
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Lane      capabilities.LaneID      `json:"lane"`
	Tool      capabilities.ToolID      `json:"tool"`
	Manifest  string                   `json:"manifest_hash"` // of the tool as it was when the call was made
	RequestID capabilities.RequestID   `json:"request_id,omitempty"`
	Surface   string                   `json:"surface,omitempty"`
	Approval  string                   `json:"approval"` // the question that it waits for now
	Call      capabilities.CallID      `json:"call_id,omitempty"`
	Code      capabilities.Code        `json:"code,omitempty"` // of a call that did not succeed
	Created   time.Time                `json:"created_at"`
	Expires   time.Time                `json:"expires_at"`
}

// CallList is a page of calls, the newest first.
type CallList struct {
	Calls []Call `json:"calls"`
	// Before continues the list with what is older; absent at its end. A filter looks
	// through a bounded number of packets at once, so a list may be short and go on.
	Before uint64 `json:"before,omitempty"`
}

// MakeCall is a call to make.
type MakeCall struct {
	Tool      capabilities.ToolID    `json:"tool"`
	Args      json.RawMessage        `json:"args,omitempty"`
	Lane      capabilities.LaneID    `json:"lane,omitempty"`
	RequestID capabilities.RequestID `json:"request_id,omitempty"`
	// keys of the controls it was made by, such as ui.input.file_upload: it is denied unless it is
	// granted each
	Shown []string `json:"shown,omitempty"`
	// of a worker: the tools that its turn was offered, which may be none; a call of another is
	// denied. Absent: nothing is said
	Opened []capabilities.ToolID `json:"opened,omitzero"`
	// only if a rule or a live grant covers it: nobody is asked, and without either there is no call,
	// which the answer's permission says
	Covered bool `json:"covered,omitempty"`
	// of a sub-agent's worker: the job and the claim on it, inside whose call this one is made; its
	// lane is the job's
	Job   string `json:"job_id,omitempty"`
	Claim string `json:"claim,omitempty"`
}

// CallMade is what came of a call.
type CallMade struct {
	capabilities.Result
	// of a call that was to be made only if something covers it: what does. Absent: the call was
	// refused before that was looked at
	Permission *Permission `json:"permission,omitempty"`
}

// ReplayCall asks what a recorded call would be decided as now.
type ReplayCall struct {
	Run bool `json:"run,omitempty"` // run it again, too
}

// CancelledCall names the call that was ended.
type CancelledCall struct {
	Call capabilities.CallID `json:"call_id"`
}

// TaskList is the calls that are kept.
type TaskList struct {
	Tasks []Task `json:"tasks"`
}

// DroppedTask names the call that was forgotten.
type DroppedTask struct {
	Task string `json:"task"`
}
