package api

import (
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
)

// Tool is a tool as the gateway lists it, with all its bounds.
type Tool struct {
	ID          capabilities.ToolID `json:"tool_id"`
	WireName    string              `json:"wire_name"` // its name in MCP
	Title       string              `json:"title"`
	Description string              `json:"description"`
	Version     string              `json:"version"`
	Tags        []string            `json:"tags"`
	Provider    string              `json:"provider,omitempty"` // that it is imported from; absent: it is built in
	SideEffects string              `json:"side_effects"`       // none, local or external
	Risk        string              `json:"risk"`               // low, medium, high or critical, by the declared keys
	ModelFacing bool                `json:"model_facing"`
	Input       json.RawMessage     `json:"input_schema"`
	Result      json.RawMessage     `json:"result_schema"`
	Annotations Annotations         `json:"annotations"`
	Manifest    []string            `json:"manifest"` // declared capability keys
	Defaults    Defaults            `json:"defaults"`
	Consent     string              `json:"consent"` // none, call, lease or session
	Limits      Limits              `json:"limits"`
	Examples    []Example           `json:"examples,omitempty"`
	Upload      *Upload             `json:"upload,omitempty"`
	// Uses are the tools that a macro or a sub-agent may call; empty for all others.
	Uses []capabilities.ToolID `json:"uses"`
	// Surface is what to show of the reader's calls of it, by the keys that they would have now;
	// absent in lists, and of a tool that the reader cannot use.
	Surface *Surface `json:"surface,omitempty"`
}

// Upload names the arguments that a chosen file fills.
type Upload struct {
	Name string `json:"name"` // takes where it goes
	Text string `json:"text"` // takes what is in it
}

// Annotations are hints for clients.
type Annotations struct {
	ReadOnly    bool `json:"read_only"`
	Destructive bool `json:"destructive"`
	Idempotent  bool `json:"idempotent"`
	OpenWorld   bool `json:"open_world"`
}

// Defaults are what counts where policy says nothing else.
type Defaults struct {
	Isolation        capabilities.IsolationClass `json:"isolation_class"`
	Session          bool                        `json:"session,omitempty"` // or in the person's session
	RequiresApproval bool                        `json:"requires_approval"`
	CacheEligible    bool                        `json:"cache_eligible"`
}

// Limits are the bounds of a call.
type Limits struct {
	TimeoutMS        int    `json:"timeout_ms"`             // default
	MaxTimeoutMS     int    `json:"max_timeout_ms"`         // at most
	DurationArg      string `json:"duration_arg,omitempty"` // pointer of the argument by which a call says how long it means to take, in ms
	SlackMS          int    `json:"slack_ms,omitempty"`     // beyond that
	MaxResultBytes   int    `json:"max_result_bytes"`
	MaxBlobBytes     int    `json:"max_blob_bytes,omitempty"`
	MaxArtifactBytes int64  `json:"max_artifact_bytes,omitempty"` // of a call's artifacts together; 0: it returns none
}

// Example is a call that the input schema accepts.
type Example struct {
	Title string          `json:"title"`
	Args  json.RawMessage `json:"args"`
}

// Validation says whether arguments fit a tool.
type Validation struct {
	Tool       capabilities.ToolID `json:"tool_id"`
	Valid      bool                `json:"valid"`
	Violations []Violation         `json:"violations"` // every one, at most 32; none if valid
}

// Violation is one way in which arguments do not fit.
type Violation struct {
	Path    string `json:"path"` // pointer of the argument; empty for the whole
	Message string `json:"message"`
}

// ToolSelection is the selector's answer (S4-34).
type ToolSelection struct {
	// IntentSummary is the words of the intent that the registry knows, and only those.
	IntentSummary       string                `json:"intent_summary"`
	CandidateTools      []capabilities.ToolID `json:"candidate_tools"` // best first, at most 16
	SelectedTool        capabilities.ToolID   `json:"selected_tool"`
	Args                json.RawMessage       `json:"args"` // as given; valid for SelectedTool (S4-37); null if none were
	WhySelected         string                `json:"why_selected"`
	ExpectedSideEffects string                `json:"expected_side_effects"` // none, local or external
	RollbackPlan        string                `json:"rollback_plan"`
	// Confidence is the share of the best tool's score in that of the two best:
	// 0.5 is a tie, 1 is without a rival.
	Confidence float64 `json:"confidence"`
}

// ToolList is the tools.
type ToolList struct {
	Tools []Tool `json:"tools"`
}

// ValidateArgs asks whether arguments fit a tool's schema.
type ValidateArgs struct {
	Args json.RawMessage     `json:"args,omitempty"` // as for a call, with routing fields
	Lane capabilities.LaneID `json:"lane,omitempty"`
}

// SelectTool asks for the tool that fits an intent.
type SelectTool struct {
	Intent     string                `json:"intent"`
	Tags       []string              `json:"tags,omitempty"`
	Args       json.RawMessage       `json:"args,omitempty"`
	Candidates []capabilities.ToolID `json:"candidates,omitempty"`
	Lane       capabilities.LaneID   `json:"lane,omitempty"`
}
