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
	t := &wire.Ticket{
		Call: c.id, Tool: c.req.Tool, Capability: c.d.NodeCapability(), Lane: c.req.Lane, Node: c.node.ID,
		Args: c.args.Canonical, ArgsDigest: sha256.Sum256(c.args.Canonical),
		Envelope: c.sealed.Bytes, Grants: c.grants(),
		LifetimeMS: uint32(ticketLifetime.Milliseconds()), DeadlineMS: uint32(c.args.Timeout.Milliseconds()),
	}
	t.SiteEpoch, _ = d.opts.Stop()
	silent := &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	ctx, cancel := context.WithTimeoutCause(ctx, c.args.Timeout+answerGrace, silent)
	defer cancel()
	send := d.opts.Nodes.Dispatch
	if c.d.Delivery != nil {
		send = func(ctx context.Context, _ capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
			return d.deliver(ctx, c, t, progress)
		}
	}
	answer, blobs, err := send(ctx, c.node.ID, t, progress)
	if err == nil {
		return end{answer: answer, blobs: blobs}
	}
	e := capabilities.AsError(err)
	// A node that stays silent past the deadline and the grace has not said that the
	// deadline passed: it may be cut off, and may have finished in time.
	if e.Code != capabilities.CodeUnknownOutcome && context.Cause(ctx) != error(silent) {
		return end{err: e}
	}
	// The node may have run it: only its journal knows.
	d.opts.Log.Warn("tools.dispatch.lost", "hop", "dispatch", "call", c.id, "tool", c.req.Tool, "node", c.node.ID, "err", err)
	e2, ok := <-d.settler.add(c.row, c.began.Add(c.waited+c.args.Timeout+settleGrace))
	if !ok {
		return end{err: e, leaveOpen: true}
	}
	return e2
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
	p, ok := d.providers[c.req.Tool]
	if !ok {
		return end{err: capabilities.Errorf(capabilities.CodeNotSupported, "%s is not available on this gateway", c.req.Tool)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.args.Timeout, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	defer cancel()
	out, err := p.Execute(ctx, Order{Caller: c.req.Caller, Call: c.id, Args: c.args.Canonical})
	if err != nil {
		return end{err: capabilities.AsError(err)}
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
