package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Bounds of what a provider says.
const (
	MaxTools       = 1000
	MaxToolBytes   = 128 << 10 // of one tool, as canonical JSON
	maxText        = 64 << 10  // bytes of a description that are read
	maxAnnotations = 256
)

// RemoteTool is one tool in its provider's own words. Nothing of it is trusted.
type RemoteTool struct {
	Name        string          `json:"name"` // what the provider calls it
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`  // JSON Schema; absent: no arguments
	Output      json.RawMessage `json:"output,omitempty"` // of structured results; absent: unknown
	// Hints, where the provider gives any.
	ReadOnly    *bool    `json:"read_only,omitempty"`
	Destructive *bool    `json:"destructive,omitempty"`
	Idempotent  *bool    `json:"idempotent,omitempty"`
	OpenWorld   *bool    `json:"open_world,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	// Keys are capability keys that it declares beside those of its provider.
	Keys []string `json:"keys,omitempty"`
	// TimeoutMS bounds a call; 0: 60 s.
	TimeoutMS int `json:"timeout_ms,omitempty"`
}

// Hash is "sha256:" and the hex digest of the tool's canonical form: every word of it counts.
func (t *RemoteTool) Hash() string { return hashOf(t) }

// ToolManifest is all that a provider says of its tools at one time.
type ToolManifest struct {
	Provider string       `json:"provider"`
	Version  string       `json:"version,omitempty"` // of the server, as it says
	Tools    []RemoteTool `json:"tools"`
}

// Hash addresses the manifest by its content.
func (m *ToolManifest) Hash() string { return hashOf(m) }

func hashOf(v any) string {
	data, err := canonical.Marshal(v)
	if err != nil {
		return "" // a schema that is no JSON, which Describe refuses
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
