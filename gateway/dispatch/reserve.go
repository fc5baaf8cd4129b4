package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// A call whose descriptor says that it is exclusive keeps its node to one person:
// what others call there waits, and what touches that person's screen, mouse or
// keyboard just then is ended. Between the packets that say when it was taken and
// when it was given back, nothing of anybody else's is dispatched there.

// defaultReserveWait is how long a call waits for a node that a person keeps, in all.
const defaultReserveWait = 45 * time.Second

// owner is whose a reserved node is.
type owner struct {
	principal capabilities.PrincipalID
	lane      capabilities.LaneID
}

// reservation is one node that is kept.
type reservation struct {
	owner owner
	calls int           // exclusive calls of the owner's
	over  chan struct{} // closed when the last has ended
	kept  int           // calls that waited
}

// reserved is the nodes that people keep, and what is admitted to each node.
type reserved struct {
	mu       sync.Mutex
	nodes    map[capabilities.NodeID]*reservation
	admitted map[capabilities.NodeID]map[*flight]bool // true: it is on the person's desk
}

func newReserved() *reserved {
	return &reserved{nodes: map[capabilities.NodeID]*reservation{}, admitted: map[capabilities.NodeID]map[*flight]bool{}}
}

// mayPass reports whether c is no matter of reservations: it needs no node, or is
// plumbing such as looking on.
func (c *call) mayPass() bool {
	return c.node == nil || !c.d.ModelFacing && !c.d.Exclusive
}

// stands gives the reservation that c has to wait for; nil if there is none. Only
// what the owner does by the gateway's own hand passes it.
func (r *reserved) standsLocked(c *call) *reservation {
	kept := r.nodes[c.node.ID]
	if kept == nil || c.req.Inside && kept.owner == (owner{c.req.Principal, c.req.Lane}) {
		return nil
	}
	return kept
}

// admit counts c in on its node, or gives what it has to wait for.
func (r *reserved) admit(c *call, f *flight) *reservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.standsLocked(c); kept != nil {
		return kept
	}
	if r.admitted[c.node.ID] == nil {
		r.admitted[c.node.ID] = map[*flight]bool{}
	}
	r.admitted[c.node.ID][f] = c.d.OnDesk()
	return nil
}

func (r *reserved) leave(node capabilities.NodeID, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.admitted[node], f)
	if len(r.admitted[node]) == 0 {
		delete(r.admitted, node)
	}
}

// keep makes c's node its owner's and ends what others do on its desk. ok is false
// if somebody else was quicker.
func (r *reserved) keep(c *call, f *flight) (ended int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, mine := c.node.ID, owner{c.req.Principal, c.req.Lane}
	if kept := r.nodes[node]; kept != nil {
		if kept.owner != mine {
			return 0, false
		}
		kept.calls++
		return 0, true
	}
	r.nodes[node] = &reservation{owner: mine, calls: 1, over: make(chan struct{})}
	for other, onDesk := range r.admitted[node] {
		if onDesk && other != f {
			other.cancel(&capabilities.Error{Code: capabilities.CodeTakenOver})
			ended++
		}
	}
	return ended, true
}

// waited gives how many calls have waited for node so far.
func (r *reserved) waited(node capabilities.NodeID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.nodes[node]; kept != nil {
		return kept.kept
	}
	return 0
}

// giveBack ends one exclusive call's hold; with the last the others go on.
func (r *reserved) giveBack(node capabilities.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.nodes[node]
	if kept.calls--; kept.calls == 0 {
		delete(r.nodes, node)
		close(kept.over)
	}
}

// yield waits while a person keeps the node of c, before anybody is asked about it.
// Who was kept waiting is decided on anew: policy may have changed meanwhile.
func (d *Dispatcher) yield(ctx context.Context, c *call, f *flight) *capabilities.Error {
	if c.mayPass() {
		return nil
	}
	d.reserved.mu.Lock()
	kept := d.reserved.standsLocked(c)
	d.reserved.mu.Unlock()
	if kept == nil {
		return nil
	}
	for kept != nil {
		if err := d.await(ctx, c, f, kept); err != nil {
			return err
		}
		d.reserved.mu.Lock()
		kept = d.reserved.standsLocked(c)
		d.reserved.mu.Unlock()
	}
	if err := d.halted(c); err != nil {
		return err
	}
	c.engine, c.verdict = d.opts.Policy(), policy.Decision{}
	return d.decide(c)
}

// occupy counts c in on its node, right before its commit; leave is to be called when
// it has ended. A person who took the node over meanwhile is waited for. Who was
// allowed by a policy that is not in force any more calls again: their grant may be
// spent, so that to decide anew is not enough.
func (d *Dispatcher) occupy(ctx context.Context, c *call, f *flight) (leave func(), e *capabilities.Error) {
	if c.mayPass() {
		return func() {}, nil
	}
	node := c.node.ID
	for again := false; ; again = true {
		kept := d.reserved.admit(c, f)
		if kept == nil {
			leave = func() { d.reserved.leave(node, f) }
			switch {
			case !again:
			case d.opts.Policy() != c.engine:
				e = capabilities.Errorf(capabilities.CodeTakenOver, "Policy changed while the call waited for a person to hand the device back.").
					WithHint("Call again.")
			default:
				if e = d.halted(c); e == nil {
					e = c.seal() // its time begins now
				}
			}
			return leave, e
		}
		if e := d.await(ctx, c, f, kept); e != nil {
			return func() {}, e
		}
	}
}

// await waits for the end of a reservation, as long as c may.
func (d *Dispatcher) await(ctx context.Context, c *call, f *flight, kept *reservation) *capabilities.Error {
	taken := capabilities.Errorf(capabilities.CodeTakenOver, "A person (%s) has taken over this device.", kept.owner.principal)
	if c.d.Exclusive {
		return taken.WithHint("Ask them to hand back, or try again later.")
	}
	d.reserved.mu.Lock()
	kept.kept++
	d.reserved.mu.Unlock()
	f.report(capabilities.Progress{Message: "A person has taken over this device; the call waits until they hand back."})
	began := time.Now()
	timer := time.NewTimer(d.opts.ReserveWait - c.yielded)
	defer timer.Stop()
	var e *capabilities.Error
	select {
	case <-kept.over:
	case <-timer.C:
		e = taken
	case <-ctx.Done():
		e = &capabilities.Error{Code: capabilities.CodeCancelled}
	}
	took := time.Since(began)
	c.yielded += took
	c.waited += took
	return e
}

// keepNode keeps the node of an exclusive call until the function that it gives is
// called, with how the call ended. What it cannot record does not begin.
func (d *Dispatcher) keepNode(ctx context.Context, c *call, f *flight) (handBack func(capabilities.Result), e *capabilities.Error) {
	ended, ok := d.reserved.keep(c, f)
	if !ok {
		return nil, &capabilities.Error{Code: capabilities.CodeTakenOver}
	}
	draft := func(kind ledger.Kind, body map[string]any) ledger.Draft {
		return ledger.Draft{Kind: kind, Call: c.id, Tool: c.req.Tool, Principal: c.req.Principal, Lane: c.req.Lane, Node: c.node.ID, Body: body}
	}
	if err := d.opts.Ledger.Append(ctx, draft("gateway.node.taken", map[string]any{"ended_calls": ended})); err != nil {
		d.reserved.giveBack(c.node.ID)
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	d.opts.Log.Info("tools.node.taken", "call", c.id, "by", c.req.Principal, "node", c.node.ID, "ended", ended)
	return func(r capabilities.Result) {
		why := string(r.Code)
		if r.Message != "" {
			why = r.Message
		}
		err := d.opts.Ledger.Append(context.WithoutCancel(ctx), draft("gateway.node.returned", map[string]any{
			"why": why, "duration_ms": r.DurationMS, "waiting_calls": d.reserved.waited(c.node.ID),
		}))
		if err != nil {
			d.opts.Log.Error("tools.node.unrecorded", "call", c.id, "err", fmt.Errorf("returned: %w", err))
		}
		d.reserved.giveBack(c.node.ID)
		d.opts.Log.Info("tools.node.returned", "call", c.id, "by", c.req.Principal, "node", c.node.ID, "why", why)
	}, nil
}
