package dispatch

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/tally"
)

// quota is what rules are told of how often tools were called. Calls of this process are noted as
// they are committed; those of earlier ones are read from the ledger once a rule looks at them.
// Where several gateways serve at once, the ledger tells of the calls of all: see follow.
type quota struct {
	book  tally.Book
	until uint64 // the last packet of earlier processes; 0: there is none

	mu       sync.Mutex
	recalled bool
	// seen is the last packet that was read, of those of several gateways; own are the calls that
	// were noted here and stand behind it, or are about to.
	seen uint64
	own  map[capabilities.CallID]bool
}

// recallPage is how many packets are read at once.
const recallPage = 1000

// recall reads the last day of earlier processes, once.
func (q *quota) recall(ctx context.Context, from *ledger.Ledger) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.recalled || q.until == 0 {
		return nil
	}
	return q.recallLocked(ctx, from, q.until)
}

func (q *quota) recallLocked(ctx context.Context, from *ledger.Ledger, until uint64) error {
	oldest := time.Now().Add(-24 * time.Hour)
	var past []tally.Past
	for before := until + 1; before > 0; {
		page, err := from.Packets(ctx, ledger.Query{Before: before, Newest: true, Kind: ledger.KindCallDispatch, Limit: recallPage})
		if err != nil {
			return err
		}
		before = 0
		for i := range page {
			if p := &page[i]; p.Time().After(oldest) {
				past = append(past, tally.Past{Principal: p.Principal, Tool: p.Tool, At: p.Time()})
				before = p.Seq
			} else {
				before = 0
			}
		}
		if len(page) < recallPage {
			break
		}
	}
	q.book.Recall(past)
	q.recalled = true
	return nil
}

// follow reads which calls were ordered since the last time, by whichever gateway; at first those
// of the last day. All commits have one order: in a function of Store.Write it knows every call
// that was committed before.
func (q *quota) follow(ctx context.Context, from *ledger.Ledger) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.followLocked(ctx, from)
}

func (q *quota) followLocked(ctx context.Context, from *ledger.Ledger) error {
	if !q.recalled {
		tip, _ := from.Tip()
		if err := q.recallLocked(ctx, from, tip); err != nil {
			return err
		}
		q.seen, q.own = tip, map[capabilities.CallID]bool{}
	}
	for {
		page, err := from.Packets(ctx, ledger.Query{After: q.seen, Kind: ledger.KindCallDispatch, Limit: recallPage})
		if err != nil {
			return err
		}
		for i := range page {
			p := &page[i]
			if q.seen = p.Seq; q.own[p.Call] {
				delete(q.own, p.Call)
			} else {
				q.book.Add(p.Principal, p.Tool, p.Time())
			}
		}
		if len(page) < recallPage {
			return nil
		}
	}
}

// lately returns what the rules are told of how often a call's tool was called by its principal.
// A request ID that was seen already makes no call more: it gets its result.
func (d *Dispatcher) lately(ctx context.Context, engine *policy.Engine, q *resolved) (policy.Calls, *capabilities.Error) {
	if !engine.Counts(q.tool) {
		return policy.Calls{}, nil
	}
	read := d.quota.recall
	if d.opts.Store.Member() != "" {
		read = d.quota.follow
	}
	if err := read(context.WithoutCancel(ctx), d.opts.Ledger); err != nil {
		return policy.Calls{}, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	if q.req.RequestID != "" {
		if _, seen, err := d.open.Find(ctx, q.principal, q.asker().Person, q.req.RequestID); err == nil && seen {
			return policy.Calls{}, nil
		}
	}
	return d.quota.book.Of(q.principal, q.tool, time.Now()), nil
}

// spend notes a call that is about to be committed. Where a rule looks at how often the tool is
// called, it is judged once more by what has been committed until now: of any number of calls at
// once no more go on than the rule lets. unspent takes it back, for a call that was not committed.
func (d *Dispatcher) spend(p *permitted) (unspent func(), _ *capabilities.Error) {
	r := p.policyRequest(p.node)
	r.Consented, r.Time = p.permit.Grant != "", p.began.Add(p.waited)
	counts := p.engine.Counts(p.tool)
	unspent, ok := d.quota.book.Take(p.principal, p.tool, time.Now(), func(before policy.Calls) bool {
		if !counts {
			return true
		}
		r.Calls = before
		return p.engine.Decide(r).Effect == policy.Allow
	})
	if ok {
		return unspent, nil
	}
	if e := p.limited(r, policy.Allow); e != nil {
		return nil, e
	}
	v := p.engine.Decide(r)
	if v.Effect == policy.Ask { // a person is asked from now on
		return nil, capabilities.Errorf(capabilities.CodeConflict, "Calls of %s are asked about by now.", p.tool).WithHint("Call again.")
	}
	return nil, p.policyError(&v)
}

// spendIn is spend in the commit itself, where several gateways serve: nobody commits meanwhile, so
// it knows the calls of all of them. A tool that no rule counts is not noted: the ledger tells of
// it.
func (d *Dispatcher) spendIn(ctx context.Context, p *permitted) (unspent func(), _ error) {
	if !p.engine.Counts(p.tool) {
		return func() {}, nil
	}
	q := &d.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.followLocked(ctx, d.opts.Ledger); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	undo, refused := d.spend(p)
	if refused != nil {
		return nil, refused
	}
	q.own[p.id] = true
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.own[p.id] { // its packet was not read: it is not in the ledger
			delete(q.own, p.id)
			undo()
		}
	}, nil
}

// Limited says when a call that was made too often would be let through.
type Limited struct {
	RetryMS int64 `json:"retry_after_ms"`
}

// RetryAfter is how long to wait before the next try.
func (l Limited) RetryAfter() time.Duration { return time.Duration(l.RetryMS) * time.Millisecond }

// limited is the refusal of a call that policy would let through, as far as least at least, if its
// tool had not been called so often; nil: that is not why, or no time makes it right.
func (n *routed) limited(r policy.Request, least policy.Effect) *capabilities.Error {
	if n.quota == nil || !n.engine.Counts(r.Tool) {
		return nil
	}
	passes := func(calls policy.Calls) bool { r.Calls = calls; return n.engine.Decide(r).Effect >= least }
	if !passes(policy.Calls{}) {
		return nil
	}
	now := time.Now()
	falls := n.quota.book.Next(r.Principal, r.Tool, now)
	i := sort.Search(len(falls), func(i int) bool {
		r.Time = falls[i] // other rules look at it, too
		return passes(n.quota.book.Of(r.Principal, r.Tool, falls[i]))
	})
	if i == len(falls) {
		return nil
	}
	wait := max(falls[i].Sub(now), 0)/time.Millisecond + 1
	return capabilities.Errorf(capabilities.CodeOverloaded, "Policy lets this principal call %s again in %s.", r.Tool,
		capabilities.Spoken((time.Duration(wait) * time.Millisecond).Round(time.Second))).
		WithHint("Wait for retry_after_ms, and try again.").WithDetails(Limited{RetryMS: int64(wait)})
}
