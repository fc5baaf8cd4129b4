package generation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "generation", Version: 1, SQL: `
		CREATE TABLE site_generation (
			one        INTEGER PRIMARY KEY,
			generation INTEGER NOT NULL,
			later      INTEGER NOT NULL,
			told_by    TEXT NOT NULL,
			told_ms    INTEGER NOT NULL
		) STRICT;
		INSERT INTO site_generation (one, generation, later, told_by, told_ms) VALUES (1, 0, 0, '', 0)`}}
}

// State is what is known of this copy. Later is the generation of a later copy that a node proved,
// ToldBy that node and At when; 0: nobody told of one.
type State struct {
	Generation uint64
	Later      uint64
	ToldBy     capabilities.NodeID
	At         time.Time
}

// Load reads the state.
func Load(ctx context.Context, s *store.Store) (State, error) {
	var own, later, at int64
	var by string
	err := s.Read().QueryRowContext(ctx, `SELECT generation, later, told_by, told_ms FROM site_generation WHERE one = 1`).
		Scan(&own, &later, &by, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return State{}, errors.New("generation: the store has no generation")
	}
	if err != nil {
		return State{}, fmt.Errorf("generation: %w", err)
	}
	return State{Generation: uint64(own), Later: uint64(later), ToldBy: capabilities.NodeID(by), At: time.UnixMilli(at)}, nil
}

// Superseded is the error of a gateway that a later copy has replaced; nil for one that none has.
func (s State) Superseded() error {
	if s.Later <= s.Generation {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeSiteSuperseded,
		"A later copy of this site (generation %d) was restored elsewhere, as node %s told on %s; this gateway is of generation %d.",
		s.Later, s.ToldBy, s.At.UTC().Format(time.RFC3339), s.Generation)
}

// HeardIn writes down, as part of tx, that a node proved a later copy.
func HeardIn(tx *store.Tx, node capabilities.NodeID, later pairing.Mark, now time.Time) error {
	_, err := tx.Exec(`UPDATE site_generation SET later = $1, told_by = $2, told_ms = $3 WHERE one = 1 AND later < $1`,
		int64(later.Generation), string(node), now.UnixMilli())
	return err
}

// RaiseIn makes this copy, as part of tx, the latest of its site. The generation is the moment in
// milliseconds, or one more than it was: two restores of one backup differ, and the later wins.
func RaiseIn(tx *store.Tx, now time.Time) (uint64, error) {
	var own, later int64
	if err := tx.QueryRow(`SELECT generation, later FROM site_generation WHERE one = 1`).Scan(&own, &later); err != nil {
		return 0, fmt.Errorf("generation: %w", err)
	}
	next := max(own+1, later+1, now.UnixMilli())
	if next > pairing.MaxGeneration {
		return 0, fmt.Errorf("generation: %d is the last", own)
	}
	_, err := tx.Exec(`UPDATE site_generation SET generation = $1, later = 0, told_by = '', told_ms = 0 WHERE one = 1`, next)
	return uint64(next), err
}
