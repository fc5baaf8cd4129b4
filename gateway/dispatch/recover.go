package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
)

// sweepEvery is how often forgotten request IDs are cleared away.
const sweepEvery = time.Minute

// lastWord is how long an ending gateway tries to record what it only counted.
const lastWord = 5 * time.Second

// Recover takes up the calls that an earlier process left open. Call it before
// anything is served: a retry of one of them then joins it instead of starting a
// second execution.
func (d *Dispatcher) Recover(ctx context.Context) error {
	d.served = time.Now()
	rows, err := d.leftOpen(ctx)
	if err != nil {
		return fmt.Errorf("dispatch: reading open calls: %w", err)
	}
	if err := d.taints.load(ctx, d.opts.Store.Read()); err != nil {
		return fmt.Errorf("dispatch: reading what lanes have read: %w", err)
	}
	d.recovered = map[capabilities.CallID]*flight{}
	for _, r := range rows {
		if r.state == rowUnknown {
			d.settler.watch(r)
			continue
		}
		d.opts.Log.Warn("tools.dispatch.recovering", "call", r.call, "tool", r.tool, "principal", r.principal, "node", r.node)
		d.takeOver(r)
	}
	return nil
}

// takeOver flies an open call of an earlier process: its end comes from its node.
func (d *Dispatcher) takeOver(r row) {
	c := d.reborn(r)
	if r.request == "" {
		d.open.add(&c.row)
	}
	f := newFlight(func(error) {})
	f.join(nil) // the ledger is the waiter that never leaves
	d.recovered[r.call] = f
	key := requestKey{r.principal, r.request}
	k := d.remembered(c, f)
	if r.request != "" {
		d.flights.claim(key, k)
	}
	var ends <-chan end
	if r.node == "" {
		// The gateway's own tools ran inside the process that died: they have no
		// journal, and nobody will ever know.
		own := make(chan end, 1)
		own <- end{err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}}
		ends = own
	} else {
		ends = d.settler.add(r, time.Now().Add(recoverWithin))
	}
	if !d.begin() {
		return // nobody has been served yet
	}
	go func() {
		defer d.background.Done()
		e, ok := <-ends
		if !ok {
			// Shutting down: the call stays open for the next process.
			e = end{err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}, leaveOpen: true}
		}
		d.collect(context.Background(), c, &e, nil)
		f.land(d.record(c, e))
		d.flights.release(key, k)
	}()
}

// reborn makes what record needs of a call of an earlier process.
func (d *Dispatcher) reborn(r row) *call {
	c := &call{
		req: Request{Caller: Caller{Principal: r.principal, Lane: r.lane}, Tool: r.tool, RequestID: r.request},
		id:  r.call, began: r.created, ctx: context.Background(), row: r, parent: r.parent,
	}
	c.d, _ = d.opts.Registry.Get(r.tool)
	c.key, _ = d.opts.Outcomes.DigestKey(c.ctx, r.call, r.created) // without one nothing is digested
	return c
}

// reconcile records the late word of a node on a call whose caller was told
// "unknown outcome" (DESIGN section 4, "After a crash").
func (d *Dispatcher) reconcile(ctx context.Context, r row, e end, pause time.Duration) {
	c := d.reborn(r)
	if len(e.answer.Artifacts) == 0 || !d.begin() {
		d.reconciled(ctx, c, e, pause)
		return
	}
	// Files take their time, and other calls wait to be settled.
	go func() {
		defer d.background.Done()
		d.collect(context.Background(), c, &e, nil)
		if !e.leaveOpen {
			d.reconciled(context.Background(), c, e, pause)
		}
	}()
}

func (d *Dispatcher) reconciled(ctx context.Context, c *call, e end, pause time.Duration) {
	r := c.row
	result := c.conclude(e)
	f := c.fateOf(&result, &e)
	body := c.endBody(&result, &e)
	before, _, err := d.recordedEnd(ctx, r.call)
	recorded := false
	if err == nil {
		err = d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
			recorded = false
			state, err := d.stateIn(tx, &r)
			switch {
			case err != nil:
				return err
			case state == rowOpen: // its end could not be written when it came: this is it
				recorded = true
				return d.endIn(tx, c, state, c.draft(terminalKind(body.Status), body), &result, f)
			case state == rowUnknown && confirms(before, &result) && f != fateUnknown:
				return d.endRow(tx, &c.row, state, time.Now()) // nothing is to be put right
			case state == rowUnknown && f != fateUnknown:
				recorded = true
				return d.endIn(tx, c, state, c.draft(ledger.KindCallReconciled, body), &result, f)
			case state == rowUnknown && r.request == "":
				// The node cannot tell either, and no retry can ask.
				return d.endRow(tx, &c.row, state, time.Now())
			}
			return nil // ended after all, or unknown for good
		})
	}
	if err == nil && !recorded {
		return
	}
	if err != nil {
		if pause == 0 && ctx.Err() == nil { // later failures are the same one
			d.opts.Log.Error("tools.dispatch.unrecorded", "hop", "reconcile", "call", r.call, "err", err)
		}
		d.settler.again(r, pause)
		return
	}
	d.opts.Log.Info("tools.dispatch.reconciled", "call", r.call, "tool", r.tool, "node", r.node, "status", result.Status)
}

// Run settles lost calls and forgets old request IDs until ctx ends, then waits
// for the executions in flight.
func (d *Dispatcher) Run(ctx context.Context) error {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		var tasks sync.WaitGroup
		defer tasks.Wait()
		tasks.Go(func() { d.runTasks(ctx) })
		tasks.Go(func() { d.runLate(ctx) })
		d.settler.run(ctx)
	}()
	tick, marks := time.NewTicker(sweepEvery), time.NewTicker(markEvery)
	defer tick.Stop()
	defer marks.Stop()
	for {
		select {
		case <-ctx.Done():
			d.close()
			<-settled
			d.settler.close()
			d.awaitEnd()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
			defer cancel()
			d.recordMuted(last)
			d.writeLate(last)
			return nil
		case <-marks.C:
			if err := d.mark(ctx); err != nil && ctx.Err() == nil {
				d.opts.Log.Warn("dispatch.mark", "err", err)
			}
		case now := <-tick.C:
			d.recordMuted(ctx)
			if err := d.opts.Store.Write(ctx, func(tx *store.Tx) error {
				if err := sweepRows(tx, now); err != nil {
					return err
				}
				return sweepTaints(tx, now)
			}); err != nil && ctx.Err() == nil {
				d.opts.Log.Warn("dispatch.sweep", "err", err)
			}
		}
	}
}
