package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
)

// A tool that the gateway makes of other calls, a macro or a sub-agent (S3-14, S3-16), makes
// them here. Each goes through hops 2 to 11 as every call, but for 5: it has no request ID, and no
// caller but the one that it is inside of. It has its own node, decision, question and packets,
// which name its parent, and no more grants than that.

const (
	// maxNesting is how many calls that make others may be inside each other, the outermost
	// counted.
	maxNesting = 3
	// maxNested bounds the calls inside one call, at whatever depth.
	maxNested = 500
	// undoTime is how long a call that undoes another may take, beside its parent's own time.
	undoTime = time.Minute
)

// nest is where a call is: what it is inside of, from outside to inside.
type nest struct {
	above  []capabilities.ToolID // those that make calls
	parent *policy.Sealed        // the envelope of the innermost
	lane   capabilities.LaneID   // of the outermost, whose nodes are chosen by
	spent  *atomic.Int64         // calls inside the outermost
	ends   *ends                 // of the calls inside the innermost
}

// attaches returns the lane whose attached nodes count for a call in a lane.
func (n *nest) attaches(lane capabilities.LaneID) capabilities.LaneID {
	if n == nil {
		return lane
	}
	return n.lane
}

// admits refuses a tool that would lead back to itself or too deep.
func (n *nest) admits(desc *catalog.Descriptor) *capabilities.Error {
	if n == nil || !desc.TakesSteps() {
		return nil
	}
	chain := make([]string, 0, len(n.above)+1)
	for _, id := range n.above {
		chain = append(chain, string(id))
	}
	chain = append(chain, string(desc.Tool))
	refuse := func(why string) *capabilities.Error {
		return capabilities.Errorf(capabilities.CodeDeniedByPolicy, "%s: %s.", why, strings.Join(chain, ", then ")).
			WithHint("Make the calls one after the other, not inside each other.")
	}
	switch {
	case slices.Contains(n.above, desc.Tool):
		return refuse("The tool would call itself")
	case len(n.above) >= maxNesting:
		return refuse(fmt.Sprintf("Calls that make other calls are at most %d deep", maxNesting))
	}
	return nil
}

// attenuate leaves in the envelope of a call no key that its parent's grants have not, and has
// it reach no host that they do not; narrows begins the keys that confine the tool to hosts.
func (n *nest) attenuate(in *policy.EnvelopeInput, narrows string) *capabilities.Error {
	if n == nil {
		return nil
	}
	granted := n.parent.Grants
	refuse := func(what string) *capabilities.Error {
		return capabilities.Errorf(capabilities.CodeDeniedByPolicy, "%s needs %s, which the call that it is inside of was not granted.",
			in.Profile.Tool, what).
			WithHint("A call inside another has at most its grants.")
	}
	if x := in.Escalation; x != nil {
		for _, key := range x.Delta {
			if !slices.Contains(granted, key) {
				return refuse(key)
			}
		}
	}
	for _, key := range in.Profile.Keys {
		switch {
		case slices.Contains(granted, key) || slices.Contains(in.Withheld, key):
		case slices.Contains(in.Profile.Optional, key):
			in.Withheld = append(in.Withheld, key)
		default:
			return refuse(key)
		}
	}
	if limited := keysOf(granted, capabilities.NarrowDomains); len(limited) > 0 {
		in.Hosts = slices.DeleteFunc(slices.Clone(in.Hosts),
			func(h string) bool { return !slices.Contains(limited, capabilities.NarrowDomains+h) })
	}
	if narrows == "" {
		return nil
	}
	hosts := keysOf(granted, narrows)
	switch {
	case len(hosts) == 0:
	case len(in.Narrowed) == 0:
		in.Narrowed = hosts
	default:
		in.Narrowed = slices.DeleteFunc(slices.Clone(in.Narrowed), func(key string) bool { return !slices.Contains(hosts, key) })
		if len(in.Narrowed) == 0 {
			return refuse("other hosts")
		}
	}
	return nil
}

// keysOf returns the keys that begin so.
func keysOf(grants []string, begin string) []string {
	return slices.DeleteFunc(slices.Clone(grants), func(key string) bool { return !strings.HasPrefix(key, begin) })
}

// composition is a call that makes others.
type composition struct {
	d     *Dispatcher
	o     *order
	nest  *nest
	began time.Time
	step  atomic.Uint32
}

// compose returns what makes the calls inside o, until it is closed.
func (d *Dispatcher) compose(o *order) *composition {
	c := &composition{
		d: d, o: o, began: time.Now(),
		nest: &nest{
			above: []capabilities.ToolID{o.tool}, parent: o.sealed, lane: o.lane, spent: new(atomic.Int64), ends: &ends{d: d, parent: o.id},
		},
	}
	if up := o.req.inside; up != nil {
		c.nest.above, c.nest.lane, c.nest.spent = append(slices.Clone(up.above), o.tool), up.lane, up.spent
	}
	return c
}

// close makes durable how the calls ended.
func (c *composition) close() { c.nest.ends.close() }

// call makes one call, and returns when it has ended.
func (c *composition) call(ctx context.Context, n registry.Nested) (result capabilities.Result) {
	d, p := c.d, c.o
	r := Request{Caller: p.req.Caller, Tool: n.Tool, Args: n.Args, Surface: p.req.Surface, Token: p.req.Token, Opened: n.Opened,
		inside: c.nest, Trace: p.traced.onward()}
	if n.Lane != "" { // its leases are not its parent's; the nodes that those are attached to are
		r.Lane = n.Lane
	}
	r.Self = "" // nobody does with their hands what a composition does
	t := newTrail(&r, time.Now())
	t.parent, t.own, t.request.Step = p.id, true, c.step.Add(1)
	if err := d.turnedAway(r.Principal, r.Tool, t.began); err != nil {
		return t.failure(err)
	}
	d.enters(t)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := execution.New(cancel)
	defer d.running.Start(x, t.id, r.asker())()
	defer d.runSafely(t, func(err *capabilities.Error) { result = d.refuse(ctx, t, err) })
	waits, stop := d.whileRunning(ctx)
	defer stop()
	var held holds
	defer held.release()
	commit, err := c.admit(waits, t, r, n, x, &held)
	if err != nil {
		return d.refuse(ctx, t, because(waits, err))
	}
	return d.carryOut(ctx, commit, x)
}

// admit is hops 2 to 7 of a call inside another, without 5.
func (c *composition) admit(ctx context.Context, t *trail, r Request, n registry.Nested, x *execution.Execution,
	held *holds) (*committed, *capabilities.Error) {
	d := c.d
	left := c.o.args.Timeout - time.Since(c.began)
	if n.Undo {
		left = undoTime
	}
	q, err := d.resolve(ctx, t, r) // hop 2
	if err != nil {
		return nil, err
	}
	switch {
	case !c.o.desc.Takes(q.desc):
		return nil, capabilities.Errorf(capabilities.CodeUnknownTool, "%s makes no calls of %s", c.o.tool, q.desc.Tool)
	case c.nest.spent.Add(1) > maxNested:
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "one call makes at most %d calls inside it", maxNested)
	case ctx.Err() != nil:
		return nil, because(ctx, &capabilities.Error{Code: capabilities.CodeCancelled})
	case left <= 0:
		return nil, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	}
	q.args.Timeout = min(q.args.Timeout, left)
	if q.args.Purpose == "" {
		q.args.Purpose = c.o.args.Purpose
	}
	q.request.TimeoutMS = q.args.Timeout.Milliseconds()
	at, err := d.place(ctx, q) // hop 3
	if err != nil {
		return nil, err
	}
	if err := c.standing(at.engine); err != nil { // one that undoes has no more right to be made
		return nil, err
	}
	v, err := d.decide(at) // hop 4
	if err != nil {
		return nil, err
	}
	within := func() time.Duration {
		if n.Undo {
			return undoTime / 2
		}
		left := c.o.args.Timeout - time.Since(c.began)
		return max(left-stepMargin, left/2)
	}
	p, err := d.permit(ctx, v, x, within, held) // hop 6
	if err != nil {
		return nil, err
	}
	return c.nest.ends.commit(ctx, p) // hop 7
}

// standing refuses the calls inside one that would not be allowed any more.
func (c *composition) standing(now *policy.Engine) *capabilities.Error {
	return (&steps{d: c.d, parent: c.o}).standing(now)
}

// foresee decides on the calls that a composed tool is going to make with args, as far as they
// are known: what denies one of them denies n as a whole, before anything of it is carried out.
// Where the arguments are not known yet, policy takes them for as favourable as they can be.
func (d *Dispatcher) foresee(n *routed, desc *catalog.Descriptor, args []byte) *capabilities.Error {
	left := maxNested
	return d.foreseeInside(n, desc, args, 1, &left)
}

// foreseeInside is foresee at a depth. left is how many calls it may still look at.
func (d *Dispatcher) foreseeInside(n *routed, desc *catalog.Descriptor, args []byte, depth int, left *int) *capabilities.Error {
	if !desc.Composes() || depth > maxNesting {
		return nil
	}
	p, _ := d.opts.Registry.Provider(desc.Tool)
	planner, ok := p.(registry.Planner)
	if !ok {
		return nil
	}
	roster := d.opts.Nodes.Snapshot()
	for _, one := range planner.Plan(args) {
		if *left--; *left < 0 {
			return capabilities.Errorf(capabilities.CodeOverloaded, "one call makes at most %d calls inside it", maxNested)
		}
		err, denied := d.foreseen(n, &one, roster, depth, left)
		if err == nil || one.Maybe && denied == nil { // what is in the way may be gone by then, or the call not come
			continue
		}
		if denied != nil {
			n.judged(denied)
			n.denied = true
		}
		out := *err
		out.Message = fmt.Sprintf("Nothing of it was carried out, because of its step %s (%s): %s", one.Name, one.Tool, err.PublicMessage())
		out.Hint, out.Action = err.PublicHint(), err.PublicAction()
		return &out
	}
	return nil
}

// foreseen decides on one of them; denied is policy's verdict, where that is what refuses it.
func (d *Dispatcher) foreseen(n *routed, one *registry.Planned, roster []route.Node, depth int,
	left *int) (_ *capabilities.Error, denied *policy.Decision) {
	desc, ok := d.opts.Registry.Get(one.Tool)
	if !ok || !desc.ModelFacing || !d.delivers(n.principal, desc) {
		return capabilities.Errorf(capabilities.CodeUnknownTool, "there is no tool %.128q", one.Tool), nil
	}
	args := catalog.Args{NodeID: one.Node}
	if one.Args != nil {
		known, violations, err := desc.SplitArgs(one.Args)
		if err != nil {
			return capabilities.AsError(err), nil
		}
		if len(violations) > 0 {
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "%s", firstViolation(violations)).WithDetails(violations), nil
		}
		args = known
	}
	judge := func(at *route.Node) policy.Decision {
		r := n.req.Caller.policyRequest(desc, at)
		r.Args, r.Time, r.Taint = args.Canonical, n.began, n.taint
		r.Raised = n.raises(desc.Tool, r.Node.ID)
		if one.Args == nil {
			return n.engine.Possible(r)
		}
		return n.engine.Decide(r)
	}
	refuse := func(v *policy.Decision) (*capabilities.Error, *policy.Decision) {
		e := capabilities.Errorf(v.Code, "%s", v.Reason)
		if n.req.Caller.readsPolicy(n.engine) {
			return e.WithAction(capabilities.Action{Key: capabilities.ActionExplainPolicy, Tool: desc.Tool},
				"A rule is in the way, or none permits it."), v
		}
		return e, v
	}
	capability := desc.NodeCapability()
	if capability == "" {
		if v := judge(nil); v.Effect == policy.Deny {
			return refuse(&v)
		}
	} else {
		var last policy.Decision
		permitted := false
		_, err := route.Select(route.Input{
			Requested: args.NodeID, Attached: d.opts.Lanes.Attached(n.lane), Capability: capability, Implicit: desc.Routing.Implicit,
			Hosts: d.opts.Registry.Now().Hosts(desc.Provider), Nodes: roster,
			PolicyDenied: func(id capabilities.NodeID) bool {
				v := judge(nodeByID(roster, id))
				if v.Effect != policy.Deny {
					permitted = true
					return false
				}
				last = v
				return true
			},
		})
		switch {
		case err != nil && last.Snapshot != "" && !permitted:
			return refuse(&last)
		case err != nil:
			return err, nil
		}
	}
	if one.Args == nil {
		return nil, nil
	}
	err := d.foreseeInside(n, desc, args.Canonical, depth+1, left)
	if err != nil && err.Code.Info().Status == capabilities.StatusDenied {
		return err, &n.last
	}
	return err, nil
}

// halfDone is how a call ended that made others when the gateway ended: nobody carries on with
// it. It says what its calls were, as far as they are recorded.
func (d *Dispatcher) halfDone(row opencalls.Call, desc *catalog.Descriptor) *capabilities.Error {
	e := &capabilities.Error{Code: capabilities.CodeUnknownOutcome}
	if desc == nil || !desc.Composes() {
		return e
	}
	steps := d.takenBy(context.Background(), row.ID)
	done := 0
	for _, s := range steps {
		if s.Status == capabilities.StatusOK {
			done++
		}
	}
	return capabilities.Errorf(capabilities.CodeUnknownOutcome,
		"The gateway ended while the call ran. %d of its calls had ended well; it was not carried on with, and nothing was undone.", done).
		WithHint("Details say which calls it had made. Look at what they did before calling it again: it begins with its first step.").
		WithDetails(map[string]any{"steps": steps})
}

// nestedCall is one call inside another, as the ledger knows it.
type nestedCall struct {
	Step   uint32              `json:"step"`
	Tool   capabilities.ToolID `json:"tool_id"`
	Call   capabilities.CallID `json:"call_id"`
	Status capabilities.Status `json:"status,omitempty"` // empty: it was not known yet
	Code   capabilities.Code   `json:"code,omitempty"`
}

// takenBy reads the calls inside a call from the ledger, in their order.
func (d *Dispatcher) takenBy(ctx context.Context, parent capabilities.CallID) []nestedCall {
	list := []nestedCall{}
	first, err := d.opts.Ledger.Packets(ctx, ledger.Query{Call: parent, Limit: 1})
	if err != nil || len(first) == 0 {
		return list
	}
	after := first[0].Seq
	for {
		packets, err := d.opts.Ledger.Packets(ctx, ledger.Query{Parent: parent, After: after, Kind: "tool.call.", Limit: 1000})
		if err != nil || len(packets) == 0 {
			return list
		}
		for _, p := range packets {
			after = p.Seq
			i := slices.IndexFunc(list, func(n nestedCall) bool { return n.Call == p.Call })
			switch {
			case p.Kind == ledger.KindCallRequest && i < 0 && len(list) < maxNested:
				var body packet.Request
				_ = json.Unmarshal(p.Body, &body)
				list = append(list, nestedCall{Step: body.Step, Tool: p.Tool, Call: p.Call})
			case p.Kind.Terminal() && i >= 0:
				var body packet.End
				_ = json.Unmarshal(p.Body, &body)
				list[i].Status, list[i].Code = body.Status, body.Code
			}
		}
	}
}
