package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

// The calls inside a call come one after the other, so the end of one can become durable in the
// commit of the next one's request, decision and intent: one commit for each in place of two.

// endsWait is how long an end waits for the next call's commit, which then takes it along.
const endsWait = 20 * time.Millisecond

// ends are those of the calls inside one call that are not durable yet. Its methods are safe for
// concurrent use.
type ends struct {
	d      *Dispatcher
	parent capabilities.CallID

	writing sync.Mutex

	mu    sync.Mutex // above what follows
	list  []stepEnd
	flush *time.Timer
	off   bool // the parent has ended: no end waits any more
}

// stepEnd is how a call inside another ended.
type stepEnd struct {
	c    *openCall
	r    capabilities.Result
	last ledger.Draft
}

// commit is hop 7 of a call inside another: its request, decision and intent, with the ends of
// those before it.
func (e *ends) commit(ctx context.Context, p *permitted) (*committed, *capabilities.Error) {
	list := e.take()
	c, err := e.d.commit(ctx, p, func(tx *store.Tx) error { return e.endIn(tx, list) })
	if err != nil {
		e.giveBack(list)
		return nil, err
	}
	e.told(list)
	return c, nil
}

// add takes an end, which becomes durable with the next call's commit, or soon.
func (e *ends) add(one stepEnd) {
	e.mu.Lock()
	e.list = append(e.list, one)
	e.soonLocked()
	off := e.off
	e.mu.Unlock()
	if off {
		e.write()
	}
}

func (e *ends) soonLocked() {
	if len(e.list) > 0 && e.flush == nil && !e.off {
		e.flush = time.AfterFunc(endsWait, e.write)
	}
}

func (e *ends) take() []stepEnd {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	if e.flush != nil {
		e.flush.Stop()
		e.flush = nil
	}
	return list
}

func (e *ends) giveBack(list []stepEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(list, e.list...)
	e.soonLocked()
}

func (e *ends) endIn(tx *store.Tx, list []stepEnd) error {
	for i := range list {
		f := opencalls.FateEnded // no retry asks for a call inside another
		if list[i].r.Code == capabilities.CodeUnknownOutcome {
			f = opencalls.FateUnknown
		}
		if err := e.d.endIn(tx, list[i].c, opencalls.Open, list[i].last, &list[i].r, f); err != nil {
			return err
		}
	}
	return nil
}

func (e *ends) told(list []stepEnd) {
	for i := range list {
		e.d.finished(list[i].c.trail, &list[i].r)
	}
}

// write makes durable what no commit has taken along. An end that cannot be written stays open: the
// node's journal tells it when the store works again.
func (e *ends) write() {
	e.writing.Lock()
	defer e.writing.Unlock()
	list := e.take()
	if len(list) == 0 {
		return
	}
	err := e.d.opts.Store.WriteTerminal(context.Background(), func(tx *store.Tx) error { return e.endIn(tx, list) })
	if err != nil {
		e.d.opts.Log.Error("tools.dispatch.unrecorded", "hop", capabilities.HopRecord, "call", e.parent, "steps", len(list), "err", err)
		for i := range list {
			e.d.open.Watch(list[i].c.row)
		}
	}
	e.told(list)
}

// close makes every end durable: the parent has ended.
func (e *ends) close() {
	e.mu.Lock()
	e.off = true
	e.mu.Unlock()
	e.write()
}

// waits reports whether the end r of c may wait for the next call's commit: nothing that is decided
// after it hangs on it, nobody asks for it again, and its node's journal tells it if the gateway
// ends meanwhile.
func (c *openCall) waits(r *capabilities.Result, f opencalls.Fate) bool {
	return c.ends != nil && c.node != "" && r.Status == capabilities.StatusOK && f == opencalls.FateEnded &&
		len(c.drift.Events) == 0 && c.drift.Uncounted == nil && len(r.Artifacts) == 0 && c.again == (execution.Key{}) && c.task == "" &&
		(!r.Untrusted || c.ends.d.taints.Has(c.lane, c.principal, c.tool.Family()))
}
