package guard

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Desk asks the person at the device; agent/owner implements it.
type Desk interface {
	// Ask waits for an answer; nil means yes.
	Ask(ctx context.Context, c owner.Call) *capabilities.Error
	// Used says that an agent uses mouse or keyboard, and may go on doing so.
	Used()
}

// inputKey is the capability key of whatever moves mouse or keyboard.
const inputKey = "privileged.input.inject"

// answerMargin is what a call keeps of its time for saying that nobody answered.
const answerMargin = 3 * time.Second

// owner applies the owner's rules with the gateway's own policy library: the stricter of the two
// decisions holds (hop 9 of docs/architecture.md). A call that the owner wants to be asked about
// waits for the person at the device; without a desk, asking is a no.
func (g *Guard) owner(ctx context.Context, t *wire.Ticket, e *policy.Sealed, self policy.Node,
	ready capabilities.Readiness) *capabilities.Error {
	request := ruled(t, e, self, ready)
	d := g.opts.Owner(request)
	input := slices.Contains(t.Grants, inputKey)
	switch d.Effect {
	case policy.Allow:
		if input && g.opts.Desk != nil {
			g.opts.Desk.Used()
		}
		return nil
	case policy.Ask:
		return g.ask(ctx, t, e, request, d, input)
	}
	return refused(d)
}

// ruled is the question to the owner's rules about a ticket.
func ruled(t *wire.Ticket, e *policy.Sealed, self policy.Node, ready capabilities.Readiness) policy.Request {
	return policy.Request{
		Principal: e.Principal, User: policy.IsUser(e.Role), Role: e.Role, Taint: e.Taint, Tool: t.Tool, Node: self, Lane: e.Lane, Args: t.Args,
		Given: ready.Isolation, Degraded: ready.Degraded, Hosts: ready.Hosts, Required: e.Isolation, Raised: e.Raised(), Time: time.Now(),
		Granted: slices.ContainsFunc(t.Grants, isGrant),
	}
}

func refused(d policy.Decision) *capabilities.Error {
	if d.Code == capabilities.CodeIsolationUnavailable {
		return capabilities.Errorf(d.Code, "the device's owner does not accept it: %s", d.Reason)
	}
	return capabilities.Errorf(capabilities.CodeDeniedByNode, "the device's owner: %s", d.Reason)
}

func (g *Guard) ask(ctx context.Context, t *wire.Ticket, e *policy.Sealed, request policy.Request, d policy.Decision,
	input bool) *capabilities.Error {
	if g.opts.Desk == nil {
		return capabilities.Errorf(capabilities.CodeConsentUnavailable, "the device's owner wants to be asked, and nobody can be asked here")
	}
	var shown map[string]any
	if g.opts.Shown != nil {
		shown = g.opts.Shown(t.Tool, t.Args)
	}
	deadline := time.Duration(t.DeadlineMS) * time.Millisecond
	err := g.opts.Desk.Ask(ctx, owner.Call{
		Call: t.Call, Tool: t.Tool, Principal: e.Principal, Lane: e.Lane, Args: t.Args, Shown: shown, Why: d.Reason, Risk: string(e.Risk),
		Input: input, Wait: max(deadline-answerMargin, deadline/2),
	})
	if err != nil {
		return err
	}
	// Much may have happened while the person thought.
	if err := g.stopped(t); err != nil {
		return err
	}
	request.Time = time.Now()
	if again := g.opts.Owner(request); again.Effect == policy.Deny {
		return refused(again)
	}
	return nil
}
