package dispatch

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/registry"
)

const (
	// ticketLifetime is how long a ticket may lie on the node before it starts.
	ticketLifetime = 10 * time.Second
	// answerGrace is how much longer than the call itself the gateway waits for the
	// node's own word about its deadline.
	answerGrace = 5 * time.Second
)

// send is hops 8 to 10: the committed call goes to its transport, and its answer comes. It
// is the only way to one.
func (d *Dispatcher) send(ctx context.Context, c *committed, progress func(capabilities.Progress)) opencalls.End {
	o := c.Of()
	if o.node == nil {
		return d.provide(ctx, o, progress)
	}
	silent := &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	ctx, clock, cancel := capabilities.WithTimeout(ctx, o.args.Timeout+answerGrace, silent)
	defer cancel()
	o.passed(capabilities.HopSend)
	answer, blobs, err := d.transport(ctx, c, clock, progress)
	if err == nil {
		o.answered(time.Duration(answer.DurationUS) * time.Microsecond)
		return opencalls.End{Answer: answer, Blobs: blobs}
	}
	e := capabilities.AsError(err)
	// A node that stays silent past the deadline and the grace has not said that the
	// deadline passed: it may be cut off, and may have finished in time.
	if e.Code != capabilities.CodeUnknownOutcome && context.Cause(ctx) != error(silent) {
		return opencalls.End{Err: e, Cut: ctx.Err() != nil && e.Code != capabilities.CodeNodeDisconnected}
	}
	// The node may have run it: only its journal knows.
	d.opts.Log.Warn("tools.dispatch.lost", "hop", capabilities.HopSend, "call", o.id, "tool", o.tool, "node", o.node.ID, "err", err)
	told, ok := <-d.open.Await(o.row, o.began.Add(o.waited+o.args.Timeout+opencalls.SettleGrace))
	if !ok {
		return opencalls.End{Err: e, LeaveOpen: true}
	}
	return told
}

// transport has the node run c, in the way that its descriptor asks for; clock is the call's time.
func (d *Dispatcher) transport(ctx context.Context, c *committed, clock *capabilities.Timeout,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	o := c.Of()
	switch {
	case o.desc.TakesSteps():
		return d.conduct(ctx, c, progress)
	case o.desc.Delivery != nil:
		return d.deliver(ctx, c, progress)
	case (o.desc.Elicits || o.asksHosts()) && d.opts.Consent != nil:
		return d.converse(ctx, c, clock, progress)
	}
	t := d.ticket(c)
	t.Trace = o.traced.onward().String()
	return d.opts.Nodes.Dispatch(ctx, o.node.ID, t, progress)
}

// ticket makes the order to the node, but for its sequence.
func (d *Dispatcher) ticket(c *committed) *wire.Ticket {
	o := c.Of()
	t := &wire.Ticket{
		Call: o.id, Tool: o.tool, Capability: o.desc.NodeCapability(), Lane: o.lane, Node: o.node.ID,
		Args: o.args.Canonical, ArgsDigest: sha256.Sum256(o.args.Canonical),
		Envelope: o.sealed.Bytes, Grants: o.grants(),
		LifetimeMS: uint32(ticketLifetime.Milliseconds()), DeadlineMS: uint32(o.args.Timeout.Milliseconds()),
	}
	t.SiteEpoch, _ = d.opts.Stop()
	return t
}

// provide runs a tool of the gateway itself. A panic there costs its own call.
func (d *Dispatcher) provide(ctx context.Context, o *order, progress func(capabilities.Progress)) (e opencalls.End) {
	defer d.runSafely(o.trail, func(err *capabilities.Error) { e = opencalls.End{Err: err} })
	p, ok := d.opts.Registry.Provider(o.tool)
	if !ok {
		return opencalls.End{Err: capabilities.Errorf(capabilities.CodeNotSupported, "%s is not available on this gateway", o.tool)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.args.Timeout, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	defer cancel()
	work := registry.Order{
		Caller: registry.Context{Lane: o.lane, Principal: o.principal, Role: o.req.Role}, Call: o.id, Args: o.args.Canonical, Progress: progress,
	}
	if o.desc.Composes() {
		inside := d.compose(o)
		defer inside.close()
		work.Step = inside.call
	}
	out, err := p.Execute(ctx, work)
	if err != nil {
		said := wire.Answer{Effect: out.Effect, Evidence: out.Evidence}
		return opencalls.End{Err: capabilities.AsError(err), Cut: ctx.Err() != nil, Answer: said}
	}
	body, err := canonical.Marshal(out.Result)
	if err != nil {
		return opencalls.End{Err: capabilities.AsError(err)}
	}
	return opencalls.End{Blobs: out.Blobs, Answer: wire.Answer{
		Status: capabilities.StatusOK, Output: body, Effect: out.Effect, Evidence: out.Evidence, Untrusted: out.Untrusted,
		Isolation: capabilities.ClassT0,
	}}
}
