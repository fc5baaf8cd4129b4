package store

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// turnTable has who of several gateways is at what takes more than one commit. One that was put out
// has no turn any more.
const turnTable = `
CREATE TABLE IF NOT EXISTS store_turn (
	name   TEXT COLLATE "C" PRIMARY KEY,
	member TEXT COLLATE "C" NOT NULL,
	number BIGINT NOT NULL
)`

const takeTurn = `INSERT INTO store_turn (name, member, number) VALUES ($1, $2, $3)
	ON CONFLICT (name) DO UPDATE SET member = excluded.member, number = excluded.number
	WHERE store_turn.member = excluded.member OR
		NOT EXISTS (SELECT 1 FROM store_member m WHERE m.member = store_turn.member AND m.gone = 0)`

const (
	turnAgain = 25 * time.Millisecond // until a turn is asked for again that another gateway has
	endAgain  = 250 * time.Millisecond
)

// Turn takes the turn of a name among the gateways of the site, for what takes more than one
// commit, and returns what ends it. The rooms know by then what the others wrote. Within one
// gateway its callers order themselves. CodeOverloaded if another has it until ctx ends. A gateway
// that serves alone has every turn.
func (s *Store) Turn(ctx context.Context, name string) (done func(), err error) {
	if s == nil || s.fleet == nil {
		return func() {}, nil
	}
	number := s.fleet.turns.Add(1)
	for {
		err := s.Write(ctx, func(tx *Tx) error {
			n, err := tx.Exec(takeTurn, name, s.fleet.member, number)
			if err == nil && n == 0 {
				return errNothing
			}
			return err
		})
		switch {
		case err == nil:
			return func() { s.endTurn(name, number) }, nil
		case !errors.Is(err, errNothing) && ctx.Err() == nil:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, capabilities.Wrap(capabilities.CodeOverloaded, ctx.Err(), "Another gateway of the site is at the same.").
				WithHint("Repeat it in some seconds.")
		case <-time.After(turnAgain):
		}
	}
}

// endTurn lets others have a turn. Where the database is away it tries again behind the caller's
// back, for as long as this gateway can still be in.
func (s *Store) endTurn(name string, number int64) {
	end := func() bool {
		err := s.Write(context.Background(), func(tx *Tx) error {
			_, err := tx.Exec(`DELETE FROM store_turn WHERE name = $1 AND member = $2 AND number = $3`, name, s.fleet.member, number)
			return err
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		return err == nil || s.closed || s.poison.Load() != nil
	}
	if end() {
		return
	}
	go func() {
		for range 2 * int(statementLimit/endAgain) {
			time.Sleep(endAgain)
			if end() {
				return
			}
		}
	}()
}
