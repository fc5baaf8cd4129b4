package dispatch

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/route"
)

// trail is what will be recorded of a call, as far as it has come. Every phase holds it and
// adds what it found, by the methods of this file; refuse and commit write it down. Nothing
// that a call may do is decided by it.
type trail struct {
	id        capabilities.CallID
	parent    capabilities.CallID // of a step
	principal capabilities.PrincipalID
	lane      capabilities.LaneID
	tool      capabilities.ToolID
	known     bool // the tool is in the registry, so its name may be a label
	own       bool // the gateway waits for it, not its caller: a step, or a deferred call
	node      capabilities.NodeID
	began     time.Time
	waited    time.Duration // for people
	hops      hopTimes
	traced    traced

	request  packet.Request
	decision packet.Decision
	first    *packet.Decision // before an escalation; nil: there was none
	routing  *capabilities.Routing
	sealed   *policy.Sealed
	denied   bool    // no node is left only because policy denies this call
	wanted   *wanted // nil: of a call of an earlier process
	// brokered is what the broker of secrets saw: what it was asked for and gave out, or did not.
	brokered []wire.Observation
}

func newTrail(r *Request, now time.Time) *trail {
	return &trail{
		id: opencalls.NewID(now), principal: r.Principal, lane: r.Lane, tool: r.Tool, own: r.Task != "", began: now,
		request:  packet.Request{Surface: r.Surface, RequestID: r.RequestID, ReplayOf: r.ReplayOf},
		decision: packet.Decision{Role: r.Role}, wanted: &wanted{}, traced: traced{came: r.Came, caller: r.Trace},
	}
}

// trailOf is the trail of an open call of which only its row is left.
func trailOf(c *opencalls.Call) *trail {
	return &trail{
		id: c.ID, parent: c.Parent, principal: c.Principal, lane: c.Lane, tool: c.Tool, node: c.Node, began: c.Created,
		request: packet.Request{RequestID: c.Request},
	}
}

// asks notes the arguments that were found to fit, with their keyed digest in hex.
func (t *trail) asks(desc *catalog.Descriptor, args *catalog.Args, digest string) {
	t.request.Requested, t.request.TimeoutMS = args.NodeID, args.Timeout.Milliseconds()
	t.request.Digest, t.request.Evidence = digest, desc.EvidenceArgs(args.Canonical)
}

// looksAt notes what policy looks at beside the envelope, so that the decision can be made
// again later under another policy.
func (t *trail) looksAt(engine *policy.Engine, taint []string) {
	t.decision.Snapshot, t.decision.Taint = engine.SnapshotID(), taint
}

// goesTo notes the node.
func (t *trail) goesTo(n *route.Node, ready capabilities.Readiness, routing *capabilities.Routing) {
	t.node, t.routing = n.ID, routing
	t.decision.Given, t.decision.Hosts, t.decision.Labels, t.decision.Routing = ready.Isolation, ready.Hosts, n.Labels, routing
}

// staysHere notes that no node is needed: a result says where a call went whatever its layer is.
func (t *trail) staysHere() {
	t.routing = &capabilities.Routing{Mode: capabilities.SelectGateway}
	t.decision.Routing = t.routing
}

// judged notes the verdict that the call stands or falls by.
func (t *trail) judged(v *policy.Decision) {
	t.traced.judged(v)
	t.decision.Policies, t.decision.LogOnly, t.decision.Errors, t.decision.Withheld = v.Determining, v.LogOnly, v.Errors, v.Withheld
}

// sealedAs notes the envelope.
func (t *trail) sealedAs(s *policy.Sealed) {
	t.sealed = s
	t.decision.EnvelopeHash, t.decision.Envelope, t.decision.Snapshot = s.HashHex(), s.Bytes, s.Snapshot
}

// escalated keeps the decision before an escalation: both are recorded, each with its own
// envelope.
func (t *trail) escalated(asked *policy.Decision) {
	first := t.decision
	first.Effect, first.Withheld, first.Degraded = asked.Effect, nil, ""
	t.first = &first
}

// draft encodes the body here, so that the one writer does not spend its time on it.
func (t *trail) draft(kind ledger.Kind, b packet.Body) ledger.Draft {
	if u, ok := b.(interface{ SetParent(capabilities.CallID) }); ok {
		u.SetParent(t.parent)
	}
	d := ledger.Draft{Kind: kind, Call: t.id, Tool: t.tool, Principal: t.principal, Lane: t.lane, Node: t.node, Body: b}
	if body, err := ledger.Encode(b); err == nil {
		d.Body = body // else the commit fails by it
	}
	return d
}

func (t *trail) requestDraft() ledger.Draft {
	body := t.request
	return t.draft(ledger.KindCallRequest, &body)
}

// decisionDraft is the decision, with that effect and code.
func (t *trail) decisionDraft(effect policy.Effect, code capabilities.Code) ledger.Draft {
	body := t.decision
	body.Effect, body.Code = effect, code
	if t.denied && effect == policy.Deny && code != capabilities.CodeDeniedByPolicy {
		body.Reason = string(capabilities.CodeDeniedByPolicy)
	}
	return t.draft(ledger.KindCallDecision, &body)
}

// decisionDrafts are the decisions of a call that goes on: two where a grant added something.
func (t *trail) decisionDrafts(effect policy.Effect) (all []ledger.Draft) {
	if t.first != nil {
		first := *t.first
		all = append(all, t.draft(ledger.KindCallDecision, &first))
	}
	return append(all, t.decisionDraft(effect, ""))
}

// result starts a result of this call.
func (t *trail) result(status capabilities.Status) capabilities.Result {
	took := time.Since(t.began)
	r := capabilities.Result{
		Call: t.id, Tool: t.tool, Status: status, Routing: t.routing,
		Duration: took, DurationMS: float64(took.Microseconds()) / 1000,
	}
	if t.sealed != nil {
		r.EnvelopeHash = t.sealed.HashHex()
	}
	return r
}

// failure makes the result that carries an error.
func (t *trail) failure(e *capabilities.Error) capabilities.Result {
	status := e.Code.Info().Status
	if t.denied {
		status = capabilities.StatusDenied // whatever the code of the selection is
	}
	r := t.result(status)
	r.Code, r.Message, r.Hint, r.Action = e.Code, e.PublicMessage(), e.PublicHint(), e.PublicAction()
	r.Retryable, r.Details = e.Retryable(), e.Details
	return r
}

// Failed makes the result of a call that never came to the pipeline.
func Failed(tool capabilities.ToolID, call capabilities.CallID, e *capabilities.Error) capabilities.Result {
	return (&trail{id: call, tool: tool, began: time.Now()}).failure(e)
}
