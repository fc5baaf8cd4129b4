package rest

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// surfaced takes what a page says that it offers, and records what it should not.
func (s *Server) surfaced(c *visit, in api.Surfaced) (api.SignalList, error) {
	report := drift.Surfaced{Surface: in.Surface, Page: in.Page, Controls: in.Controls}
	for _, k := range in.Keys {
		report.Keys = append(report.Keys, drift.Key(k))
	}
	signals, err := drift.Compare(report, effective{s, c})
	if err != nil {
		return api.SignalList{}, err
	}
	out := api.SignalList{Signals: viewAll(signals, front.ViewSignal)}
	if len(signals) == 0 {
		return out, nil
	}
	s.opts.Log.Warn("drift.surfaced", "principal", c.who.Principal, "token_id", c.who.TokenID, "surface", in.Surface, "signals", len(signals))
	signals, more := s.drifted.fresh(c.who.TokenID, signals, s.opts.Now())
	if more != nil { // nothing is dropped without its number
		if err := s.opts.Drift.Uncounted(c.r.Context(), c.who, *more); err != nil {
			return out, err
		}
	}
	if len(signals) == 0 {
		return out, nil
	}
	return out, s.opts.Drift.Surfaced(c.r.Context(), c.who, report, signals)
}

// effective is what holds for a visitor now: the same rule as for serving.
type effective struct {
	s *Server
	c *visit
}

// Control implements drift.Effective.
func (e effective) Control(name string) (known, may bool) {
	row := e.s.row(name)
	return row != nil, row.visible(e.c.who)
}

// Granted implements drift.Effective by the decision that the ledger holds.
func (e effective) Granted(call capabilities.CallID) ([]string, bool) {
	if call == "" {
		return nil, false
	}
	packets, err := e.s.opts.Ledger.Packets(e.c.r.Context(), ledger.Query{Call: call, Kind: ledger.KindCallDecision, Newest: true, Limit: 1})
	if err != nil || len(packets) == 0 {
		return nil, false
	}
	var decision packet.Decision
	if json.Unmarshal(packets[0].Body, &decision) != nil {
		return nil, false
	}
	if e := decision.Summary(); e != nil {
		return e.Grants, true
	}
	return nil, true
}

// drifted remembers the signals of late, so that a page which reports the same with
// each change, or somebody who makes reports up, does not fill the ledger.
type drifted struct {
	mu   sync.Mutex
	seen map[string][]recalled // by token
	more map[string]*beyond    // by token: signals beyond driftMost
}

// beyond counts what no packet has yet.
type beyond struct {
	packet.DriftUncounted
	told time.Time // when a packet last said how many
}

type recalled struct {
	signal drift.Signal
	at     time.Time
}

const (
	driftAgain = 10 * time.Minute // the same signal of the same visitor
	driftMost  = 50               // different ones of one visitor in that time; of more, packets say how many
	driftTells = time.Minute      // between such packets
	driftWho   = 1024             // visitors remembered
)

// fresh returns those of signals that were not recorded lately, and how many there were beyond
// driftMost since a packet last said so; nil: there is nothing to say now.
func (d *drifted) fresh(token string, signals []drift.Signal, now time.Time) (fresh []drift.Signal, more *packet.DriftUncounted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil || len(d.seen) >= driftWho && d.seen[token] == nil {
		d.seen, d.more = map[string][]recalled{}, map[string]*beyond{}
	}
	had := slices.DeleteFunc(d.seen[token], func(k recalled) bool { return now.Sub(k.at) >= driftAgain })
	for _, s := range signals {
		switch {
		case slices.ContainsFunc(had, func(k recalled) bool { return k.signal == s }):
		case len(had) < driftMost:
			had = append(had, recalled{s, now})
			fresh = append(fresh, s)
		default:
			if d.more[token] == nil {
				d.more[token] = &beyond{}
			}
			d.more[token].add(s.Severity)
		}
	}
	d.seen[token] = had
	if b := d.more[token]; b != nil && b.Events > 0 && now.Sub(b.told) >= driftTells {
		told := b.DriftUncounted
		*b = beyond{told: now}
		return fresh, &told
	}
	return fresh, nil
}

func (b *beyond) add(s drift.Severity) {
	if b.Events++; b.Severity == "" || s.Worse(b.Severity) {
		b.Severity = s
	}
}
