package dispatch

import (
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// Caller is who calls and from where.
type Caller struct {
	Principal capabilities.PrincipalID
	Role      string // from the token's record
	Lane      capabilities.LaneID
	// Self says by what it is known that a person makes this call in the console with their
	// own hands; empty: it is not known. Only a surface for people sets it.
	Self string
}

// may reports whether a policy lets the caller do something at surfaces.
func (caller Caller) may(engine *policy.Engine, what principal.Action) bool {
	return engine.MayDo(policy.Request{
		Principal: caller.Principal, User: policy.IsUser(caller.Role), Role: caller.Role, Lane: caller.Lane, Time: time.Now(),
	}, string(what)).Effect == policy.Allow
}

// readsPolicy reports whether the caller may see the rules.
func (caller Caller) readsPolicy(engine *policy.Engine) bool {
	return caller.may(engine, principal.ActReadPolicy)
}

// asker is whose calls a caller's are.
func (caller Caller) asker() execution.Asker {
	return execution.Asker{Principal: caller.Principal, Person: policy.IsUser(caller.Role)}
}

// Request is one call as a surface hands it in.
type Request struct {
	Caller
	Tool capabilities.ToolID
	Args json.RawMessage // as the caller sent them
	// RequestID makes a retry recognisable; empty means that there is none.
	RequestID capabilities.RequestID
	Surface   string                      // "mcp", "rest": for the ledger
	Token     string                      // the ID of the token it came with; empty: none did
	Progress  func(capabilities.Progress) // nil: not wanted
	// Came is when the surface began to read the call, and Trace where its caller stands in a trace;
	// zero: neither is known.
	Came  time.Time
	Trace trace.Context
	// Gone is closed when the caller is not there any more, where that does not end the
	// call; nil: it is there as long as it waits.
	Gone <-chan struct{}
	// Elicits says that the surface can put a question to the person at the client,
	// and will do so itself when it is told that one waits.
	Elicits bool
	// Keep is for how long a call that a person is asked about is kept for a caller who is told
	// so at once, and asks after it by the task's ID. 0: the caller waits, and policy says what
	// is kept.
	Keep time.Duration
	// Began is told, once, that the call is committed and runs from now on; it does not block. Nil:
	// not wanted. A call that another one answers never begins.
	Began func(capabilities.CallID)
	// Inside says that the call is the gateway's own way to do what a person asked a
	// surface for: it may be of a tool that is not model-facing.
	Inside bool
	// Shown are the keys of the controls that a person made the call by, such as
	// "ui.input.file_upload": the call is denied unless it is granted each (S1-33).
	Shown []string
	// Opened are the tools that the caller's own gate opened for what it does now: a call of
	// another is denied, whatever policy says of it (S2-20). Nil: it says nothing; empty: it
	// opened none.
	Opened []capabilities.ToolID
	// Checked is told what covers the call before anything of it begins (S2-28). The call goes on only
	// if a rule or a live grant does: nobody is asked, and without either there is no call, and
	// nothing is recorded. Nil: policy decides whether somebody is asked.
	Checked func(Coverage)
	// ReplayOf is the recorded call that this one is again.
	ReplayOf capabilities.CallID
	// Task is the deferred call that this carries out; only gateway/task sets it.
	Task string

	inside *nest // of a call that a composed one makes; nil: of a caller's own
}
