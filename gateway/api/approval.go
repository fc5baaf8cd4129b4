package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Approval is a question that waits for a person, or waited. Texts of the agent's have been
// made safe to show.
type Approval struct {
	ID        string                   `json:"approval"`
	State     string                   `json:"state"` // pending, allowed, denied, expired or closed
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Tool      capabilities.ToolID      `json:"tool"`
	Title     string                   `json:"title"`
	Node      capabilities.NodeID      `json:"node,omitempty"`
	NodeLabel string                   `json:"node_label,omitempty"`
	Lane      capabilities.LaneID      `json:"lane"`
	Arguments map[string]any           `json:"arguments,omitempty"`
	Hosts     []string                 `json:"hosts,omitempty"` // that the arguments reach, in punycode
	Paths     []string                 `json:"paths,omitempty"`
	Through   []string                 `json:"through,omitempty"` // what carries it out and what that may reach, in short lines
	Risk      string                   `json:"risk"`              // low, medium, high or critical
	Keys      []string                 `json:"capabilities,omitempty"`
	// Escalated are those of Keys that only a yes adds, for this call alone; Envelope is
	// what the question was decided on, and has them not.
	Escalated []string   `json:"escalated_keys,omitempty"`
	Envelope  *Envelope  `json:"envelope,omitempty"`
	Surface   Surface    `json:"surface"` // what to show of it, by the keys that a yes gives
	Why       []string   `json:"why,omitempty"`
	Longest   string     `json:"longest"`         // kind of answer: call, lease, session or always
	Hands     bool       `json:"hands,omitempty"` // an answer that lasts lends the device: nothing else is allowed from there meanwhile
	Choices   []Choice   `json:"choices"`
	Overrides []Override `json:"overrides,omitempty"`
	Policies  []string   `json:"policies,omitempty"`
	Snapshot  string     `json:"policy_snapshot_id"`
	User      bool       `json:"user,omitempty"`  // the person at the MCP client may answer, too
	Wants     string     `json:"wants,omitempty"` // "host:port" that a running call was not granted: a yes is for that call alone
	Form      *Form      `json:"form,omitempty"`  // what a provider's program asks; nil for questions of policy
	Task      string     `json:"task,omitempty"`  // the deferred call that it is asked for, after a restart
	Created   time.Time  `json:"created_at"`
	Expires   time.Time  `json:"expires_at"`
	Waiting   int        `json:"waiting"`              // callers that wait for the answer now
	MayReturn bool       `json:"may_return,omitempty"` // one was told to come back for it
	// By, Reason, Closed and Answered say how it ended; empty while it is pending.
	By     capabilities.PrincipalID `json:"answered_by,omitempty"`
	Reason string                   `json:"reason,omitempty"`
	// of state closed: cancelled, lane_ended, token_revoked, stopped, restarted or superseded
	Closed   string    `json:"closed_because,omitempty"`
	Answered time.Time `json:"answered_at,omitzero"`
	Question *Told     `json:"question,omitempty"` // for those who may answer, while it is open
	Own      *Own      `json:"own,omitempty"`      // the caller asked it themselves, and it is open
}

// Form is what a provider's program asks a person while its call runs, in its own words. Answering
// it grants nothing.
type Form struct {
	Provider string      `json:"provider"`
	Message  string      `json:"message"`
	Fields   []FormField `json:"fields"`
}

// FormField is one thing that is asked.
type FormField struct {
	Name     string       `json:"name"`
	Title    string       `json:"title,omitempty"`
	Note     string       `json:"note,omitempty"`
	Kind     string       `json:"kind"`             // text, integer, number, boolean, choice or choices
	Format   string       `json:"format,omitempty"` // of text: email, uri, date or date-time
	Required bool         `json:"required,omitempty"`
	Least    *float64     `json:"least,omitempty"` // of a number its value, of text its characters, of choices how many
	Most     *float64     `json:"most,omitempty"`
	Choices  []FormChoice `json:"choices,omitempty"`
	Default  any          `json:"default,omitempty"`
}

// FormChoice is one value of a choice.
type FormChoice struct {
	Value string `json:"value"`
	Title string `json:"title,omitempty"`
}

// Choice is one kind of answer that allows.
type Choice struct {
	Kind    string `json:"kind"`         // call, lease, session or always
	Seconds int64  `json:"seconds"`      // how long it is good without a word about it
	Most    int64  `json:"most_seconds"` // the longest
}

// Override is a rule that would answer such a question for good.
type Override struct {
	Effect string `json:"effect"` // permit or forbid
	Cedar  string `json:"cedar"`
	Note   string `json:"note,omitempty"` // what it cannot do
}

// Own says whether the visitor's own word is enough for what they asked.
type Own struct {
	Owner   bool   `json:"owner"`             // the device is theirs
	May     bool   `json:"may"`               // their answer counts as it is
	Passkey bool   `json:"passkey,omitempty"` // else: with a passkey of theirs it would
	Why     string `json:"why,omitempty"`     // else: why it does not
	Hint    string `json:"hint,omitempty"`
}

// Told is what those who may answer are shown of a call.
type Told struct {
	Does    string  `json:"does,omitempty"`    // such as "types 36 characters"
	Purpose string  `json:"purpose,omitempty"` // the agent's claim
	Where   *Where  `json:"where,omitempty"`   // nil: the device did not say
	Into    string  `json:"into,omitempty"`    // Where in words, after Does
	Fields  []Field `json:"fields,omitempty"`  // the arguments
	TooLong bool    `json:"too_long,omitempty"`
	Frame   *Frame  `json:"frame,omitempty"` // nil: it quotes no picture
}

// Where is what a call meets on its device, as the device says.
type Where struct {
	App      string `json:"app,omitempty"`
	Window   string `json:"window,omitempty"`
	Field    string `json:"field,omitempty"`
	Role     string `json:"role,omitempty"`    // of Field, such as "button"
	Address  string `json:"address,omitempty"` // of a page, without its query
	Password bool   `json:"password,omitempty"`
	Terminal bool   `json:"terminal,omitempty"`
}

// Field is one argument.
type Field struct {
	Name   string `json:"name"` // such as "text" or "action.args"
	Text   string `json:"text,omitempty"`
	More   int    `json:"more,omitempty"` // characters that were left out
	Script bool   `json:"script,omitempty"`
	Hidden bool   `json:"hidden,omitempty"` // a password
	Is     string `json:"is,omitempty"`     // the element that it names
}

// Frame is a picture that a call quotes.
type Frame struct {
	ID        string `json:"frame_id"`
	Spots     []Spot `json:"spots,omitempty"` // that the call names in it, in order
	Available bool   `json:"available"`       // GET /v1/approvals/ID/frame returns the part of it
}

// Spot is a place in a picture, in its pixels.
type Spot struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Scope narrows what a grant is good for.
type Scope struct {
	Domains []string  `json:"domains,omitempty"` // hosts; *.example.com for it and all below
	Apps    []string  `json:"apps,omitempty"`
	Paths   []string  `json:"paths,omitempty"` // absolute files or folders of the device
	Starts  time.Time `json:"starts_at,omitzero"`
}

// Grant is a person's permission that is good now.
type Grant struct {
	ID        string                   `json:"grant"`
	Kind      string                   `json:"kind"` // call, lease, session or always
	Principal capabilities.PrincipalID `json:"principal"`
	Tools     []string                 `json:"tools"`          // tool IDs, or families as tool.desktop.*
	Node      capabilities.NodeID      `json:"node,omitempty"` // empty only for tools of the gateway
	Lane      capabilities.LaneID      `json:"lane,omitempty"` // empty: any of the principal's
	Snapshot  string                   `json:"policy_snapshot_id"`
	Manifest  string                   `json:"manifest_hash"` // of what the tools declared
	Scope     Scope                    `json:"scope,omitzero"`
	MaxUses   int                      `json:"max_uses,omitempty"` // 0: not counted
	Used      int                      `json:"used"`
	// ArgsDigest is the keyed digest of the arguments that a call-bound grant is about.
	ArgsDigest string                   `json:"args_digest,omitempty"`
	Nonce      string                   `json:"nonce"`              // makes every grant another
	Via        string                   `json:"via,omitempty"`      // how the answer came: "" by the API, mcp, owner or device
	Known      string                   `json:"known_by,omitempty"` // by what the owner was known: link, password or passkey
	Approver   capabilities.PrincipalID `json:"approver"`
	Reason     string                   `json:"reason,omitempty"`
	Created    time.Time                `json:"created_at"`
	Expires    time.Time                `json:"expires_at"`
}

// Answered says which of several questions were answered, and why another was not.
type Answered struct {
	Approvals []Approval       `json:"approvals"`
	Failed    []FailedApproval `json:"failed,omitempty"`
}

// FailedApproval is a question that was not answered.
type FailedApproval struct {
	Approval string `json:"approval"`
	Error    Error  `json:"error"`
}

// ApprovalList is what waits for a person.
type ApprovalList struct {
	Approvals []Approval `json:"approvals"`
}

// AnswerApproval is a person's answer. Answer is allow or deny; dismiss, too, for what a provider
// asks.
type AnswerApproval struct {
	Answer  string `json:"answer"`
	Kind    string `json:"kind,omitempty"`     // of an allow: call (default), lease, session, always
	Seconds int64  `json:"seconds,omitempty"`  // of a lease; default 300, at most 3600
	Family  bool   `json:"family,omitempty"`   // a lease for every tool of the family
	Scope   Scope  `json:"scope,omitzero"`     // narrows what lasts
	MaxUses int    `json:"max_uses,omitempty"` // of what lasts; default: not counted
	Reason  string `json:"reason,omitempty"`   // at most 500 bytes
	// Acknowledged says that the approver has seen what is privileged or may destroy something
	// (surface.acknowledge of the question); an allow of such a question needs it, or a passkey.
	Acknowledged bool `json:"acknowledged,omitempty"`
	// Content fills in a provider's form, by the names of its fields; texts are read as its fields
	// have them. Of an allow.
	Content map[string]any `json:"content,omitempty"`
	// Passkey is what the approver's passkey answered, as JSON of navigator.credentials;
	// it stands in for coming from elsewhere while an agent holds the device.
	Passkey json.RawMessage `json:"passkey,omitempty"`
}

// AnswerApprovals is one answer to several questions of one task.
type AnswerApprovals struct {
	Approvals []string `json:"approvals"` // of one principal in one lane
	AnswerApproval
}

// GrantList is the permissions that are good now.
type GrantList struct {
	Grants []Grant `json:"grants"`
}

// GiveGrant asks for a lease ahead of any call.
type GiveGrant struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Tools     []string                 `json:"tools"` // tool IDs, or families as tool.desktop.*
	Node      capabilities.NodeID      `json:"node"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"`     // default: the one that its token works in
	AnyLane   bool                     `json:"any_lane,omitempty"` // instead of lane: any of the principal's
	Seconds   int64                    `json:"seconds,omitempty"`
	Scope     Scope                    `json:"scope,omitzero"`
	MaxUses   int                      `json:"max_uses,omitempty"`
	Reason    string                   `json:"reason,omitempty"`
}

// RevokedGrant names the grant that was ended.
type RevokedGrant struct {
	Grant string `json:"grant"`
}
