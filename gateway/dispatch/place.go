package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/route"
)

// routed is a resolved call with its node, which is nil for a tool of the gateway. Only
// place makes one, and steps.place for a step.
type routed struct {
	*resolved
	engine *policy.Engine // the policy of this moment
	taint  []string       // what its lane and its caller have read
	node   *route.Node
	ready  capabilities.Readiness // of the capability on node
	// unroutable: no node can take it now. It may only meet the earlier call of its request
	// ID, which went to node.
	unroutable *capabilities.Error

	calls policy.Calls // of the tool by the principal, before this one
	quota *quota       // they come from; nil: nobody counts

	// raised is by how many levels drift raises the risk of a tool on a node; nil: by none.
	raised func(capabilities.ToolID, capabilities.NodeID) int

	last  policy.Decision     // the last answer of policy about this call
	about capabilities.NodeID // the node that it is about
}

// place is hop 3: the node. Policy takes part with the real arguments, so that a node on
// which this very call is denied is no candidate (S0-14).
func (d *Dispatcher) place(ctx context.Context, q *resolved) (*routed, *capabilities.Error) {
	n := &routed{resolved: q, engine: d.opts.Policy(), taint: d.taints.Of(q.lane, q.principal), raised: d.opts.Drift.Raised, quota: &d.quota}
	q.looksAt(n.engine, n.taint)
	var limits *capabilities.Error
	if n.calls, limits = d.lately(ctx, n.engine, q); limits != nil {
		return nil, limits
	}
	capability := q.desc.NodeCapability()
	if capability == "" {
		q.staysHere()
		q.passed(capabilities.HopPlace)
		return n, nil
	}
	for {
		changed := d.opts.Nodes.Changed()
		roster := d.opts.Nodes.Snapshot()
		in := route.Input{
			Requested: q.args.NodeID, Attached: d.opts.Lanes.Attached(q.req.inside.attaches(q.lane)), Capability: capability,
			Implicit: q.desc.Routing.Implicit, Hosts: d.opts.Nodes.Order(d.opts.Registry.Now().Hosts(q.desc.Provider)), Nodes: roster,
			PolicyDenied: func(id capabilities.NodeID) bool { return n.judge(nodeByID(roster, id)).Effect == policy.Deny },
		}
		selection, err := route.Select(in)
		if err != nil && slices.Contains(q.desc.Routing.Implicit, capabilities.SelectHost) {
			// The host of a provider is no choice of a node: what policy denies there is refused by
			// the decision, as a tool without a node is.
			if _, byPolicy := n.placeError(err); byPolicy {
				in.PolicyDenied = func(capabilities.NodeID) bool { return false }
				if at, none := route.Select(in); none == nil {
					selection, err = at, nil
				}
			}
		}
		if err == nil {
			n.node = nodeByID(roster, selection.Node)
			n.ready = n.node.Readiness[capability]
			q.goesTo(n.node, n.ready, selection.Routing(q.args.NodeID))
			q.decision.Runner = n.runner(d.opts.Program).Fingerprint()
			q.passed(capabilities.HopPlace)
			return n, nil
		}
		refusal, byPolicy := n.placeError(err)
		if byPolicy {
			if limits := n.limited(n.policyRequest(nodeByID(roster, n.about)), policy.Ask); limits != nil {
				refusal = limits
			}
		}
		if at := d.earlier(ctx, q, roster); at != nil && !byPolicy {
			n.node, n.unroutable = at, refusal
			q.goesTo(at, capabilities.Readiness{}, nil)
			q.passed(capabilities.HopPlace)
			return n, nil
		}
		if !route.Away(err) || !d.mayComeBack(ctx, q, changed) {
			if byPolicy {
				q.denied = true
				q.judged(&n.last)
			}
			return nil, refusal
		}
	}
}

// A gateway that has just started waits for its nodes before it says that they are
// away: they come back within moments.
const (
	justStarted = 5 * time.Second
	comeBack    = time.Second
)

// mayComeBack waits for a change of the roster, for as long as q may wait for nodes
// that a start has cut off. False: it may not, or not any longer.
func (d *Dispatcher) mayComeBack(ctx context.Context, q *resolved, changed <-chan struct{}) bool {
	if !d.opts.AwaitNodes || q.began.Sub(d.served) > justStarted {
		return false
	}
	wait := time.NewTimer(time.Until(q.began.Add(comeBack)))
	defer wait.Stop()
	select {
	case <-changed:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// earlier returns the node that a call of q's request ID went to. A retry is about that
// call: that its node is away now, or that another came beside it, must not hide what became
// of it. nil when there was none, or when the node was put out since.
func (d *Dispatcher) earlier(ctx context.Context, q *resolved, roster []route.Node) *route.Node {
	if q.req.RequestID == "" {
		return nil
	}
	var id capabilities.NodeID
	if runs := d.executions.Get(execution.Key{Asker: q.asker(), Request: q.req.RequestID}); runs != nil {
		id = runs.Node
	} else {
		c, found, err := d.open.Find(ctx, q.principal, q.asker().Person, q.req.RequestID)
		if err != nil || !found {
			return nil
		}
		id = c.Node
	}
	n := nodeByID(roster, id)
	if n == nil {
		return nil
	}
	switch route.Check(n, q.desc.NodeCapability(), nil).Code {
	case "", capabilities.CodeNodeNotReady, capabilities.CodeCapabilityNotAdvertised:
		return n
	}
	return nil
}

func nodeByID(roster []route.Node, id capabilities.NodeID) *route.Node {
	for i := range roster {
		if roster[i].ID == id {
			return &roster[i]
		}
	}
	return nil
}
