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
