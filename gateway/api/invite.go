package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Invite is an invitation without its secret.
type Invite struct {
	ID          string                   `json:"invite_id"`
	Label       string                   `json:"label,omitempty"`
	Trust       string                   `json:"trust,omitempty"`
	Allow       []string                 `json:"allow,omitempty"` // capability IDs, families as tyrum.browser.*, or *
	Labels      []string                 `json:"labels,omitempty"`
	AutoApprove bool                     `json:"auto_approve"` // no person confirms who joined
	Uses        int                      `json:"uses"`
	Used        int                      `json:"used"`
	CreatedAt   time.Time                `json:"created_at"`
	CreatedBy   capabilities.PrincipalID `json:"created_by,omitempty"`
	ExpiresAt   time.Time                `json:"expires_at"`
	Withdrawn   bool                     `json:"withdrawn,omitempty"`
	UsedBy      []InviteUse              `json:"used_by,omitempty"` // the newest 16
}

// InviteUse says who came in by an invitation.
type InviteUse struct {
	Node        capabilities.NodeID `json:"node_id"`
	Host        string              `json:"host,omitempty"`
	Platform    string              `json:"platform,omitempty"`
	Fingerprint string              `json:"key_fingerprint"`
	At          time.Time           `json:"at"`
}

// Invited is an invitation that was made. The paste is a secret: it is shown once.
type Invited struct {
	Invite
	Paste string `json:"paste"`
}

// NewInvite is an invitation to make.
type NewInvite struct {
	Label       string   `json:"label,omitempty"`
	Trust       string   `json:"trust,omitempty"`
	Allow       []string `json:"allow,omitempty"`
	Labels      []string `json:"labels,omitempty"`
	AutoApprove bool     `json:"auto_approve,omitempty"`
	TTLSeconds  int64    `json:"ttl_s,omitempty"` // default 10 min
	Uses        int      `json:"uses,omitempty"`  // default 1
}

// InviteList is the invitations.
type InviteList struct {
	Invites []Invite `json:"invites"`
}

// WithdrawnInvite names the invitation that is good no more.
type WithdrawnInvite struct {
	Invite    string `json:"invite_id"`
	Withdrawn bool   `json:"withdrawn"`
}
