package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Coverage is what covers a call before it is made: a rule that permits it without a question, or a
// live grant (S2-27, S2-28).
type Coverage struct {
	Effect policy.Effect // Allow: Rules or Grant cover it; Ask: nothing does; Deny: see Refused
	Rules  []string      // those that permit it
	Grant  *consent.Grant
	Node   capabilities.NodeID
	Label  string // the node's
	// Longest is the longest that a person could permit it for; Reachable says whether they can be
	// asked.
	Longest   consent.Kind
	Reachable bool
	Refused   *capabilities.Error
}

// Covered finds out what covers a call, by the judgement that the call itself will meet. Without
// arguments it is about every call of the tool, and what arguments decide is taken as favourable.
// Nothing is carried out, used up or recorded.
func (d *Dispatcher) Covered(ctx context.Context, r Request) Coverage {
	if len(r.Args) == 0 {
		return d.coveredAhead(r)
	}
	t := newTrail(&r, time.Now())
	q, err := d.resolve(ctx, t, r)
	if err != nil {
		return Coverage{Refused: err}
	}
	n, err := d.place(ctx, q)
	if err != nil {
		return Coverage{Refused: err}
	}
	v, err := d.decide(n)
	if err != nil {
		return Coverage{Refused: err}
	}
	ask := v.question()
	return d.covers(&v.verdict, &ask)
}

// checked tells a caller who wants to know it what covers the call, and refuses one that nothing
// does (S2-27, S2-28). The decision's packet names it before anything is carried out.
func (d *Dispatcher) checked(v *decided) *capabilities.Error {
	if v.req.Checked == nil {
		return nil
	}
	ask := v.question()
	c := d.covers(&v.verdict, &ask)
	v.req.Checked(c)
	if c.Effect == policy.Allow {
		return nil
	}
	return v.unasked(capabilities.Errorf(capabilities.CodeConsentUnavailable,
		"No live grant and no rule covers this call, so it was not made."))
}

// coveredAhead is Covered before there are arguments.
func (d *Dispatcher) coveredAhead(r Request) Coverage {
	engine, roster := d.opts.Policy(), d.opts.Nodes.Snapshot()
	desc, ok := d.opts.Registry.Get(r.Tool)
	if !ok {
		return Coverage{Refused: d.unknown(&r)}
	}
	l := d.list(engine, r.Caller, roster)
	if effect, _ := l.usable(desc, roster, 1); effect == policy.Deny {
		return Coverage{Refused: d.unknown(&r)} // it is in no list of the caller's either
	}
	var node *route.Node
	if capability := desc.NodeCapability(); capability != "" {
		selection, err := route.Select(route.Input{
			Attached: d.opts.Lanes.Attached(r.Lane), Capability: capability, Implicit: desc.Routing.Implicit,
			Hosts: d.opts.Nodes.Order(d.opts.Registry.Now().Hosts(desc.Provider)), Nodes: roster,
			PolicyDenied: func(id capabilities.NodeID) bool { return l.possible(desc, nodeByID(roster, id)).Effect == policy.Deny },
		})
		if err != nil {
			return Coverage{Refused: capabilities.AsError(err)}
		}
		node = nodeByID(roster, selection.Node)
	}
	verdict := l.possible(desc, node)
	profile := engine.Profile(desc.Tool)
	ask := consent.Ask{
		Principal: r.Principal, Role: r.Role, Tool: desc.Tool, Lane: r.Lane, Snapshot: engine.SnapshotID(),
		Longest: longest(desc.Consent, profile),
	}
	if node != nil {
		ask.Node, ask.NodeLabel = node.ID, node.Summary.Label
		if len(desc.OwnerKeys) > 0 && !slices.Contains(verdict.Withheld, capabilities.KeyEgress) {
			ask.Hosts = node.Readiness[desc.NodeCapability()].Hosts
		}
	}
	return d.covers(&verdict, &ask)
}

// covers is what covers a question of this verdict.
func (d *Dispatcher) covers(verdict *policy.Decision, ask *consent.Ask) Coverage {
	c := Coverage{Effect: verdict.Effect, Node: ask.Node, Label: ask.NodeLabel, Longest: ask.Longest}
	switch {
	case verdict.Effect == policy.Allow:
		c.Rules = verdict.Determining
	case verdict.Effect == policy.Ask && d.opts.Consent != nil:
		var grant consent.Grant
		if grant, c.Reachable = d.opts.Consent.Covering(ask); grant.ID != "" {
			c.Effect, c.Grant = policy.Allow, &grant
		}
	}
	return c
}
