package turn

import (
	"math"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Name is the name of a stage.
type Name string

// The stages (S2-43), in the order in which a turn goes through them; the check of permission and
// the call come once for each call. Pipeline describes the whole turn (S2-42) and is last.
const (
	Router     Name = "ROUTER_OUTPUT"
	Policy     Name = "POLICY_DECISION"
	Permission Name = "PERMISSION_CHECK"
	ToolCall   Name = "EXECUTOR_TOOL_CALL"
	Response   Name = "EXECUTOR_RESPONSE"
	Memory     Name = "POSTHOOK_MEMORY"
	Cleanup    Name = "POSTHOOK_CLEANUP"
	Pipeline   Name = "PIPELINE"
)

// Bounds.
const (
	MaxStages = 128 // of a turn
	MaxTools  = 64  // of a list of tools, facts, capabilities
	maxName   = 128 // bytes of a name
)

// State is where a turn is.
type State string

// The states. A worker says Running of a turn that goes on, and nothing of one that has ended. Lost
// is its gateway's word: no worker said anything of a running turn for as long as its lease.
const (
	Running State = "running"
	Lost    State = "lost"
	Ended   State = "ended"
)

// idFormat is the form of a turn's ID.
var idFormat = capabilities.Pattern(`^turn_[0-9a-f]{16}$`)

// Claim is one turn as its worker describes it.
type Claim struct {
	// Turn is the ID that its worker chose, "turn_" and 16 hexadecimal digits, so that a fact which
	// the turn keeps can name it; empty: the gateway makes one.
	Turn    string    `json:"turn_id,omitempty"`
	Session string    `json:"session_id"` // of the conversation
	Lane    string    `json:"lane,omitempty"`
	State   State     `json:"state,omitempty"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at,omitzero"` // not set unless it has ended
	Stages  []Stage   `json:"stages"`            // in order; of a turn that has ended, the last one is Pipeline
}

// Stage is one stage: the part of its name is set, and no other.
type Stage struct {
	Stage      Name        `json:"stage"`
	At         time.Time   `json:"at"`
	Router     *Routed     `json:"router,omitempty"`
	Policy     *Decided    `json:"policy,omitempty"`
	Permission *Checked    `json:"permission,omitempty"`
	Call       *Called     `json:"call,omitempty"`
	Response   *Responded  `json:"response,omitempty"`
	Memory     []Noted     `json:"memory,omitempty"`
	Cleanup    *Cleaned    `json:"cleanup,omitempty"`
	Pipeline   *Summarised `json:"pipeline,omitempty"`
}

// Routed is what the router found.
type Routed struct {
	Intent     string  `json:"intent"`
	Confidence float64 `json:"confidence"` // from 0 to 1
	By         string  `json:"by"`         // prefix, signals, model or file
	Asked      bool    `json:"asked,omitempty"`
}

// Decided is what the gate opened.
type Decided struct {
	Allowed    []capabilities.ToolID `json:"allowed"`
	Offered    []capabilities.ToolID `json:"offered"` // those of them that the gateway lists
	Required   []string              `json:"permissions"`
	Remembered []string              `json:"remembered,omitempty"` // IDs of the facts that the turn read
}

// Checked is what covers a call before it is made.
type Checked struct {
	Tool       capabilities.ToolID `json:"tool_id"`
	Capability string              `json:"capability,omitempty"`
	By         string              `json:"by,omitempty"` // a grant's ID, or the rule that lets it pass; empty: nothing
}

// Called is one call. CallID is empty if the worker refused it by itself.
type Called struct {
	Tool       capabilities.ToolID `json:"tool_id"`
	CallID     capabilities.CallID `json:"call_id,omitempty"`
	Status     string              `json:"status"`
	Code       capabilities.Code   `json:"code,omitempty"`
	DurationMS float64             `json:"duration_ms"`
}

// Responded is how the executor ended.
type Responded struct {
	RoundTrips int    `json:"round_trips"`
	Tokens     int    `json:"tokens,omitempty"`
	Stopped    string `json:"stopped,omitempty"` // a bound that cut the turn off, in the worker's words
}

// Noted is what came of one wish to remember or to forget.
type Noted struct {
	Status string `json:"status"`
	Fact   string `json:"fact_id,omitempty"`
}

// Cleaned is what was taken back.
type Cleaned struct {
	Revoked int `json:"permissions_revoked"`
}

// Summarised is the whole turn.
type Summarised struct {
	Intent       string                `json:"intent"`
	Confidence   float64               `json:"confidence"`
	Allowed      []capabilities.ToolID `json:"allowed"`
	Required     []string              `json:"permissions"`
	Calls        []capabilities.CallID `json:"calls"` // those that the gateway saw
	RoundTrips   int                   `json:"round_trips"`
	MemoryWrites int                   `json:"memory_writes"`
	Revoked      int                   `json:"permissions_revoked"`
}

// Summary returns the last stage's part; nil if there is none.
func (c *Claim) Summary() *Summarised {
	if len(c.Stages) == 0 {
		return nil
	}
	return c.Stages[len(c.Stages)-1].Pipeline
}

// SoFar returns the summary of a turn; of one that has none, what its stages come to.
func (c *Claim) SoFar() Summarised {
	if s := c.Summary(); s != nil {
		return *s
	}
	var s Summarised
	for i := range c.Stages {
		switch at := &c.Stages[i]; {
		case at.Router != nil:
			s.Intent, s.Confidence = at.Router.Intent, at.Router.Confidence
		case at.Policy != nil:
			s.Allowed, s.Required = at.Policy.Allowed, at.Policy.Required
		case at.Call != nil && at.Call.CallID != "":
			s.Calls = append(s.Calls, at.Call.CallID)
		case at.Response != nil:
			s.RoundTrips = at.Response.RoundTrips
		case at.Cleanup != nil:
			s.Revoked = at.Cleanup.Revoked
		}
	}
	return s
}

// Took returns how long a turn took: one that runs until now, one that is lost until its last
// stage.
func (c *Claim) Took(now time.Time) time.Duration {
	end := c.Ended
	switch {
	case c.State == Running:
		end = now
	case c.State == Lost && len(c.Stages) > 0:
		end = c.Stages[len(c.Stages)-1].At
	}
	return max(0, end.Sub(c.Started)) // clocks differ
}

// Validate refuses with invalid_request a claim that is out of bounds.
func (c *Claim) Validate() error {
	if err := capabilities.ValidateName("session_id", c.Session, maxName); err != nil {
		return err
	}
	if c.Turn != "" && !idFormat().MatchString(c.Turn) {
		return invalid("turn_id is turn_ and 16 hexadecimal digits")
	}
	if c.Lane != "" {
		if err := capabilities.ValidateName("lane", c.Lane, maxName); err != nil {
			return err
		}
	}
	if err := c.validateState(); err != nil {
		return err
	}
	for i := range c.Stages {
		s := &c.Stages[i]
		if err := s.validate(); err != nil {
			return err
		}
		if s.Stage == Pipeline && (i != len(c.Stages)-1 || c.State == Running) {
			return invalid("%s is the last stage", Pipeline)
		}
	}
	return nil
}

// validateState checks what differs between a turn that runs and one that has ended.
func (c *Claim) validateState() error {
	running := c.State == Running
	switch {
	case c.State != "" && c.State != Ended && !running:
		return invalid("the state is %s, or %s", Running, Ended)
	case running && c.Turn == "":
		return invalid("a turn that runs has its turn_id")
	case running && !c.Ended.IsZero():
		return invalid("a turn that runs has no ended_at")
	case c.Started.IsZero() || !running && c.Ended.Before(c.Started):
		return invalid("a turn ends after it began")
	case len(c.Stages) == 0 || len(c.Stages) > MaxStages:
		return invalid("a turn has 1 to %d stages", MaxStages)
	case !running && c.Summary() == nil:
		return invalid("the last stage is %s", Pipeline)
	case running && c.Summary() != nil:
		return invalid("a turn that runs has no stage %s", Pipeline)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...)
}

// validate checks one stage.
func (s *Stage) validate() error {
	parts := 0
	for _, is := range []bool{
		s.Router != nil, s.Policy != nil, s.Permission != nil, s.Call != nil, s.Response != nil, s.Memory != nil, s.Cleanup != nil,
		s.Pipeline != nil,
	} {
		if is {
			parts++
		}
	}
	if parts != 1 || s.At.IsZero() {
		return invalid("a stage has its time and one part")
	}
	var c check
	switch {
	case s.Stage == Router && s.Router != nil:
		c.names(s.Router.Intent, s.Router.By)
		c.share(s.Router.Confidence)
	case s.Stage == Policy && s.Policy != nil:
		c.tools(s.Policy.Allowed)
		c.tools(s.Policy.Offered)
		c.lists(s.Policy.Required, s.Policy.Remembered)
	case s.Stage == Permission && s.Permission != nil:
		c.names(string(s.Permission.Tool), s.Permission.Capability, s.Permission.By)
	case s.Stage == ToolCall && s.Call != nil:
		c.names(string(s.Call.Tool), string(s.Call.CallID), s.Call.Status, string(s.Call.Code))
		c.amounts(s.Call.DurationMS)
	case s.Stage == Response && s.Response != nil:
		c.names(s.Response.Stopped)
		c.amounts(float64(s.Response.RoundTrips), float64(s.Response.Tokens))
	case s.Stage == Memory && s.Memory != nil:
		c.bound(len(s.Memory))
		for _, n := range s.Memory {
			c.names(n.Status, n.Fact)
		}
	case s.Stage == Cleanup && s.Cleanup != nil:
		c.amounts(float64(s.Cleanup.Revoked))
	case s.Stage == Pipeline && s.Pipeline != nil:
		p := s.Pipeline
		c.names(p.Intent)
		c.share(p.Confidence)
		c.tools(p.Allowed)
		c.lists(p.Required)
		c.bound(len(p.Calls))
		for _, id := range p.Calls {
			c.names(string(id))
		}
		c.amounts(float64(p.RoundTrips), float64(p.MemoryWrites), float64(p.Revoked))
	default:
		return invalid("the stage %.40q has no part of its name", string(s.Stage))
	}
	if c.bad != "" {
		return invalid("the stage %s has %s", s.Stage, c.bad)
	}
	return nil
}

// check collects the first thing that is out of bounds.
type check struct{ bad string }

func (c *check) fail(why string) {
	if c.bad == "" {
		c.bad = why
	}
}

func (c *check) bound(n int) {
	if n > MaxTools {
		c.fail("a list that is too long")
	}
}

// names are printable and short; they may be empty.
func (c *check) names(list ...string) {
	for _, s := range list {
		if len(s) > maxName || capabilities.Escape(s) != s {
			c.fail("a name that is too long or cannot be printed")
		}
	}
}

func (c *check) lists(lists ...[]string) {
	for _, list := range lists {
		c.bound(len(list))
		c.names(list...)
	}
}

func (c *check) tools(list []capabilities.ToolID) {
	c.bound(len(list))
	for _, id := range list {
		c.names(string(id))
	}
}

func (c *check) share(v float64) {
	if !(v >= 0 && v <= 1) { // NaN is neither
		c.fail("a confidence that is not from 0 to 1")
	}
}

func (c *check) amounts(list ...float64) {
	for _, v := range list {
		if !(v >= 0 && v <= math.MaxInt32) {
			c.fail("a number that is out of bounds")
		}
	}
}
