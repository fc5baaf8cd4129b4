package dispatch

import (
	"context"
	"crypto/hmac"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	// mostLate bounds the bytes of results that wait in memory for room on the disk.
	mostLate = 64 << 20
)

// late is the calls that have ended and whose end, or whose result, the disk did not
// take. Memory knows them meanwhile, so that a retry is told the truth.
type late struct {
	mu    sync.Mutex
	bytes int
	calls []*lateCall // oldest first
	wake  chan struct{}
}

// lateCall is one of them.
type lateCall struct {
	c      *openCall
	result capabilities.Result
	fate   opencalls.Fate
	last   ledger.Draft // its end, if that is not recorded; else only the result is to be kept
	unsaid bool
	key    execution.Key
	holder *execution.Asked // under key; nil: no retry can ask
	size   int
}

func newLate() late { return late{wake: make(chan struct{}, 1)} }

func (l *late) add(one *lateCall) (fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fits = l.bytes+one.size <= mostLate; !fits {
		one.size = 0
	}
	l.bytes += one.size
	l.calls = append(l.calls, one)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return fits
}

func (l *late) first() *lateCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		return nil
	}
	return l.calls[0]
}

// drop takes the first out, which is one.
func (l *late) drop(one *lateCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) > 0 && l.calls[0] == one {
		l.calls, l.bytes = l.calls[1:], l.bytes-one.size
	}
}

// keepLate has memory answer for a call until the disk takes its end. Of more than
// memory keeps, it says that the call was carried out.
func (d *Dispatcher) keepLate(one *lateCall) {
	one.size = len(one.result.Output)
	for _, b := range one.result.Blobs {
		one.size += len(b.Bytes)
	}
	if !d.late.add(one) && one.result.Status == capabilities.StatusOK {
		one.result = one.c.failure(gone())
	}
	if one.c.row.Request == "" {
		return
	}
	one.key = keyOf(&one.c.row)
	one.holder = d.remembered(one.c, execution.Ended(one.result))
	d.executions.Replace(one.key, one.holder)
}

// remembered is what was asked by a call of which only its row is left: the arguments are
// compared by their keyed digest.
func (d *Dispatcher) remembered(c *openCall, x *execution.Execution) *execution.Asked {
	r := &c.row
	return &execution.Asked{Execution: x, Call: r.ID, Node: r.Node, Earlier: func(other *execution.Asked) bool {
		mac := c.key.MAC(other.Canonical)
		return r.Tool == other.Tool && r.Lane == other.Lane && r.Requested == other.Target && hmac.Equal(mac[:], r.ArgsMAC)
	}}
}

// keyOf is what a retry of an open call with a request ID is recognised by.
func keyOf(c *opencalls.Call) execution.Key {
	return execution.Key{Asker: execution.Asker{Principal: c.Principal, Person: c.Person}, Request: c.Request}
}

// runLate writes down what is late, as the disk takes it, until ctx ends.
func (d *Dispatcher) runLate(ctx context.Context) {
	for pause := opencalls.LeastPause; ; {
		if d.late.first() == nil {
			pause = opencalls.LeastPause
			select {
			case <-ctx.Done():
				return
			case <-d.late.wake:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if d.writeLate(ctx) {
			pause = opencalls.LeastPause
		} else {
			pause = min(2*pause, opencalls.MostPause)
		}
	}
}

// writeLate writes what is late, up to the first that the disk does not take.
func (d *Dispatcher) writeLate(ctx context.Context) (all bool) {
	for one := d.late.first(); one != nil; one = d.late.first() {
		kept, err := false, error(nil)
		if one.unsaid {
			err = d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
				kept = !tx.Reserved()
				return d.endIn(tx, one.c, opencalls.Open, one.last, &one.result, one.fate)
			})
		} else {
			kept = true
			err = d.opts.Store.Write(ctx, func(tx *store.Tx) error { return d.open.KeepIn(tx, one.c.id, &one.result) })
		}
		if err != nil {
			return false
		}
		if one.unsaid {
			one.unsaid = false
			d.opts.Log.Info("tools.dispatch.recorded", "call", one.c.id, "tool", one.c.tool)
			d.watched(one.c, one.fate)
		}
		if !kept && one.keeps() {
			return false // on the reserve: its result waits for room
		}
		if one.holder != nil {
			d.executions.Release(one.key, one.holder)
		}
		d.late.drop(one)
	}
	return true
}

// keeps reports whether a retry may ask for the result.
func (o *lateCall) keeps() bool {
	return o.c.row.Request != "" && (o.fate == opencalls.FateEnded || o.fate == opencalls.FateCut)
}
