package dispatch

import (
	"context"
	"crypto/hmac"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
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
	c      *call
	result capabilities.Result
	fate   fate
	last   ledger.Draft // its end, if that is not recorded; else only the result is to be kept
	unsaid bool
	key    requestKey
	holder *keyed // under key; nil: no retry can ask
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
	if one.c.row.request == "" {
		return
	}
	f := newFlight(func(error) {})
	f.land(one.result)
	one.key = requestKey{one.c.row.principal, one.c.row.request}
	one.holder = d.remembered(one.c, f)
	d.flights.hold(one.key, one.holder)
}

// remembered is the flight of a call of which only its row is left: it compares the
// arguments by their keyed digest.
func (d *Dispatcher) remembered(c *call, f *flight) *keyed {
	r := &c.row
	return &keyed{flight: f, call: r.call, node: r.node, recovered: func(other *keyed) bool {
		mac := c.key.MAC(other.canonical)
		return r.tool == other.tool && r.lane == other.lane && r.requested == other.target && hmac.Equal(mac[:], r.argsMAC)
	}}
}

// runLate writes down what is late, as the disk takes it, until ctx ends.
func (d *Dispatcher) runLate(ctx context.Context) {
	for pause := leastPause; ; {
		if d.late.first() == nil {
			pause = leastPause
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
			pause = leastPause
		} else {
			pause = min(2*pause, mostPause)
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
				return d.endIn(tx, one.c, rowOpen, one.last, &one.result, one.fate)
			})
		} else {
			kept = true
			err = d.opts.Store.Write(ctx, func(tx *store.Tx) error { return d.keepResult(tx, one.c.id, &one.result) })
		}
		if err != nil {
			return false
		}
		if one.unsaid {
			one.unsaid = false
			d.opts.Log.Info("tools.dispatch.recorded", "call", one.c.id, "tool", one.c.req.Tool)
			d.watched(one.c, one.fate)
		}
		if !kept && one.keeps() {
			return false // on the reserve: its result waits for room
		}
		if one.holder != nil {
			d.flights.release(one.key, one.holder)
		}
		d.late.drop(one)
	}
	return true
}

// keeps reports whether a retry may ask for the result.
func (o *lateCall) keeps() bool {
	return o.c.row.request != "" && (o.fate == fateEnded || o.fate == fateCut)
}
