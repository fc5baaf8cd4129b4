package dispatch

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Bounds of what a caller names.
const (
	maxLane      = 128 // as of gateway/lane
	maxRequestID = 128
)

// resolve is hop 2: the tool, the arguments against its schema, their digest.
// Governance is never reached with arguments that do not fit (S4-41).
func (d *Dispatcher) resolve(c *call) *capabilities.Error {
	if err := capabilities.ValidateName("lane", string(c.req.Lane), maxLane); err != nil {
		return capabilities.AsError(err)
	}
	if c.req.RequestID != "" {
		if err := capabilities.ValidateName("request_id", string(c.req.RequestID), maxRequestID); err != nil {
			c.req.RequestID = "" // not fit to be recorded either
			return capabilities.AsError(err)
		}
	}
	desc, ok := d.opts.Registry.Get(c.req.Tool)
	if !ok || !desc.ModelFacing && !c.req.Inside || !d.delivers(c.req.Principal, desc) {
		asked := c.req.Tool
		if asked.Validate() != nil {
			c.req.Tool = "" // not fit to be recorded
		}
		return capabilities.Errorf(capabilities.CodeUnknownTool, "there is no tool %.128q", asked)
	}
	c.d = desc
	args, violations, err := desc.SplitArgs(c.req.Args)
	if err != nil {
		return capabilities.AsError(err)
	}
	if len(violations) > 0 {
		return (&capabilities.Error{Code: capabilities.CodeInvalidArguments, Message: firstViolation(violations)}).WithDetails(violations)
	}
	if err := d.named(c, &args); err != nil {
		return err
	}
	c.args = args
	if c.key, err = d.opts.Outcomes.DigestKey(c.ctx, c.id, c.began); err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	c.argsMAC = c.key.MAC(args.Canonical)
	c.digest = hex.EncodeToString(c.argsMAC[:])
	return nil
}

func firstViolation(list []catalog.Violation) string {
	text := "The arguments do not fit the tool's schema: "
	if list[0].Path != "" {
		text += list[0].Path + ": "
	}
	return text + list[0].Message + "."
}

// place is hop 3: the node. Policy takes part with the real arguments, so that a
// node on which this very call is denied is no candidate (S0-14).
func (d *Dispatcher) place(c *call) *capabilities.Error {
	c.engine, c.taint = d.opts.Policy(), d.taints.of(c.req.Caller)
	capability := c.d.NodeCapability()
	if capability == "" {
		return nil
	}
	var roster []route.Node
	var selection route.Selection
	for {
		changed := d.opts.Nodes.Changed()
		roster = d.opts.Nodes.Snapshot()
		var err *capabilities.Error
		selection, err = route.Select(route.Input{
			Requested: c.args.NodeID, Attached: d.opts.Lanes.Attached(c.req.Lane), Capability: capability,
			Implicit: c.d.Routing.Implicit, Nodes: roster,
			PolicyDenied: func(id capabilities.NodeID) bool {
				n := nodeByID(roster, id)
				c.judgeOn(n)
				return c.verdict.Effect == policy.Deny
			},
		})
		if err == nil {
			break
		}
		refusal := c.placeError(err)
		if c.node = d.earlier(c, roster); c.node != nil {
			c.astray = refusal
			return nil
		}
		if !route.Away(err) || !d.mayComeBack(c, changed) {
			return refusal
		}
	}
	c.node = nodeByID(roster, selection.Node)
	c.ready = c.node.Readiness[capability]
	c.routing = selection.Routing(c.args.NodeID)
	return nil
}

// A gateway that has just started waits for its nodes before it says that they are
// away: they come back within moments.
const (
	justStarted = 5 * time.Second
	comeBack    = time.Second
)

// mayComeBack waits for a change of the roster, for as long as c may wait for nodes
// that a start has cut off. False: it may not, or not any longer.
func (d *Dispatcher) mayComeBack(c *call, changed <-chan struct{}) bool {
	if !d.opts.AwaitNodes || c.began.Sub(d.served) > justStarted {
		return false
	}
	wait := time.NewTimer(time.Until(c.began.Add(comeBack)))
	defer wait.Stop()
	select {
	case <-changed:
		return true
	case <-wait.C:
	case <-c.ctx.Done():
	}
	return false
}

// earlier gives the node that a call of c's request ID went to. A retry is about
// that call: that its node is away now, or that another came beside it, must not
// hide what became of it. nil when there was none, when policy refused this one,
// or when the node was put out since.
func (d *Dispatcher) earlier(c *call, roster []route.Node) *route.Node {
	if c.req.RequestID == "" || c.decided {
		return nil
	}
	key := requestKey{c.req.Principal, c.req.RequestID}
	id, flying := d.flights.node(key)
	if !flying {
		r, found, err := findRow(c.ctx, d.opts.Store.Read(), key)
		if err != nil || !found {
			return nil
		}
		id = r.node
	}
	n := nodeByID(roster, id)
	if n == nil {
		return nil
	}
	switch route.Check(n, c.d.NodeCapability(), nil).Code {
	case "", capabilities.CodeNodeNotReady, capabilities.CodeCapabilityNotAdvertised:
		return n
	}
	return nil
}

// placeError makes a refusal by policy say what policy said.
func (c *call) placeError(err *capabilities.Error) *capabilities.Error {
	err = c.nameRules(err)
	denied := err.Code == capabilities.CodeNodeDeniedByPolicy
	ambiguity, _ := err.Details.(route.Ambiguity)
	// Nodes are there and ready, and every one of them is denied this call.
	onlyPolicy := ambiguity.Detail == route.DetailNone && len(ambiguity.Candidates) > 0
	for _, n := range ambiguity.Candidates {
		onlyPolicy = onlyPolicy && n.Code == capabilities.CodeNodeDeniedByPolicy
	}
	if !denied && !onlyPolicy {
		return err
	}
	c.decided, c.denied = true, true
	out := *err
	if denied {
		out.Message = "Policy denies this tool on that node: " + c.verdict.Reason
	} else if len(ambiguity.Candidates) == 1 {
		out.Message = "Policy denies this call: " + c.verdict.Reason
	} else {
		out.Message = "Policy denies this call on every node that could do it: " + c.verdict.Reason
	}
	if hint := c.ruleHint(); hint != "" {
		out.Hint = hint
	}
	if c.verdict.Code == capabilities.CodeIsolationUnavailable {
		out.Code, out.Message = capabilities.CodeIsolationUnavailable, c.verdict.Reason
	} else if hint := closedAddress(c.d, c.args.Canonical); hint != "" && len(c.verdict.Determining) == 0 {
		out.Hint = hint
	}
	return &out
}

// nameRules puts into a refused selection how to see the rules in the way, for callers
// who may see them.
func (c *call) nameRules(err *capabilities.Error) *capabilities.Error {
	if !readsPolicy(c.req.Role) {
		return err
	}
	out := *err
	switch about := err.Details.(type) {
	case route.Candidate:
		if about.Reason == capabilities.ReasonHiddenByPolicy {
			about.Fix = ruleFix(c.d.Tool, about.Node)
			out.Details, out.Hint = about, about.Fix
		}
	case route.Ambiguity:
		for i, n := range about.Candidates {
			if n.Reason == capabilities.ReasonHiddenByPolicy {
				about.Candidates[i].Fix = ruleFix(c.d.Tool, n.Node) // the list is this refusal's own
			}
		}
	}
	return &out
}

// ruleFix says how to see the rule that denies a tool on a node.
func ruleFix(tool capabilities.ToolID, node capabilities.NodeID) string {
	return "'handrail policy explain " + string(tool) + " --node " + string(node) + "' shows the rule."
}

// readsPolicy reports whether callers of a role may see the rules.
func readsPolicy(role string) bool {
	return principal.Allow(principal.Role(role), principal.ActReadPolicy)
}

// policyError is a refusal by the verdict on c.
func (c *call) policyError() *capabilities.Error {
	e := capabilities.Errorf(c.verdict.Code, "%s", c.verdict.Reason)
	e.Hint = c.ruleHint()
	return e
}

// ruleHint tells callers who may read the policy which rule denies c, and how to look
// at it: nobody is told to ask the admin who is the admin. Nothing for others.
func (c *call) ruleHint() string {
	if !readsPolicy(c.req.Role) {
		return ""
	}
	how := "'handrail policy explain " + string(c.req.Tool) + "' shows what policy looks at."
	switch rules := c.verdict.Determining; len(rules) {
	case 0:
		return "No rule permits it; " + how
	case 1:
		return "The rule is " + rules[0] + "; " + how
	default:
		return "The rules are " + strings.Join(rules[:min(len(rules), maxRulesNamed)], ", ") + "; " + how
	}
}

// unasked has the refusal of a call that nobody could be asked about name the rule that
// asks, for callers who may see it.
func (c *call) unasked(e *capabilities.Error) *capabilities.Error {
	if e.Code == capabilities.CodeConsentUnavailable && e.Hint == "" && readsPolicy(c.req.Role) {
		return e.WithHint("Permit it by policy: 'handrail policy explain " + string(c.req.Tool) + "' names the rule that asks.")
	}
	return e
}

// maxRulesNamed bounds how many rules a hint names.
const maxRulesNamed = 8

// closedAddress is what to do about an address that no shipped rule opens: one on this
// machine or in a local network, or one that is none of the web. Nothing for others.
func closedAddress(d *catalog.Descriptor, args []byte) string {
	if !slices.Contains(d.Evidence.Args, "/url") {
		return ""
	}
	root, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return ""
	}
	v, given := root.Get("url")
	to := policy.ClassifyURL(v.Str)
	switch {
	case !given:
		return ""
	case to.Scheme != "http" && to.Scheme != "https":
		return "Give an address that begins with http:// or https://; others are closed, unless a rule opens them."
	case to.Address == policy.AddressLoopback || to.Address == policy.AddressPrivate:
		return to.Origin + " is not on the internet, so it is closed until somebody opens it: start 'handrail up' with --browser-allow-origin " + to.Origin +
			" ('handrail ci' has the same flag), or see \"Opening one more origin\" in docs/policy.md."
	}
	return ""
}

func nodeByID(roster []route.Node, id capabilities.NodeID) *route.Node {
	for i := range roster {
		if roster[i].ID == id {
			return &roster[i]
		}
	}
	return nil
}

// judgeOn sets the verdict on this call on node n (nil: no node), unless the last
// verdict was on that very question.
func (c *call) judgeOn(n *route.Node) policy.Request {
	request := c.policyRequest(n)
	if c.verdict.Snapshot == "" || c.judged != request.Node.ID {
		c.verdict, c.judged = c.engine.Decide(request), request.Node.ID
	}
	return request
}

// policyRequest is the question to policy about this call on node n; n is nil for
// tools of the gateway.
func (c *call) policyRequest(n *route.Node) policy.Request {
	r := c.req.Caller.policyRequest(c.d, n)
	r.Args, r.Time, r.Taint = c.args.Canonical, c.began, c.taint
	if c.astray != nil {
		// Nothing will run, so what the node gives now is not the question.
		r.Given, r.Degraded = capabilities.ClassSession, ""
	}
	return r
}

// policyRequest is the question about a tool on a node before there is a call.
func (d *Dispatcher) policyRequest(caller Caller, desc *catalog.Descriptor, n *route.Node) policy.Request {
	r := caller.policyRequest(desc, n)
	r.Taint = d.taints.of(caller)
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
		r.Given, r.Degraded = ready.Isolation, ready.Degraded
	}
	return r
}

// roleAgent is the role of tokens that agents hold; every other role is a
// person's.
const roleAgent = policy.RoleAgent

// decide is hop 4: the envelope is built and the decision made on it.
func (d *Dispatcher) decide(c *call) *capabilities.Error {
	c.judgeOn(c.node)
	if c.astray != nil {
		// Only an earlier call can answer it, if policy still allows that one: there
		// is no envelope for what does not run.
		c.decided = true
		if c.verdict.Effect == policy.Deny {
			return c.policyError()
		}
		return nil
	}
	if err := c.seal(); err != nil {
		return err
	}
	c.decided = true
	if c.verdict.Effect == policy.Deny {
		return c.policyError()
	}
	c.accepts = c.node != nil && (c.ready.Degraded != "" || c.ready.Isolation.Rank() < c.sealed.Isolation.Rank())
	return nil
}

// seal builds the envelope as of now: began, and what a person took to answer.
func (c *call) seal() *capabilities.Error {
	created := c.began.Add(c.waited)
	in := policy.EnvelopeInput{
		Profile: c.engine.Profile(c.d.Tool), Principal: c.req.Principal, Role: c.req.Role, Lane: c.req.Lane,
		Requested: c.args.NodeID, Node: c.policyRequest(c.node).Node, ArgsDigest: c.argsMAC[:], Policy: c.engine.SnapshotID(),
		Narrowed: c.narrowed(), Created: created, Expires: created.Add(ticketLifetime + c.args.Timeout),
	}
	in.Taint = c.taint
	in.Withheld, in.Escalation = c.reductions()
	if c.routing != nil {
		in.Selected, in.Mode = c.routing.Selected, c.routing.Mode
	}
	sealed, err := policy.BuildEnvelope(in)
	if err != nil {
		return capabilities.AsError(err)
	}
	c.sealed = sealed
	return nil
}

// consent is hop 6: what policy asks about waits for a person's word. With it
// policy decides again, and the envelope is made again for what goes on; the first
// decision stays as it was.
func (d *Dispatcher) consent(ctx context.Context, c *call) *capabilities.Error {
	if c.verdict.Effect != policy.Ask {
		return nil
	}
	if d.opts.Consent == nil {
		return c.unasked(&capabilities.Error{Code: capabilities.CodeConsentUnavailable})
	}
	request := c.policyRequest(c.node)
	asked := time.Now()
	question := c.question(request.Node)
	question.Look = d.meets(c)
	question.Left = func() bool {
		select {
		case <-d.serving.Done(): // so does every call with the gateway
			return false
		default:
			return c.req.task == ""
		}
	}
	permit, err := d.opts.Consent.Await(ctx, question)
	c.waited += time.Since(asked)
	if err != nil {
		e := capabilities.AsError(err)
		if e.Code == capabilities.CodeApprovalPending {
			return d.keepTask(ctx, c, question.Defer, e)
		}
		return c.unasked(e)
	}
	request.Consented, request.Time = true, c.began.Add(c.waited)
	granted := c.engine.Decide(request)
	if granted.Effect != policy.Allow {
		d.opts.Consent.Ended(permit)
		return capabilities.Errorf(capabilities.CodeDeniedByPolicy, "%s", granted.Reason)
	}
	if len(granted.Escalated) > 0 {
		c.first, c.asked = c.sealed, c.verdict
	}
	c.verdict, c.permit = granted, permit
	return c.seal()
}
