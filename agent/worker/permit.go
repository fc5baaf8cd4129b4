package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/capabilities"
)

// LeaseFor is how long a permission is asked for, unless the person says for this session (S2-33).
const LeaseFor = 5 * time.Minute

// Stand-ins for what covers a call: AtTheCall where a person is asked when it is made, WithTheCall
// where the turn was cancelled before the gateway's answer said what does. Its record does.
const (
	AtTheCall   = "asked at the call"
	WithTheCall = "looked at with the call"
)

// Cover is what covers a call.
type Cover struct {
	By       string // a live grant, or the rule that permits it without a question; empty: nothing
	Asks     bool   // nothing covers it, and a person has to permit it
	Reached  bool   // that person would be asked at the call
	Lasting  bool   // they may permit it ahead, for a time
	Node     string // where it would be carried out
	NodeName string
}

// Wanted is one tool that a turn may need and that nothing covers yet.
type Wanted struct {
	Tool       capabilities.ToolID
	Capability gate.Capability
	Node, Name string // where it would be carried out
}

// Question asks a person for all that a turn may need, once (S2-29, S2-33).
type Question struct {
	Intent intent.Name
	Wanted []Wanted
	For    time.Duration
}

// Leases is what a person permitted.
type Leases struct {
	Grants  []string // to take back after the turn; those for the session are the person's own
	Refused bool     // they said no

	asked []capabilities.ToolID // about which they were asked
}

// Permits asks a person for permissions ahead of calls. It never answers for them.
type Permits interface {
	Ask(ctx context.Context, q Question) (Leases, error)
	Revoke(ctx context.Context, grant string) error
}

// A Planner is a harness that knows beforehand which tools a turn needs.
type Planner interface {
	Plan(t Turn) []capabilities.ToolID
}

// likely are the tools that a turn is likely to call.
func (e *Engine) likely(t Turn, along *pipeline.Pipeline) []capabilities.ToolID {
	if along != nil {
		return along.Tools()
	}
	if p, ok := e.opts.Harness.(Planner); ok {
		return p.Plan(t)
	}
	offered := make([]capabilities.ToolID, 0, len(t.Tools))
	for _, tool := range t.Tools {
		offered = append(offered, tool.ID)
	}
	return gate.Likely(t.Messages[0].Text, offered)
}

// permit asks for what the turn's likely tools lack, before the executor starts.
func (e *Engine) permit(ctx context.Context, t Turn, along *pipeline.Pipeline) (*Leases, error) {
	if e.opts.Permits == nil {
		return &Leases{}, nil
	}
	q := Question{Intent: t.Intent, For: LeaseFor}
	var asked []capabilities.ToolID
	likely := e.likely(t, along)
	for _, tool := range t.Tools {
		if !slices.Contains(likely, tool.ID) {
			continue // it is asked about when it is called
		}
		c, err := e.opts.Gateway.Covers(ctx, tool.ID)
		if err != nil {
			return nil, err
		}
		if c.Asks && c.Lasting && c.Node != "" {
			asked = append(asked, tool.ID)
			q.Wanted = append(q.Wanted, Wanted{tool.ID, gate.Needs(tool.ID, tool.Uses), c.Node, c.NodeName})
		}
	}
	if len(q.Wanted) == 0 {
		return &Leases{}, nil
	}
	leases, err := e.opts.Permits.Ask(ctx, q)
	leases.asked = asked
	return &leases, err
}

// revoke takes back what was permitted for the turn, and returns how much that was. A lease that
// cannot be taken back ends by itself.
func (e *Engine) revoke(ctx context.Context, leases *Leases) (revoked int) {
	ctx, over := context.WithTimeout(context.WithoutCancel(ctx), maxRecording)
	defer over()
	leases.Grants = slices.DeleteFunc(leases.Grants, func(grant string) bool {
		if e.opts.Permits.Revoke(ctx, grant) != nil {
			return false
		}
		revoked++
		return true
	})
	return revoked
}

// covered makes a call that something covers, and tells what does. One that nothing does is
// skipped, and the turn goes on (S2-27, S2-28, S2-30); where a person would be asked at the call,
// they are.
func (x *execution) covered(ctx context.Context, tool capabilities.ToolID,
	args json.RawMessage) (_ capabilities.Result, skipped bool, _ error) {
	o, needs := &x.engine.opts, gate.Needs(tool, x.uses(tool))
	began := o.Now() // the gateway checks first, and then calls
	result, c, err := o.Gateway.CallCovered(ctx, tool, args)
	ahead := c.Lasting && slices.Contains(x.leases.asked, tool) // the person had their say
	switch {
	case err != nil && ctx.Err() != nil:
		c.By = WithTheCall
	case err != nil:
		return result, false, err
	case c.Asks && c.Reached && !x.leases.Refused && (o.Waits || o.Permits != nil && !ahead):
		x.engine.tellAt(began, StageCheck, Checked{tool, needs, AtTheCall})
		result, err = o.Gateway.Call(ctx, tool, args)
		return result, false, err
	}
	x.engine.tellAt(began, StageCheck, Checked{tool, needs, c.By})
	if !c.Asks {
		return result, false, err
	}
	code := capabilities.CodeConsentUnavailable
	if x.leases.Refused {
		code = capabilities.CodeConsentDenied
	}
	refusal := refuse(tool, code, fmt.Sprintf("permission denied: no active token for %s", needs))
	refusal.Hint = "A person can permit it before the turn, in the terminal of a chat."
	return refusal, true, nil
}

// uses are the tools that an offered tool calls itself.
func (x *execution) uses(tool capabilities.ToolID) []capabilities.ToolID {
	i := slices.IndexFunc(x.turn.Tools, func(t Tool) bool { return t.ID == tool })
	if i < 0 {
		return nil
	}
	return x.turn.Tools[i].Uses
}
