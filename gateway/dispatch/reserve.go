package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/reserve"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// A call whose descriptor says that it is exclusive keeps its node to one person: what
// others call there waits, and what touches that person's screen, mouse or keyboard just
// then is ended. Between the packets that say when it was taken and when it was given back,
// nothing of anybody else's is dispatched there.

// defaultReserveWait is how long a call waits for a node that a person keeps, in all.
const defaultReserveWait = 45 * time.Second

// mayPass reports whether a call is no matter of reservations: it needs no node, or is
// plumbing such as looking on.
func (n *routed) mayPass() bool {
	return n.node == nil || !n.desc.ModelFacing && !n.desc.Exclusive
}

// visit is the call as the reservations know it.
func (n *routed) visit(x *execution.Execution) reserve.Visit {
	return reserve.Visit{
		Node: n.node.ID, By: reserve.Owner{Principal: n.principal, Lane: n.lane},
		Inside: n.req.Inside, OnDesk: n.desc.OnDesk(), Execution: x,
	}
}

// waiter waits for nodes that people keep, on behalf of one call.
type waiter struct {
	d      *Dispatcher
	x      *execution.Execution
	waited time.Duration // in all
}

// yield waits while a person keeps the node of v, before anybody is asked about it. A call
// that was kept waiting is decided on anew: policy may have changed meanwhile.
func (w *waiter) yield(ctx context.Context, v *decided) (*decided, *capabilities.Error) {
	if v.mayPass() {
		return v, nil
	}
	kept := w.d.reserved.Standing(v.visit(w.x))
	if kept == nil {
		return v, nil
	}
	for ; kept != nil; kept = w.d.reserved.Standing(v.visit(w.x)) {
		if err := w.await(ctx, v, kept); err != nil {
			return nil, err
		}
	}
	return w.d.decideAnew(v)
}

// decideAnew is the decision by the policy of now, after a wait.
func (d *Dispatcher) decideAnew(v *decided) (*decided, *capabilities.Error) {
	if err := d.halted(); err != nil {
		return nil, err
	}
	anew := *v.routed
	anew.engine, anew.last = d.opts.Policy(), policy.Decision{}
	return d.decide(&anew)
}

// occupy counts p in on its node, right before its commit. A person who took the node over
// meanwhile is waited for. A call that was allowed by a policy that is not in force any more
// has to be made again: its grant may be spent, so that to decide anew is not enough.
func (w *waiter) occupy(ctx context.Context, p *permitted, held *holds) (*permitted, *capabilities.Error) {
	if p.mayPass() {
		return p, nil
	}
	visit, again := p.visit(w.x), false
	for kept := w.d.reserved.Admit(visit); kept != nil; kept = w.d.reserved.Admit(visit) {
		if err := w.await(ctx, p.decided, kept); err != nil {
			return nil, err
		}
		again = true
	}
	held.add(func() { w.d.reserved.Leave(visit) })
	if !again {
		return p, nil
	}
	if w.d.opts.Policy() != p.engine {
		return nil, capabilities.Errorf(capabilities.CodeTakenOver, "Policy changed while the call waited for a person to hand the device back.").
			WithHint("Call again.")
	}
	if err := w.d.halted(); err != nil {
		return nil, err
	}
	later := *p.decided // its time begins now
	var err *capabilities.Error
	if later.sealed, err = p.seal(&p.verdict, p.grant); err != nil {
		return nil, err
	}
	return &permitted{decided: &later, grant: p.grant}, nil
}

// await waits for the end of a reservation, as long as the call may.
func (w *waiter) await(ctx context.Context, v *decided, kept *reserve.Reservation) *capabilities.Error {
	taken := capabilities.Errorf(capabilities.CodeTakenOver, "A person (%s) has taken over this device.", kept.Owner().Principal)
	if v.desc.Exclusive {
		return taken.WithHint("Ask them to hand back, or try again later.")
	}
	w.d.reserved.Wait(kept)
	w.x.Report(capabilities.Progress{Message: "A person has taken over this device; the call waits until they hand back."})
	began := time.Now()
	timer := time.NewTimer(w.d.opts.ReserveWait - w.waited)
	defer timer.Stop()
	var e *capabilities.Error
	select {
	case <-kept.Over():
	case <-timer.C:
		e = taken
	case <-ctx.Done():
		e = &capabilities.Error{Code: capabilities.CodeCancelled}
	}
	took := time.Since(began)
	w.waited += took
	v.waited += took
	return e
}

// keepNode keeps the node of an exclusive call until handBack is called with how the call ended. A
// take-over that it cannot record does not begin.
func (d *Dispatcher) keepNode(ctx context.Context, o *order,
	x *execution.Execution) (handBack func(capabilities.Result), e *capabilities.Error) {
	ended, ok := d.reserved.Keep(o.visit(x))
	if !ok {
		return nil, &capabilities.Error{Code: capabilities.CodeTakenOver}
	}
	draft := func(kind ledger.Kind, body any) ledger.Draft {
		return ledger.Draft{Kind: kind, Call: o.id, Tool: o.tool, Principal: o.principal, Lane: o.lane, Node: o.node.ID, Body: body}
	}
	if err := d.opts.Ledger.Append(ctx, draft("gateway.node.taken", packet.NodeTaken{Ended: ended})); err != nil {
		d.reserved.GiveBack(o.node.ID)
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	d.opts.Log.Info("tools.node.taken", "call", o.id, "by", o.principal, "node", o.node.ID, "ended", ended)
	return func(r capabilities.Result) {
		why := string(r.Code)
		if r.Message != "" {
			why = r.Message
		}
		err := d.opts.Ledger.Append(context.WithoutCancel(ctx), draft("gateway.node.returned", packet.NodeReturned{
			Why: why, DurationMS: r.DurationMS, Waiting: d.reserved.Waited(o.node.ID),
		}))
		if err != nil {
			d.opts.Log.Error("tools.node.unrecorded", "call", o.id, "err", fmt.Errorf("returned: %w", err))
		}
		d.reserved.GiveBack(o.node.ID)
		d.opts.Log.Info("tools.node.returned", "call", o.id, "by", o.principal, "node", o.node.ID, "why", why)
	}, nil
}
