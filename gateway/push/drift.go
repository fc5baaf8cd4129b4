package push

import (
	"context"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Ledger is where drift is told from; gateway/ledger implements it.
type Ledger = ledger.Followed

const (
	maxTold   = 1024           // calls; a call's events come together
	driftLife = 24 * time.Hour // of a message about drift
)

// followDrift tells every browser of violations and critical drift of calls, once for each call,
// from packets after one on.
func (b *Book) followDrift(ctx context.Context, after uint64, jobs chan<- job) {
	told := map[capabilities.CallID]int{} // how strong the response is that was told
	ledger.Follow(ctx, b.opts.Ledger, after, ledger.KindDrift, func(p *ledger.Packet) {
		if len(told) > maxTold {
			clear(told)
		}
		var d packet.Drift
		if json.Unmarshal(p.Body, &d) != nil || d.Severity == drift.Warning || strength(&d) <= told[p.Call] {
			return
		}
		told[p.Call] = strength(&d)
		if !b.opts.Tells(ctx) {
			return
		}
		m := aboutDrift(p, &d)
		for _, s := range b.everybody() {
			select {
			case jobs <- job{s, m, b.opts.Now().Add(driftLife)}:
			default:
				b.opts.Log.Warn("push.dropped", "service", s.Service, "drift", d.ID)
			}
		}
	}, func(err error) { b.opts.Log.Warn("push.read", "err", err) })
}

// strength orders what people are told of one call: the stronger response is told, too.
func strength(d *packet.Drift) int {
	switch d.Response {
	case drift.Restricted, drift.Killed:
		return 3
	case drift.Quarantined:
		return 2
	}
	return 1
}

// aboutDrift says what was done without a grant and what follows, and nothing of the evidence: it
// may be shown on a locked screen.
func aboutDrift(p *ledger.Packet, d *packet.Drift) Message {
	m := Message{Drift: d.ID, Title: "Drift: " + string(d.Severity), Body: string(p.Tool) + " did " + d.Key + " without a grant."}
	switch d.Response {
	case drift.Restricted:
		m.Body += " It is not called until you have reviewed it."
	case drift.Quarantined:
		m.Body += " Its runner takes no calls until you lift that."
	}
	m.Title, m.Body = capabilities.Brief(consent.Plain(m.Title), maxText), capabilities.Brief(consent.Plain(m.Body), maxText)
	return m
}

// everybody is every browser that is told.
func (b *Book) everybody() []*subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	subs := make([]*subscription, 0, len(b.subs))
	for _, s := range b.subs {
		subs = append(subs, s)
	}
	return subs
}
