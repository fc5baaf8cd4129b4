package api

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Provider is a provider with its tools.
type Provider struct {
	Name    string              `json:"name"`
	Kind    string              `json:"kind"` // command, openapi, mcp, macro or satellite
	Host    capabilities.NodeID `json:"host"` // empty of a macro, which has none
	Command []string            `json:"command,omitempty"`
	URL     string              `json:"url,omitempty"`    // of an MCP server or an OpenAPI document
	Server  string              `json:"server,omitempty"` // of an HTTP API, in place of what its document says
	Only    []string            `json:"only,omitempty"`
	Read    []string            `json:"read,omitempty"`
	Write   []string            `json:"write,omitempty"`
	Net     []string            `json:"net,omitempty"`
	Env     []string            `json:"env,omitempty"`     // NAME=SECRET
	Headers []string            `json:"headers,omitempty"` // NAME=SECRET
	// ManifestHash addresses what it said of its tools last; an approval names it.
	ManifestHash string                   `json:"manifest_hash"`
	Tools        []ProviderTool           `json:"tools"`
	Refused      []RefusedTool            `json:"refused,omitempty"`
	Tried        []TriedHost              `json:"tried,omitempty"`
	By           capabilities.PrincipalID `json:"created_by"`
	Created      time.Time                `json:"created_at"`
	Checked      time.Time                `json:"checked_at"`
	// Ready says whether its host can carry its calls out now; Reason and Fix say why not.
	Ready  bool                `json:"ready"`
	Reason capabilities.Reason `json:"reason,omitempty"`
	Fix    string              `json:"fix,omitempty"`
	// Rules is the Cedar that an approval of what waits would put in force, each tool as it is
	// proposed or, in the answer to a preview, chosen; what is in force where nothing waits.
	Rules string `json:"rules,omitempty"`
}

// ProviderTool is one tool of a provider.
type ProviderTool struct {
	Tool        capabilities.ToolID `json:"tool_id"`
	Upstream    string              `json:"upstream"` // what the provider calls it
	Title       string              `json:"title"`
	Description string              `json:"description"`
	State       string              `json:"state"` // draft, review, canary, active, restricted, deprecated or retired
	// Was is the state that it had before it changed, and keeps unless an approval names another.
	Was      string   `json:"was,omitempty"`
	Next     []string `json:"next"` // the states to which a decision can move it
	Callable bool     `json:"callable"`
	// Effect is what agents may do by its approval: allow, ask (always of a restricted tool) or
	// deny; Proposal what an approval proposes.
	Effect   string                     `json:"effect,omitempty"`
	Proposal string                     `json:"proposal"`
	Canary   []capabilities.PrincipalID `json:"canary,omitempty"`
	Hash     string                     `json:"hash"`
	Approved string                     `json:"approved_hash,omitempty"`
	Flags    []string                   `json:"flags,omitempty"` // what a person should look at
	// Argv are the words of a command, as its template has them, or the method and address of a
	// request.
	Argv []string `json:"argv,omitempty"`
	// Plan are the steps of a macro, one line each.
	Plan  []string        `json:"plan,omitempty"`
	Keys  []string        `json:"capability_keys"`
	Input json.RawMessage `json:"input,omitempty"`
}

// RefusedTool is a tool that cannot be taken, and why.
type RefusedTool struct {
	Upstream string `json:"upstream"`
	Reason   string `json:"reason"`
}

// TriedHost is a host that a provider wanted to connect to and was not let, at the last check.
type TriedHost struct {
	Target string `json:"target"` // host:port; "to change PATH" or "to read PATH"
	Why    string `json:"why"`
	Flag   string `json:"flag,omitempty"` // of 'provider add', which allows it
	Count  int    `json:"count"`
}

// AddProvider is a provider that somebody adds.
type AddProvider struct {
	Name     string              `json:"name"`
	Kind     string              `json:"kind"`
	Host     capabilities.NodeID `json:"host,omitempty"` // not of a macro
	Command  []string            `json:"command,omitempty"`
	URL      string              `json:"url,omitempty"`
	Server   string              `json:"server,omitempty"`
	Only     []string            `json:"only,omitempty"`
	Read     []string            `json:"read,omitempty"`
	Write    []string            `json:"write,omitempty"`
	Net      []string            `json:"net,omitempty"`
	Env      []string            `json:"env,omitempty"`      // NAME=SECRET
	Headers  []string            `json:"headers,omitempty"`  // NAME=SECRET
	Manifest string              `json:"manifest,omitempty"` // JSON, as text; of a macro YAML, too
}

// ApproveProvider is what somebody approves of a provider.
type ApproveProvider struct {
	ManifestHash string `json:"manifest_hash"` // what they looked at
	// Tools decide about single tools; all others that wait are taken as proposed.
	Tools map[capabilities.ToolID]ToolChoice `json:"tools,omitempty"`
	// Preview approves nothing: the answer's rules are what the approval would put in force.
	Preview bool `json:"preview,omitempty"`
}

// ToolChoice decides about one tool.
type ToolChoice struct {
	State  string                     `json:"state,omitempty"`  // default: active
	Effect string                     `json:"effect,omitempty"` // default: as proposed
	Canary []capabilities.PrincipalID `json:"canary,omitempty"`
}

// ToolDiff is what a provider says of a tool now against what was approved.
type ToolDiff struct {
	Provider string `json:"provider"`
	ProviderTool
	// Lines begin with "  ", "- " (approved and gone) or "+ " (new); an empty line stands where
	// unchanged ones are left out. All are new if nothing was approved.
	Lines []string `json:"lines"`
	// Unseen says that the host reports a change; a check of the provider shows it.
	Unseen bool `json:"unseen"`
}

// ToolDecision moves one tool of a provider to another state.
type ToolDecision struct {
	// State is canary, active, restricted, deprecated or retired; default: what it was before it
	// changed, or active.
	State  string                     `json:"state,omitempty"`
	Effect string                     `json:"effect,omitempty"` // default: as it was, or as proposed for other words
	Canary []capabilities.PrincipalID `json:"canary,omitempty"` // who may call it; with canary only
	Hash   string                     `json:"hash,omitempty"`   // of the tool, as it was looked at; only retiring goes without
}

// ProviderList is the providers.
type ProviderList struct {
	Providers []Provider `json:"providers"`
}

// ProviderDone says what became of a provider.
type ProviderDone struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}
