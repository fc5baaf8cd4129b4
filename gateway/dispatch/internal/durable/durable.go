package durable

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Committed is a call whose request, decision and intent are durable.
type Committed[T any] struct {
	of      T
	durable bool
}

// Of returns the call. It panics for a value that Commit did not make.
func (c *Committed[T]) Of() T {
	if c == nil || !c.durable {
		panic("durable: a call that was not committed")
	}
	return c.of
}

// Packets are what has to be durable before a call is carried out.
type Packets struct {
	Request   ledger.Draft
	Decisions []ledger.Draft // one, or two where a person's grant added something
	Intent    ledger.Draft
}

// Commit writes p, and what also adds to it, in one commit, and returns of as committed.
// With an error nothing was written. also may be nil; it may run more than once.
func Commit[T any](ctx context.Context, s *store.Store, l *ledger.Ledger, of T, p Packets,
	also func(*store.Tx) error) (*Committed[T], error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	drafts := append([]ledger.Draft{p.Request}, p.Decisions...)
	drafts = append(drafts, p.Intent)
	err := s.Write(ctx, func(tx *store.Tx) error {
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		_, err := l.AppendIn(tx, drafts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Committed[T]{of: of, durable: true}, nil
}

var errPackets = errors.New("durable: a commit needs a request, its decisions and an intent, all of one call")

func (p *Packets) check() error {
	call := p.Request.Call
	if call == "" || p.Request.Kind != ledger.KindCallRequest || len(p.Decisions) == 0 ||
		p.Intent.Kind != ledger.KindCallDispatch || p.Intent.Call != call {
		return errPackets
	}
	for i := range p.Decisions {
		if p.Decisions[i].Kind != ledger.KindCallDecision || p.Decisions[i].Call != call {
			return errPackets
		}
	}
	return nil
}
