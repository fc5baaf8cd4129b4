package dispatch

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/opencalls"
)

// deduplicate is hop 5: it starts the execution, joins the one that runs under the same
// key, or replays the recorded outcome. It stands after the decision, so that a new
// deny wins over an old result. The caller is the execution's waiter.
func (d *Dispatcher) deduplicate(ctx context.Context, v *decided) (x *execution.Execution, waiter int, _ *capabilities.Error) {
	if !d.enter() {
		return nil, 0, capabilities.Errorf(capabilities.CodeOverloaded, "the gateway is shutting down")
	}
	leave, refused := d.places.Enter(v.principal)
	if refused != nil {
		d.background.Done()
		return nil, 0, refused
	}
	// The execution outlives a caller whose retry has joined it.
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x = execution.New(cancel)
	waiter = x.Join(v.req.Progress) // before anyone else can see it
	done := func() { cancel(nil); leave(); d.background.Done() }
	key, keyed := v.repeatKey()
	if !keyed {
		d.start(life, v, x, func() {}, done)
		return x, waiter, nil
	}

	mine := v.asks(x)
	if holder, started := d.executions.Claim(key, mine); !started {
		done()
		if !holder.Same(mine) {
			return nil, 0, &capabilities.Error{Code: capabilities.CodeRequestIDConflict}
		}
		waiter = holder.Execution.Join(v.req.Progress)
		d.repeated(ctx, v, holder.Call, repeatJoined)
		return holder.Execution, waiter, nil
	}
	free := func() { d.executions.Release(key, mine) }
	replay, how, err := d.earlierResult(context.WithoutCancel(ctx), v, key) // others may have joined: they do not hang on this caller
	if err == nil && replay == nil {
		err = v.unroutable
	}
	switch {
	case err != nil:
		free()
		x.End(v.failure(err))
		done()
		return nil, 0, err
	case replay != nil:
		d.repeated(ctx, v, replay.Call, how)
		free()
		x.End(*replay)
		done()
	default:
		d.start(life, v, x, free, done)
	}
	return x, waiter, nil
}

// The ways in which a call is answered by another.
const (
	repeatJoined   = "joined"
	repeatReplayed = "replayed"
	repeatDeferred = "deferred"
	repeatReused   = "reused"
)

// asks is what v asks for, answered by x.
func (v *decided) asks(x *execution.Execution) *execution.Asked {
	return &execution.Asked{
		Execution: x, Call: v.id, Tool: v.tool, Lane: v.lane, Node: v.trail.node, Target: v.args.NodeID,
		Args: sha256.Sum256(v.args.Canonical), Canonical: v.args.Canonical,
	}
}

// start runs the execution of v beside its caller. free releases its key; done follows it.
func (d *Dispatcher) start(ctx context.Context, v *decided, x *execution.Execution, free, done func()) {
	ended := d.running.Start(x, v.id, v.asker())
	go func() {
		defer done()
		r := d.execute(ctx, v, x)
		// First: who has the result finds nothing that runs, and nobody who repeats a call that
		// never started joins its end. A call that did start is found by its record.
		ended()
		free()
		x.End(r)
	}()
}

// runSafely is deferred around a part of a call. A panic there costs its own call, not the
// gateway: lost gets its error.
func (d *Dispatcher) runSafely(t *trail, lost func(*capabilities.Error)) {
	if p := recover(); p != nil {
		d.opts.Log.Error("call.panic", "call", t.id, "tool", t.tool, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		lost(&capabilities.Error{Code: capabilities.CodeInternal})
	}
}

// replay returns the recorded outcome of v's request ID, or what stands in for one that is
// not known or no longer kept, under the ID of the call it was: nil, nil when it was never
// seen.
func (d *Dispatcher) replay(ctx context.Context, v *decided) (*capabilities.Result, *capabilities.Error) {
	row, found, err := d.open.Find(ctx, v.principal, v.asker().Person, v.req.RequestID)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	if !found {
		return nil, nil
	}
	if row, err = d.awaitElsewhere(ctx, v, row); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	if row.State == "" {
		return nil, nil
	}
	same, known := d.sameArgs(ctx, v, &row)
	if row.Tool != v.tool || row.Lane != v.lane || row.Requested != v.args.NodeID || (known && !same) {
		return nil, &capabilities.Error{Code: capabilities.CodeRequestIDConflict}
	}
	// The result is that of the earlier call, whatever it is: it is what its caller must
	// find in the ledger, and there is no second call.
	if known {
		result, err := d.open.Kept(ctx, row.ID)
		if err == nil {
			return result, nil
		}
		if e := capabilities.AsError(err); e.Code != capabilities.CodeResultExpired {
			return nil, e
		}
	}
	if row.State != opencalls.Ended { // nothing runs: it may have run, and its end is not written down
		e := capabilities.Errorf(capabilities.CodeUnknownOutcome, "It is not known yet whether that call finished.")
		if !d.open.Awaits(row.ID) {
			e = capabilities.Errorf(capabilities.CodeUnknownOutcome,
				"Nobody can tell any more whether that call finished: its device has no record of its end.").
				WithHint("Look at the device's state. To repeat the call, use a new request ID.")
		}
		about := trailOf(&row).failure(e)
		return &about, nil
	}
	// The key that could compare the arguments may have expired, and so has the result.
	return d.told(ctx, row), nil
}

// lookElsewhere is between two looks at a call that another gateway carries out.
const lookElsewhere = 100 * time.Millisecond

// awaitElsewhere waits for the end of a call that another gateway of the site has under way, within
// its time. That one may be put out meanwhile, and the call be taken over.
func (d *Dispatcher) awaitElsewhere(ctx context.Context, v *decided, row opencalls.Call) (opencalls.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, v.args.Timeout+opencalls.SettleGrace)
	defer cancel()
	for mine := d.opts.Store.Member(); mine != "" && row.State == opencalls.Open && !d.open.Awaits(row.ID); {
		if elsewhere, err := d.open.Elsewhere(ctx, &row); err != nil || !elsewhere && row.Member == mine {
			return row, err
		}
		select {
		case <-ctx.Done():
			return row, nil
		case <-time.After(lookElsewhere):
		}
		now, found, err := d.open.Find(ctx, v.principal, v.asker().Person, v.req.RequestID)
		switch {
		case ctx.Err() != nil:
			return row, nil
		case err != nil:
			return row, err
		case !found: // it never started, and the ID is free again
			row.State = ""
			return row, nil
		}
		row = now
	}
	return row, nil
}

// takenElsewhere returns the answer of the call that another gateway has taken under v's request ID
// since that was looked for; nil: there is none.
func (d *Dispatcher) takenElsewhere(ctx context.Context, v *decided) *capabilities.Result {
	r, err := d.replay(context.WithoutCancel(ctx), v)
	if err != nil {
		refused := d.refuse(ctx, v.trail, err)
		return &refused
	}
	if r != nil {
		d.repeated(ctx, v, r.Call, repeatReplayed)
	}
	return r
}

// sameArgs compares the arguments of v with those of an earlier call under that call's own
// digest key. known is false once the key has expired.
func (d *Dispatcher) sameArgs(ctx context.Context, v *decided, row *opencalls.Call) (same, known bool) {
	key, err := d.opts.Outcomes.DigestKey(ctx, row.ID, row.Created)
	if err != nil {
		return false, false
	}
	mac := key.MAC(v.args.Canonical)
	return hmac.Equal(mac[:], row.ArgsMAC), true
}
