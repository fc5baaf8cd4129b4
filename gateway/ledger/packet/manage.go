package packet

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
)

// The bodies below are of no call: what people changed. They are encoded by their tags.

// Token is the body of the packets of a token, a session or a user, as the change left it.
type Token struct {
	ID        string                   `json:"token_id"`
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Lane      capabilities.LaneID      `json:"lane"`
	CreatedAt time.Time                `json:"created_at"`
	CreatedBy capabilities.PrincipalID `json:"created_by"`
	ExpiresAt time.Time                `json:"expires_at,omitzero"` // zero: never
	RevokedAt time.Time                `json:"revoked_at,omitzero"`
	Parent    string                   `json:"session_of,omitempty"`
	Opened    string                   `json:"opened_by,omitempty"` // link, password or passkey
	Before    string                   `json:"role_before,omitempty"`
	// Client, Audience and Tools are those of an OAuth client that a person let in.
	Client   string `json:"client,omitempty"`
	Audience string `json:"audience,omitempty"`
	Tools    string `json:"tools,omitempty"`
}

// Invite is the body of node.invited.
type Invite struct {
	ID          string                   `json:"invite_id"`
	Label       string                   `json:"label,omitempty"`
	Trust       string                   `json:"trust,omitempty"`
	Allow       []string                 `json:"allow,omitempty"`
	Labels      []string                 `json:"labels,omitempty"`
	AutoApprove bool                     `json:"auto_approve"`
	Uses        int                      `json:"uses"`
	Used        int                      `json:"used"`
	CreatedAt   time.Time                `json:"created_at"`
	CreatedBy   capabilities.PrincipalID `json:"created_by,omitempty"`
	ExpiresAt   time.Time                `json:"expires_at"`
}

// Activated is the body of gateway.policy.activated.
type Activated struct {
	Snapshot string   `json:"policy_snapshot_id"`
	Before   string   `json:"before"`
	Reason   string   `json:"reason"`
	Files    []string `json:"files"`
}

// Staged is the body of gateway.policy.staged.
type Staged struct {
	Snapshot string `json:"policy_snapshot_id"`
	Base     string `json:"base"` // what it was made from
}

// Surfaced is the body of gateway.drift.surfaced: what a page offered without a grant.
type Surfaced struct {
	Surface string   `json:"surface"`
	Page    string   `json:"page"` // its address
	TokenID string   `json:"token_id"`
	Role    string   `json:"role"` // of its visitor
	Signals []Signal `json:"signals"`
}

// Signal is one difference between what was shown and what is granted.
type Signal struct {
	ID       string              `json:"drift_id,omitempty"` // empty in packets of old
	Severity drift.Severity      `json:"severity"`
	Control  string              `json:"control,omitempty"`
	Call     capabilities.CallID `json:"call_id,omitempty"`
	Key      string              `json:"key,omitempty"`
	Text     string              `json:"text"`
}
