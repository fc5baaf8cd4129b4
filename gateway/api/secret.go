package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Secret is a secret without its value, and who may name it.
type Secret struct {
	Name       string      `json:"name"`
	Source     string      `json:"source"` // stored, env, file, exec or missing
	Version    int64       `json:"version,omitempty"`
	Changed    time.Time   `json:"changed_at,omitzero"`
	References []Reference `json:"references"`
}

// Reference is by what an agent names a secret.
type Reference struct {
	ID      string                   `json:"secret_ref_id"`
	Alias   string                   `json:"secret_alias,omitempty"`
	Tools   []capabilities.ToolID    `json:"allowed_tool_ids"` // at least one
	Display string                   `json:"display_name,omitempty"`
	Owner   capabilities.PrincipalID `json:"principal,omitempty"`
}

// SecretList is the secrets, without their values.
type SecretList struct {
	Secrets []Secret `json:"secrets"`
}

// SetSecret is a secret's new value.
type SetSecret struct {
	Value string `json:"value"`
}

// SecretDone says what became of a secret.
type SecretDone struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// AllowSecret lets an agent name a secret.
type AllowSecret struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Alias     string                   `json:"secret_alias,omitempty"`
	Display   string                   `json:"display_name,omitempty"`
	Tools     []capabilities.ToolID    `json:"allowed_tool_ids,omitempty"` // default: every tool that delivers
}

// SecretsDone says which nodes heard that nothing of the secrets of a lane is to be seen.
type SecretsDone struct {
	Lane   capabilities.LaneID   `json:"lane_id"`
	Status string                `json:"status"`
	Nodes  int                   `json:"nodes"`
	Left   []capabilities.NodeID `json:"not_told,omitempty"`
}
