package dispatch

import (
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/route"
)

// decided is a routed call that policy does not deny, with the envelope that it was decided
// on. Only decide makes one, and granted for what a person's grant makes of it.
type decided struct {
	*routed
	verdict policy.Decision // Allow or Ask
	sealed  *policy.Sealed  // nil: it is unroutable, and there is no envelope for what does not run
	accepts bool            // policy accepted an isolation below the class by name
}

// decide is hop 4: the envelope is built and the decision made on it.
func (d *Dispatcher) decide(n *routed) (*decided, *capabilities.Error) {
	v := &decided{routed: n, verdict: n.judge(n.node)}
	if n.unroutable == nil {
		var err *capabilities.Error
		if v.sealed, err = n.seal(&v.verdict, grant{}); err != nil {
			return nil, err
		}
	}
	n.judged(&v.verdict)
	if v.verdict.Effect == policy.Deny {
		return nil, n.policyError(&v.verdict)
	}
	if err := v.controlled(); err != nil {
		return nil, err
	}
	if err := d.quarantined(n); err != nil {
		return nil, err
	}
	if err := d.foresee(n, n.desc, n.args.Canonical); err != nil {
		return nil, err
	}
	n.decision.Degraded = ""
	if v.sealed != nil && n.node != nil && (n.ready.Degraded != "" || !n.ready.Isolation.Meets(v.sealed.Isolation, n.desc.InSession())) {
		v.accepts, n.decision.Degraded = true, n.ready.Degraded
	}
	n.passed(capabilities.HopDecide)
	return v, nil
}

// controlled refuses a call that came by a control which its grants do not show (S1-33), and one of
// a tool that its caller did not open for itself.
func (v *decided) controlled() *capabilities.Error {
	if opened := v.req.Opened; opened != nil && !slices.Contains(opened, v.desc.Tool) {
		return capabilities.Errorf(capabilities.CodeDeniedByPolicy, "The turn that this call belongs to does not open %s.", v.desc.Tool)
	}
	for _, key := range v.req.Shown {
		if v.sealed == nil || !slices.Contains(v.sealed.Grants, key) && !slices.Contains(v.verdict.Escalated, key) {
			return capabilities.Errorf(capabilities.CodeDeniedByPolicy,
				"The control that this call came by needs %.64s, which the call is not granted.", key)
		}
	}
	return nil
}

// judge returns policy's verdict on this call on node at (nil: no node); the last one is
// remembered.
func (n *routed) judge(at *route.Node) policy.Decision {
	request := n.policyRequest(at)
	if n.last.Snapshot == "" || n.about != request.Node.ID {
		n.last, n.about = n.engine.Decide(request), request.Node.ID
	}
	return n.last
}

// policyRequest is the question to policy about this call on node at; at is nil for tools
// of the gateway.
func (n *routed) policyRequest(at *route.Node) policy.Request {
	r := n.req.Caller.policyRequest(n.desc, at)
	r.Args, r.Time, r.Taint, r.Calls = n.args.Canonical, n.began, n.taint, n.calls
	r.Raised = n.raises(n.desc.Tool, r.Node.ID)
	if n.unroutable != nil {
		// Nothing will run, so what the node offers now is not the question.
		r.Given, r.Degraded = n.engine.Profile(n.desc.Tool).On(r.Hosts).Class(), ""
	}
	return r
}

// raises is by how many levels drift raises the risk of a tool on a node (S1-05); without a node it
// raises none.
func (n *routed) raises(tool capabilities.ToolID, node capabilities.NodeID) int {
	if n.raised == nil || node == "" {
		return 0
	}
	return n.raised(tool, node)
}

// policyRequest is the question about a tool on a node before there is a call.
func (d *Dispatcher) policyRequest(caller Caller, desc *catalog.Descriptor, n *route.Node) policy.Request {
	r := caller.policyRequest(desc, n)
	r.Taint = d.taints.Of(caller.Lane, caller.Principal)
	r.Raised = d.opts.Drift.Raised(desc.Tool, r.Node.ID)
	return r
}

func (caller Caller) policyRequest(d *catalog.Descriptor, n *route.Node) policy.Request {
	r := policy.Request{
		Principal: caller.Principal, User: policy.IsUser(caller.Role), Role: caller.Role, Lane: caller.Lane,
		Tool: d.Tool, Time: time.Now(),
	}
	if n != nil {
		ready := n.Readiness[d.NodeCapability()]
		r.Node = policy.Node{ID: n.ID, Label: n.Summary.Label, Platform: n.Summary.Platform, Trust: n.Summary.Trust, Labels: n.Labels}
		r.Given, r.Degraded, r.Hosts = ready.Isolation, ready.Degraded, ready.Hosts
	}
	return r
}

// profile is that of the tool on the call's node.
func (n *routed) profile() *policy.Profile {
	return n.engine.Profile(n.desc.Tool).On(n.ownerHosts())
}

// ownerHosts are those that the node's owner named for the tool.
func (n *routed) ownerHosts() []string {
	if len(n.desc.OwnerKeys) == 0 {
		return nil
	}
	return n.ready.Hosts
}

// grant is what a person's word adds to a decision; the zero value: nobody was asked.
type grant struct {
	permit consent.Permit
	from   *policy.Sealed // the envelope before an escalation; nil: nothing was added
}

// seal builds the envelope of a verdict as of now: when the call came in, and what a person
// took to answer.
func (n *routed) seal(v *policy.Decision, g grant) (*policy.Sealed, *capabilities.Error) {
	in, refused := n.envelope(v, g)
	if refused != nil {
		return nil, refused
	}
	sealed, err := policy.BuildEnvelope(in)
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	n.sealedAs(sealed)
	n.decision.Raised = int64(in.Raised)
	return sealed, nil
}

// envelope is what the envelope of a verdict is made of.
func (n *routed) envelope(v *policy.Decision, g grant) (policy.EnvelopeInput, *capabilities.Error) {
	created := n.began.Add(n.waited)
	asked := n.policyRequest(n.node)
	in := policy.EnvelopeInput{
		Profile: n.profile(), Hosts: n.ownerHosts(), Principal: n.principal, Role: n.req.Role, Lane: n.lane,
		Requested: n.args.NodeID, Node: asked.Node, Raised: asked.Raised, ArgsDigest: n.mac[:], Policy: n.engine.SnapshotID(),
		Narrowed: n.narrowed(g.permit), Created: created, Expires: created.Add(ticketLifetime + n.args.Timeout), Taint: n.taint,
	}
	in.Withheld, in.Escalation = reductions(v, g)
	if err := n.req.inside.attenuate(&in, n.desc.Narrows()); err != nil {
		return in, err
	}
	if n.routing != nil && n.routing.Selected != "" {
		in.Selected, in.Mode = n.routing.Selected, n.routing.Mode
	}
	return in, nil
}

// reductions returns what an envelope leaves out of the declared keys, and what a person's grant
// adds to it once. Keys that only a grant adds are not there before: the first envelope stays as it
// was, and names less (S1-38).
func reductions(v *policy.Decision, g grant) (withheld []string, x *policy.Escalation) {
	if len(v.Withheld)+len(v.Escalated) == 0 {
		return nil, nil
	}
	withheld = append(slices.Clone(v.Withheld), v.Escalated...)
	if g.from == nil || len(v.Escalated) == 0 {
		return withheld, nil
	}
	return withheld, &policy.Escalation{
		Code: escalationCode(g.permit.Kind), Delta: v.Escalated, From: g.from.HashHex(), Grant: g.permit.Grant,
		Reason: "a person granted what policy allows with consent only",
	}
}

func escalationCode(k consent.Kind) policy.EscalationCode {
	switch k {
	case consent.KindCall:
		return policy.EscalatedByCall
	case consent.KindLease:
		return policy.EscalatedByLease
	}
	return policy.EscalatedBySession
}
