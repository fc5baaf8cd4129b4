package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Bounds of what a provider says.
const (
	MaxTools       = 2000
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
	// Alone says that it is a program that starts no others.
	Alone bool `json:"alone,omitempty"`
	// OptionalKeys are those of Keys that it works without.
	OptionalKeys []string `json:"optional_keys,omitempty"`
	// TimeoutMS bounds a call; 0: 60 s.
	TimeoutMS int `json:"timeout_ms,omitempty"`
	// Runs are the words of a command, as its template has them, or the method and address of a
	// request.
	Runs []string `json:"runs,omitempty"`
	// Uses are the tools that a macro calls, and Plan its steps, one line each.
	Uses []capabilities.ToolID `json:"uses,omitempty"`
	Plan []string              `json:"plan,omitempty"`
	// Request is how a call becomes a request of an HTTP API.
	Request *Request `json:"request,omitempty"`
	// Unusable is why no call of it can be made, as whoever read its description found.
	Unusable string `json:"unusable,omitempty"`
	// Origin is a digest of what carries the tool out: its provider's record with all that it
	// may reach, and a command's whole template. It makes an approval one of that, too.
	Origin string `json:"origin,omitempty"`
}

// OriginOf is the Origin of a tool: of its provider's record, without its name and manifest, and
// of what else of the provider's carries the tool out; nil for nothing.
func OriginOf(p *Provider, more any) string {
	record := *p
	record.Manifest = nil
	return hashOf(map[string]any{"record": record, "more": more})
}

// Hash is "sha256:" and the hex digest of the tool's canonical form: every word of it counts.
func (t *RemoteTool) Hash() string { return hashOf(t) }

// ToolManifest is all that a provider says of its tools at one time.
type ToolManifest struct {
	Provider string       `json:"provider"`
	Version  string       `json:"version,omitempty"` // of the server, as it says
	Tools    []RemoteTool `json:"tools"`
	// Interchangeable says of a satellite that any other with the same manifest serves a call as
	// well.
	Interchangeable bool `json:"interchangeable,omitempty"`
}

// Hash addresses the record: how a provider is started or reached, and what it may touch.
func (p *Provider) Hash() string { return hashOf(p) }

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
