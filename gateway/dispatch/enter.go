package dispatch

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"runtime/debug"

	"github.com/handrail-dev/handrail/capabilities"
)

// enter is hop 5: it starts the execution, joins the one that runs under the
// same request ID, or replays the recorded outcome. It stands after the decision,
// so that a new deny wins over an old result.
func (d *Dispatcher) enter(c *call) (*flight, int, *capabilities.Error) {
	if !d.begin() {
		return nil, 0, capabilities.Errorf(capabilities.CodeOverloaded, "the gateway is shutting down")
	}
	if !d.share(c.req.Principal) {
		d.background.Done()
		return nil, 0, capabilities.Errorf(capabilities.CodeOverloaded, "this principal has too many calls running at once")
	}
	select {
	case d.slots <- struct{}{}:
	default:
		d.unshare(c.req.Principal)
		d.background.Done()
		return nil, 0, &capabilities.Error{Code: capabilities.CodeOverloaded}
	}
	release := func() { <-d.slots; d.unshare(c.req.Principal); d.background.Done() }
	// The execution outlives a caller whose retry has joined it.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.ctx))
	f := newFlight(cancel)
	if c.req.RequestID == "" {
		id := f.join(c.req.Progress)
		d.fly(ctx, c, f, func() { cancel(nil); release() })
		return f, id, nil
	}

	key := requestKey{c.req.Principal, c.req.RequestID}
	mine := &keyed{flight: f, call: c.id, tool: c.req.Tool, lane: c.req.Lane, node: c.selected(), args: sha256.Sum256(c.args.Canonical), target: c.args.NodeID, canonical: c.args.Canonical}
	id := f.join(c.req.Progress) // before anyone else can see it
	holder, started := d.flights.claim(key, mine)
	if !started {
		cancel(nil)
		release()
		if !holder.same(mine) {
			return nil, 0, &capabilities.Error{Code: capabilities.CodeRequestIDConflict}
		}
		return holder.flight, holder.flight.join(c.req.Progress), nil
	}
	done := func() { d.flights.release(key, mine); cancel(nil); release() }
	replay, err := d.replay(c)
	if err == nil && replay == nil {
		err = c.astray
	}
	if err != nil {
		f.land(c.failure(err))
		done()
		return nil, 0, err
	}
	if replay != nil {
		f.land(*replay)
		done()
		return f, id, nil
	}
	d.fly(ctx, c, f, done)
	return f, id, nil
}

// same reports whether both were asked for the same thing. Recovered flights
// compare by the keyed digest instead.
func (k *keyed) same(other *keyed) bool {
	if k.recovered != nil {
		return k.recovered(other)
	}
	return k.tool == other.tool && k.lane == other.lane && k.target == other.target && k.args == other.args
}

// fly runs the execution of c beside its caller, or has the caller run it; done follows
// it.
func (d *Dispatcher) fly(ctx context.Context, c *call, f *flight, done func()) {
	c.life = ctx
	landed := d.airborne.start(f, c.id)
	job := func() {
		defer done()
		defer landed()
		f.land(d.survive(ctx, c, f))
	}
	if c.req.Waits {
		c.here = job
	} else {
		d.crew.run(job)
	}
}

// survive runs the execution. A panic in it costs its own call, not the gateway;
// what was committed stays open for the node's journal to settle.
func (d *Dispatcher) survive(ctx context.Context, c *call, f *flight) (r capabilities.Result) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		d.opts.Log.Error("call.panic", "call", c.id, "tool", c.req.Tool, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		r = c.failure(&capabilities.Error{Code: capabilities.CodeInternal})
		if c.row.node != "" {
			d.settler.watch(c.row)
		}
	}()
	return d.execute(ctx, c, f)
}

// share counts a call of a principal as running; false when it has its share of
// the running calls already. unshare takes it back.
func (d *Dispatcher) share(p capabilities.PrincipalID) (in bool) {
	d.sharesMu.Lock()
	defer d.sharesMu.Unlock()
	if d.shares[p] >= max(1, d.opts.MaxRunning/principalShare) {
		return false
	}
	d.shares[p]++
	return true
}

func (d *Dispatcher) unshare(p capabilities.PrincipalID) {
	d.sharesMu.Lock()
	defer d.sharesMu.Unlock()
	if d.shares[p]--; d.shares[p] <= 0 {
		delete(d.shares, p)
	}
}

// principalShare: one principal may take this part of MaxRunning, so that it can
// not keep every other out.
const principalShare = 4

// replay gives the recorded outcome of c's request ID, or what stands in for one that
// is not known or no longer kept, under the ID of the call it was: nil, nil when it
// was never seen.
func (d *Dispatcher) replay(c *call) (*capabilities.Result, *capabilities.Error) {
	// Others may have joined by now: what they get must not hang on this caller.
	ctx := context.WithoutCancel(c.ctx)
	r, found, err := findRow(ctx, d.opts.Store.Read(), requestKey{c.req.Principal, c.req.RequestID})
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	if !found {
		return nil, nil
	}
	same, known := d.sameArgs(ctx, c, &r)
	if r.tool != c.req.Tool || r.lane != c.req.Lane || r.requested != c.args.NodeID || (known && !same) {
		return nil, &capabilities.Error{Code: capabilities.CodeRequestIDConflict}
	}
	// The result is that of the earlier call, whatever it is: it is what its caller must
	// find in the ledger, and there is no second call.
	if known {
		result, err := d.keptResult(ctx, r.call)
		if err == nil {
			return result, nil
		}
		if e := capabilities.AsError(err); e.Code != capabilities.CodeResultExpired {
			return nil, e
		}
	}
	if r.state != rowEnded { // without a flight: it may have run, and its end is not written down
		about := d.reborn(r).failure(capabilities.Errorf(capabilities.CodeUnknownOutcome, "It is not known yet whether that call finished."))
		return &about, nil
	}
	// The key that could compare the arguments may have expired, and so has the result.
	return d.told(ctx, r), nil
}

// sameArgs compares the arguments of c with those of an earlier call under that
// call's own digest key. known is false once the key has expired.
func (d *Dispatcher) sameArgs(ctx context.Context, c *call, r *row) (same, known bool) {
	key, err := d.opts.Outcomes.DigestKey(ctx, r.call, r.created)
	if err != nil {
		return false, false
	}
	mac := key.MAC(c.args.Canonical)
	return hmac.Equal(mac[:], r.argsMAC), true
}
