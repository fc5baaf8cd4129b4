package dispatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/registry"
)

const (
	// ticketLifetime is how long a ticket may lie on the node before it starts.
	ticketLifetime = 10 * time.Second
	// answerGrace is how much longer than the call itself the gateway waits for the
	// node's own word about its deadline.
	answerGrace = 5 * time.Second
)

// order gives the admitted call to its transport and waits for how it ended.
func (d *Dispatcher) order(ctx context.Context, c *call, progress func(capabilities.Progress)) end {
	if c.node == nil {
		return d.provide(ctx, c)
	}
	silent := &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	ctx, cancel := context.WithTimeoutCause(ctx, c.args.Timeout+answerGrace, silent)
	defer cancel()
	c.ended(8)
	answer, blobs, err := d.send(ctx, c, progress)
	if err == nil {
		c.answered(time.Duration(answer.DurationUS) * time.Microsecond)
		return end{answer: answer, blobs: blobs}
	}
	e := capabilities.AsError(err)
	// A node that stays silent past the deadline and the grace has not said that the
	// deadline passed: it may be cut off, and may have finished in time.
	if e.Code != capabilities.CodeUnknownOutcome && context.Cause(ctx) != error(silent) {
		return end{err: e, cut: ctx.Err() != nil && e.Code != capabilities.CodeNodeDisconnected}
	}
	// The node may have run it: only its journal knows.
	d.opts.Log.Warn("tools.dispatch.lost", "hop", "dispatch", "call", c.id, "tool", c.req.Tool, "node", c.node.ID, "err", err)
	e2, ok := <-d.settler.add(c.row, c.began.Add(c.waited+c.args.Timeout+settleGrace))
	if !ok {
		return end{err: e, leaveOpen: true}
	}
	return e2
}

// send has the node run c: by the word to the ticket that it holds, or by a ticket.
func (d *Dispatcher) send(ctx context.Context, c *call, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	if word := c.word; word != nil {
		c.word, c.withdraw = nil, nil
		return word(ctx, progress)
	}
	if c.d.TakesSteps() {
		return d.conduct(ctx, c, d.ticket(c), progress)
	}
	if c.d.Delivery != nil {
		return d.deliver(ctx, c, d.ticket(c), progress)
	}
	return d.opts.Nodes.Dispatch(ctx, c.node.ID, d.ticket(c), progress)
}

// ticket makes the order to the node, but for its sequence.
func (d *Dispatcher) ticket(c *call) *wire.Ticket {
	t := &wire.Ticket{
		Call: c.id, Tool: c.req.Tool, Capability: c.d.NodeCapability(), Lane: c.req.Lane, Node: c.node.ID,
		Args: c.args.Canonical, ArgsDigest: sha256.Sum256(c.args.Canonical),
		Envelope: c.sealed.Bytes, Grants: c.grants(),
		LifetimeMS: uint32(ticketLifetime.Milliseconds()), DeadlineMS: uint32(c.args.Timeout.Milliseconds()),
	}
	t.SiteEpoch, _ = d.opts.Stop()
	return t
}

// hold sends c's ticket ahead of its commit where that costs nobody anything: the
// node gets ready while the disk takes the commit in, and runs it at the word that it
// is durable. A busy store means that others wait for the processors, too. What needs
// more from the node before it runs goes the usual way.
func (d *Dispatcher) hold(ctx context.Context, c *call) {
	if c.node == nil || c.d.Delivery != nil || c.d.Exclusive || c.d.TakesSteps() || !d.opts.Store.Idle() {
		return
	}
	if c.word, c.withdraw = d.opts.Nodes.Hold(ctx, c.node.ID, d.ticket(c)); c.word != nil {
		d.opts.Log.Debug("tools.dispatch.held", "hop", "dispatch", "call", c.id, "node", c.node.ID)
	}
}

// takeBack withdraws what hold sent and nobody let go.
func (c *call) takeBack() {
	if c.withdraw != nil {
		c.withdraw()
		c.word, c.withdraw = nil, nil
	}
}

// grants is what the ticket carries: the effective grants, the ID of the person's
// grant and, where policy accepted it in so many words, the degraded isolation.
func (c *call) grants() []string {
	grants := slices.Clip(c.sealed.Grants)
	if c.permit.Grant != "" {
		grants = append(grants, policy.GrantPrefix+c.permit.Grant)
	}
	if c.accepts {
		grants = append(grants, policy.AcceptDegraded)
	}
	return grants
}

// provide runs a tool of the gateway itself. A panic there costs its own call.
func (d *Dispatcher) provide(ctx context.Context, c *call) (e end) {
	defer func() {
		if p := recover(); p != nil {
			d.opts.Log.Error("call.panic", "call", c.id, "tool", c.req.Tool, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			e = end{err: capabilities.Errorf(capabilities.CodeInternal, "the tool crashed")}
		}
	}()
	p, ok := d.opts.Registry.Provider(c.req.Tool)
	if !ok {
		return end{err: capabilities.Errorf(capabilities.CodeNotSupported, "%s is not available on this gateway", c.req.Tool)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.args.Timeout, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	defer cancel()
	out, err := p.Execute(ctx, registry.Order{
		Caller: registry.Context{Lane: c.req.Lane, Principal: c.req.Principal, Role: c.req.Role}, Call: c.id, Args: c.args.Canonical,
	})
	if err != nil {
		return end{err: capabilities.AsError(err), cut: ctx.Err() != nil}
	}
	body, err := canonical.Marshal(out.Result)
	if err != nil {
		return end{err: capabilities.AsError(err)}
	}
	return end{blobs: out.Blobs, answer: wire.Answer{
		Status: capabilities.StatusOK, Output: body, Effect: out.Effect, Evidence: out.Evidence, Untrusted: out.Untrusted,
		Isolation: capabilities.ClassT0,
	}}
}
