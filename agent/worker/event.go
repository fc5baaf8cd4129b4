package worker

import (
	"time"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

// Stage is the name of an event, as rule S2-43 has it.
type Stage string

// The stages that a turn goes through.
const (
	StageRouter   Stage = "ROUTER_OUTPUT"
	StagePolicy   Stage = "POLICY_DECISION"
	StageCheck    Stage = "PERMISSION_CHECK"
	StageToolCall Stage = "EXECUTOR_TOOL_CALL"
	StageResponse Stage = "EXECUTOR_RESPONSE"
	StageMemory   Stage = "POSTHOOK_MEMORY" // body []Noted; only if there was a wish
	StageCleanup  Stage = "POSTHOOK_CLEANUP"
	StagePipeline Stage = "PIPELINE" // the whole turn in one event (S2-42)
)

// Event is what a stage did.
type Event struct {
	Stage Stage     `json:"stage"`
	At    time.Time `json:"at"`
	Body  any       `json:"body"`
}

// Routed is the body of StageRouter.
type Routed = router.Found

// Decided is the body of StagePolicy.
type Decided struct {
	gate.Decision
	Offered    []capabilities.ToolID `json:"offered_tools"` // those of them that the gateway lists for this worker
	Remembered []string              `json:"remembered"`    // IDs of the facts that the turn is given
}

// Checked is the body of StageCheck.
type Checked struct {
	Tool       capabilities.ToolID `json:"tool"`
	Capability gate.Capability     `json:"capability,omitempty"`
	By         string              `json:"by,omitempty"` // a grant's ID, the rule that permits it, AtTheCall, WithTheCall; empty: nothing
}

// StatusCancelled is the status of a call that ended with its turn: nobody saw its result.
const StatusCancelled = "cancelled"

// Called is the body of StageToolCall.
type Called struct {
	Tool       capabilities.ToolID `json:"tool"`
	Args       any                 `json:"args"`
	Call       capabilities.CallID `json:"call_id,omitempty"` // empty if the gateway never saw it
	Status     string              `json:"status"`            // of the result, "refused" by the worker itself, or StatusCancelled
	Code       capabilities.Code   `json:"code,omitempty"`
	Why        string              `json:"why,omitempty"`
	Effect     capabilities.Effect `json:"effect,omitempty"`
	Evidence   string              `json:"evidence,omitempty"` // how the effect was verified
	DurationMS float64             `json:"duration_ms"`
	// Result is what it returned, for the person who looks: it is in no event that is written.
	Result capabilities.Result `json:"-"`
}

// Responded is the body of StageResponse.
type Responded struct {
	Text       string `json:"text"`
	RoundTrips int    `json:"round_trips"`
	Tokens     int    `json:"tokens,omitempty"`  // that a model read and wrote, if it says so
	Stopped    string `json:"stopped,omitempty"` // why the turn was cut off
}

// Cleaned is the body of StageCleanup.
type Cleaned struct {
	PermissionsRevoked int `json:"permissions_revoked"`
}

// Pipeline is the body of StagePipeline.
type Pipeline struct {
	Timestamp time.Time `json:"timestamp"`
	Session   string    `json:"sessionId"`
	Pipeline  struct {
		Router struct {
			Intent     intent.Name `json:"intent"`
			Confidence float64     `json:"confidence"`
		} `json:"router"`
		Policy struct {
			Allowed     []capabilities.ToolID `json:"allowed"`
			Permissions []gate.Capability     `json:"permissions"`
		} `json:"policy"`
		Executor struct {
			ToolCalls  []Called `json:"toolCalls"`
			RoundTrips int      `json:"roundTrips"`
		} `json:"executor"`
		PostHooks struct {
			MemoryWrites       int `json:"memoryWrites"`
			PermissionsRevoked int `json:"permissionsRevoked"`
		} `json:"postHooks"`
	} `json:"pipeline"`
}
