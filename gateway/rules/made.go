package rules

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/tally"
)

// made is the calls that a policy lets through of those that are judged again, and the recorded
// ones of the day before: what its rules see of how often a tool was called. Nothing is read for
// a policy that does not look at it.
type made struct {
	engine  *policy.Engine // nil: nothing is judged
	packets Packets
	book    tally.Book
	known   map[pair]bool // of which the day before was read
}

type pair struct {
	who  capabilities.PrincipalID
	tool capabilities.ToolID
}

func newMade(engine *policy.Engine, packets Packets) *made {
	return &made{engine: engine, packets: packets, known: map[pair]bool{}}
}

// counts reports whether the policy looks at how often a tool was called.
func (m *made) counts(tool capabilities.ToolID) bool { return m.engine != nil && m.engine.Counts(tool) }

// before returns what the rules see at a recorded decision.
func (m *made) before(ctx context.Context, p *ledger.Packet) (policy.Calls, error) {
	if !m.counts(p.Tool) {
		return policy.Calls{}, nil
	}
	if of := (pair{p.Principal, p.Tool}); !m.known[of] {
		m.known[of] = true
		past, err := recorded(ctx, m.packets, p)
		if err != nil {
			return policy.Calls{}, err
		}
		m.book.Recall(past)
	}
	return m.book.Of(p.Principal, p.Tool, p.Time()), nil
}

// passes notes a call that the policy lets through: by itself, or with a person's word where they
// gave it, or where nobody was asked then.
func (m *made) passes(p *ledger.Packet, c Change) {
	if m.counts(p.Tool) && (c.Would == policy.Allow || c.Would == policy.Ask && c.went) {
		m.book.Add(p.Principal, p.Tool, p.Time())
	}
}

// recorded returns the calls of a decision's principal and tool that went on in the day before it.
func recorded(ctx context.Context, packets Packets, p *ledger.Packet) (past []tally.Past, err error) {
	oldest := p.Time().Add(-24 * time.Hour)
	for before := p.Seq; ; {
		page, err := packets.Packets(ctx, ledger.Query{
			Before: before, Newest: true, Kind: ledger.KindCallDispatch, Tool: p.Tool, Principal: p.Principal, Limit: replayPage,
		})
		if err != nil {
			return nil, err
		}
		for i := range page {
			if !page[i].Time().After(oldest) {
				return past, nil
			}
			past = append(past, tally.Past{Principal: p.Principal, Tool: p.Tool, At: page[i].Time()})
			before = page[i].Seq
		}
		if len(page) < replayPage {
			return past, nil
		}
	}
}
