package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
)

// question is what a person is asked about this call (S0-25: it stands on the
// tool's ID; S0-30: nothing of the arguments but what may be recorded).
func (v *decided) question() consent.Ask {
	ask := v.questionOf(v.policyRequest(v.node).Node)
	if v.isStep() {
		// Its parent cannot come back for an answer: it is within its time, or not at all.
		ask.Quick, ask.Defer, ask.Kept, ask.Self = false, 0, 0, "" // what a script does nobody does with their hands
	}
	return ask
}

func (v *decided) questionOf(node policy.Node) consent.Ask {
	profile := v.profile()
	advice := v.engine.Advice(v.verdict.Determining, profile.Asks)
	kept := v.req.Keep
	if advice.User && v.req.Elicits { // the person at the client answers it, and first
		kept = 0
	}
	return consent.Ask{
		Call: v.id, Principal: v.req.Principal, Role: v.req.Role, Tool: v.desc.Tool, Title: v.desc.Title, Node: node.ID, NodeLabel: node.Label,
		Lane: v.req.Lane, Args: v.args.Canonical, Evidence: v.shown(v.desc.EvidenceArgs(v.args.Canonical)), Risk: string(risk(v.desc, profile).
			Raise(v.raises(v.desc.Tool, node.ID))),
		Snapshot: v.engine.SnapshotID(), Policies: v.verdict.Determining, Why: advice.Why, User: advice.User, Quick: advice.User && v.req.Elicits,
		Defer: advice.Defer, Kept: kept, Task: v.req.Task, Token: v.req.Token,
		Purpose: v.args.Purpose, Self: v.req.Self, Keys: v.keysWithYes(profile),
		Escalated: v.verdict.Escalated, Envelope: v.sealed.Summary(), Always: profile.Asks, Forbidden: advice.Forbids,
		Reach: reach(v.desc, v.args.Canonical), Hosts: v.hosts(), Longest: longest(v.desc.Consent, profile),
	}
}

// hosts are those that the node's owner lets the call reach, with a yes.
func (v *decided) hosts() []string {
	if slices.Contains(v.verdict.Withheld, capabilities.KeyEgress) {
		return nil
	}
	return v.ownerHosts()
}

// risk is what a person is told of a call: where a tool only looks at what the person at
// the device sees, it is less than what moves their mouse and types.
func risk(d *catalog.Descriptor, p *policy.Profile) policy.Risk {
	if d.OnDesk() && d.Annotations.ReadOnly && p.Risk == policy.RiskHigh {
		return policy.RiskMedium
	}
	return p.Risk
}

// meets finds out what a person is told of v beyond its arguments: the picture that it
// points into, if the gateway has it.
func (d *Dispatcher) meets(v *decided) func(context.Context) (*consent.Where, []byte) {
	node, args := v.trail.node, v.args.Canonical
	if node == "" {
		return nil
	}
	ask := wire.SceneAsk{Tool: v.desc.Tool, Capability: v.desc.Capability, Lane: v.lane, Args: args, Principal: v.principal, Role: v.req.Role}
	return func(ctx context.Context) (*consent.Where, []byte) {
		var picture []byte
		if id := consent.Quotes(args); id != "" {
			picture = d.frames.Get(node, id, time.Now())
		}
		if ask.Capability == "" || len(args) > wire.MaxSceneArgs {
			return nil, picture
		}
		s, err := d.opts.Nodes.Scene(ctx, node, ask)
		if err != nil || s.Empty() {
			return nil, picture
		}
		w := &consent.Where{
			App: s.App, Window: s.Window, Field: s.Field, Role: s.Role, Address: s.Address, Password: s.Password,
			Terminal: consent.IsTerminal(s.App),
		}
		for _, e := range s.Elements {
			w.Named = append(w.Named, consent.Named(e))
		}
		return w, picture
	}
}

// Permits is policy's word on a caller's use of a tool on a node, whatever its arguments.
func (d *Dispatcher) Permits(caller Caller, tool capabilities.ToolID, node capabilities.NodeID) policy.Effect {
	desc, ok := d.opts.Registry.Get(tool)
	n := nodeByID(d.opts.Nodes.Snapshot(), node)
	if !ok || n == nil {
		return policy.Deny
	}
	r := d.policyRequest(caller, desc, n)
	engine := d.opts.Policy()
	r.Given, r.Degraded = engine.Profile(tool).On(r.Hosts).Class(), "" // nothing will run, so what the node gives is not the question
	return engine.Possible(r).Effect
}

// keysWithYes are the keys that the call has if the answer is yes: all but those
// that policy withholds whatever a person says.
func (v *decided) keysWithYes(profile *policy.Profile) []string {
	return slices.DeleteFunc(slices.Clone(profile.Keys), func(k string) bool { return slices.Contains(v.verdict.Withheld, k) })
}

// longest is the longest that a person may grant a tool for: what its descriptor
// says, and "always" only where that is a session and nothing privileged (S2-34).
func longest(class catalog.Consent, p *policy.Profile) consent.Kind {
	switch class {
	case catalog.ConsentSession:
		if p.Privileged {
			return consent.KindSession
		}
		return consent.KindAlways
	case catalog.ConsentLease:
		return consent.KindLease
	}
	return consent.KindCall
}

// reach reads what a call's arguments reach, as its descriptor says. It looks at the whole
// arguments, not at the shortened form for the ledger.
func reach(d *catalog.Descriptor, args []byte) consent.Reach {
	var r consent.Reach
	for _, what := range d.Reaches(args) {
		switch what.Kind {
		case catalog.ReachAddress:
			r.Hosts = append(r.Hosts, policy.ClassifyURL(what.Text).Host)
		case catalog.ReachApp:
			r.Apps = append(r.Apps, what.Text)
		case catalog.ReachPath:
			r.Paths = append(r.Paths, what.Text)
		}
	}
	// A tool that works in pages which are open names no address.
	r.Confined = len(r.Hosts) == 0 && d.Narrows() != ""
	return r
}

// narrowed is what the scope of a person's grant leaves of the network, for tools that an
// envelope can confine to hosts (docs/decisions/025-grants-narrow-lanes.md).
func (n *routed) narrowed(permit consent.Permit) []string {
	narrows := n.desc.Narrows()
	if narrows == "" {
		return nil
	}
	var keys []string
	for _, d := range permit.Domains {
		keys = append(keys, narrows+d)
	}
	return keys
}
