package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Permission is what covers a call before it is made.
type Permission struct {
	Tool capabilities.ToolID `json:"tool_id"`
	// State is covered (By names what covers it), ask (nothing does, and a person has to permit it)
	// or denied (Code and Message say why).
	State     string                   `json:"state"`
	By        string                   `json:"by,omitempty"`         // the grant, or the rule that permits it without a question
	Grant     string                   `json:"grant,omitempty"`      // the grant
	Expires   time.Time                `json:"expires_at,omitzero"`  // the grant's end
	Node      capabilities.NodeID      `json:"node_id,omitempty"`    // where it would be carried out
	Label     string                   `json:"node_label,omitempty"` // that node's
	Lane      capabilities.LaneID      `json:"lane"`                 // whose call it would be
	Principal capabilities.PrincipalID `json:"principal"`            // who would call
	Longest   string                   `json:"longest,omitempty"`    // the longest kind of answer: call, lease, session or always
	Asks      bool                     `json:"reachable,omitempty"`  // a person would be asked at the call
	Code      capabilities.Code        `json:"code,omitempty"`       // why it is denied
	Message   string                   `json:"message,omitempty"`    // the same in words
}

// The states of a Permission.
const (
	PermissionCovered = "covered"
	PermissionAsk     = "ask"
	PermissionDenied  = "denied"
)

// CheckPermission asks what covers a call before it is made.
type CheckPermission struct {
	Tool capabilities.ToolID `json:"tool"`
	Args json.RawMessage     `json:"args,omitempty"` // empty: whatever they are
	Lane capabilities.LaneID `json:"lane,omitempty"`
}
