package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/taint"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/opencalls"
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
	d.quota.until, _ = d.opts.Ledger.Tip()
	taints := func(ctx context.Context) error { return d.taints.Load(ctx, d.opts.Store.Read()) }
	d.opts.Store.Watch(taints, "lane_taint", "principal_taint")
	d.opts.Store.OnGone(d.takeIn)
	rows, err := d.open.LeftOpen(ctx)
	if err != nil {
		return fmt.Errorf("dispatch: reading open calls: %w", err)
	}
	if err := taints(ctx); err != nil {
		return fmt.Errorf("dispatch: reading what lanes have read: %w", err)
	}
	recovered := map[capabilities.CallID]Await{}
	for _, r := range rows {
		if r.State == opencalls.Unknown {
			d.open.Watch(r)
			continue
		}
		d.opts.Log.Warn("tools.dispatch.recovering", "call", r.ID, "tool", r.Tool, "principal", r.Principal, "node", r.Node)
		recovered[r.ID] = d.takeOver(r)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recovered = recovered
	return nil
}

// takeIn takes up, as part of tx, the calls of a gateway that was put out: this one records their
// ends, and its node tells them.
func (d *Dispatcher) takeIn(tx *store.Tx, member string) error {
	rows, err := d.open.TakeIn(tx, member)
	if err != nil || len(rows) == 0 {
		return err
	}
	tx.OnCommit(func() {
		over := make([]chan Await, len(rows))
		d.mu.Lock()
		if d.recovered == nil {
			d.recovered = map[capabilities.CallID]Await{}
		}
		for i, r := range rows {
			if r.State != opencalls.Unknown {
				over[i] = make(chan Await, 1)
				d.recovered[r.ID] = laterAwait(over[i])
			}
		}
		d.mu.Unlock()
		go func() {
			for i, r := range rows {
				if r.State == opencalls.Unknown {
					d.open.Watch(r)
					continue
				}
				d.opts.Log.Warn("tools.dispatch.taken_over", "call", r.ID, "tool", r.Tool, "node", r.Node, "from", member)
				over[i] <- d.takeOver(r)
			}
		}()
	})
	return nil
}

// laterAwait waits for the means to wait.
func laterAwait(over <-chan Await) Await {
	return func(ctx context.Context) (capabilities.Result, bool) {
		select {
		case await := <-over:
			return await(ctx)
		case <-ctx.Done():
			return capabilities.Result{}, false
		}
	}
}

// Await waits for the end of a call; ok=false when ctx ended first.
type Await func(ctx context.Context) (r capabilities.Result, ok bool)

// TakeRecovered returns, once, the calls that Recover took up, each with what waits for its
// end.
func (d *Dispatcher) TakeRecovered() map[capabilities.CallID]Await {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.recovered
	d.recovered = nil
	return all
}

// takeOver waits for the end of an open call of an earlier process, which its node tells.
func (d *Dispatcher) takeOver(row opencalls.Call) Await {
	c := d.fromRow(row)
	d.open.Resume(&c.row)
	x := execution.New(func(error) {})
	x.Join(nil) // the ledger is the waiter that never leaves
	await := func(ctx context.Context) (capabilities.Result, bool) { return x.Wait(ctx, x.Join(nil)) }
	key, asked := keyOf(&row), d.remembered(c, x)
	if row.Request != "" {
		d.executions.Claim(key, asked)
	}
	var ends <-chan opencalls.End
	if row.Node == "" {
		// The gateway's own tools ran inside the process that died: they have no journal,
		// and nobody will ever know.
		own := make(chan opencalls.End, 1)
		own <- opencalls.End{Err: d.halfDone(row, c.desc)}
		ends = own
	} else {
		ends = d.open.Await(row, time.Now().Add(opencalls.RecoverWithin))
	}
	if !d.begin() {
		return await // nobody has been served yet
	}
	go func() {
		defer d.background.Done()
		ctx := context.Background()
		e, ok := <-ends
		if !ok {
			// Shutting down: the call stays open for the next process.
			e = opencalls.End{Err: &capabilities.Error{Code: capabilities.CodeUnknownOutcome}, LeaveOpen: true}
		}
		d.collect(ctx, c, &e, nil)
		x.End(d.record(ctx, c, e))
		d.executions.Release(key, asked)
	}()
	return await
}

// reconcile records the late word of a node on a call whose caller was told
// "unknown outcome".
func (d *Dispatcher) reconcile(ctx context.Context, row opencalls.Call, e opencalls.End, pause time.Duration) {
	c := d.fromRow(row)
	if len(e.Answer.Artifacts) == 0 || !d.begin() {
		d.reconciled(ctx, c, e, pause)
		return
	}
	// Files take their time, and other calls wait to be settled.
	go func() {
		defer d.background.Done()
		d.collect(context.Background(), c, &e, nil)
		if !e.LeaveOpen {
			d.reconciled(context.Background(), c, e, pause)
		}
	}()
}

func (d *Dispatcher) reconciled(ctx context.Context, c *openCall, e opencalls.End, pause time.Duration) {
	r := c.row
	result := c.conclude(e)
	f := c.fateOf(&result, &e)
	body := c.endBody(&result, &e)
	before, _, err := d.recordedEnd(ctx, r.ID)
	recorded := false
	if err == nil {
		err = d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
			recorded = false
			state, err := d.open.StateIn(tx, &r)
			switch {
			case err != nil:
				return err
			case state == opencalls.Open: // its end could not be written when it came: this is it
				recorded = true
				return d.endIn(tx, c, state, c.draft(terminalKind(body.Status), body), &result, f)
			case state == opencalls.Unknown && confirms(before, &result) && f != opencalls.FateUnknown:
				return d.open.EndIn(tx, &c.row, state, opencalls.FateEnded) // nothing is to be put right
			case state == opencalls.Unknown && f != opencalls.FateUnknown:
				recorded = true
				return d.endIn(tx, c, state, c.draft(ledger.KindCallReconciled, body), &result, f)
			case state == opencalls.Unknown && r.Request == "":
				// The node cannot tell either, and no retry can ask.
				return d.open.EndIn(tx, &c.row, state, opencalls.FateEnded)
			}
			return nil // ended after all, or unknown for good
		})
	}
	if err == nil && !recorded {
		return
	}
	if err != nil {
		if pause == 0 && ctx.Err() == nil { // later failures are the same one
			d.opts.Log.Error("tools.dispatch.unrecorded", "hop", capabilities.HopRecord, "call", r.ID, "err", err)
		}
		d.open.Rewatch(r, pause)
		return
	}
	d.opts.Log.Info("tools.dispatch.reconciled", "call", r.ID, "tool", r.Tool, "node", r.Node, "status", result.Status)
}

// Run settles lost calls and forgets old request IDs until ctx ends, then waits for the
// executions that run.
func (d *Dispatcher) Run(ctx context.Context) error {
	var works sync.WaitGroup
	works.Go(func() { d.runLate(ctx) })
	works.Go(func() { d.open.Run(ctx) })
	sweep, tell := time.NewTicker(sweepEvery), time.NewTicker(tellAwayEvery)
	defer sweep.Stop()
	defer tell.Stop()
	for {
		select {
		case <-ctx.Done():
			d.close()
			works.Wait()
			d.open.Close()
			d.awaitEnd()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
			defer cancel()
			d.tellTurnedAway(last)
			d.writeLate(last)
			return nil
		case <-tell.C:
			d.tellTurnedAway(ctx)
		case now := <-sweep.C:
			d.sweep(ctx, now)
		}
	}
}

func (d *Dispatcher) sweep(ctx context.Context, now time.Time) {
	d.frames.Drop(now)
	err := d.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := opencalls.SweepIn(tx, now); err != nil {
			return err
		}
		return taint.SweepIn(tx, now)
	})
	if err != nil && ctx.Err() == nil {
		d.opts.Log.Warn("dispatch.sweep", "err", err)
	}
}
