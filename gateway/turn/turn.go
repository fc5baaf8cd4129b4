package turn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Bounds.
const (
	MaxListed  = 500
	keeps      = 30 * 24 * time.Hour // how long a row stays
	maxEach    = 10_000              // rows of one principal; the oldest go first
	sweepEvery = time.Hour
)

// The kinds of packets.
const (
	KindStage = "worker.stage"
	KindTurn  = "worker.turn"
)

// Turn is one that is kept.
type Turn struct {
	ID        string
	Principal capabilities.PrincipalID
	Claim     turn.Claim
	Received  time.Time
	// First is the number of the packet of its first stage; the others follow it in order. 0: not
	// known.
	First uint64
}

// Recorded is the body of worker.stage and worker.turn: what a worker claims.
type Recorded struct {
	Turn    string `json:"turn_id"`
	Session string `json:"session_id"`
	turn.Stage
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "turn", Version: 1, SQL: `
		CREATE TABLE turns (
			turn        INTEGER PRIMARY KEY,
			id          TEXT NOT NULL UNIQUE,
			principal   TEXT NOT NULL,
			received_ms INTEGER NOT NULL,
			claim       TEXT NOT NULL
		) STRICT;
		CREATE INDEX turns_principal ON turns (principal, turn);
		CREATE INDEX turns_received ON turns (received_ms)`},
		{Room: "turn", Version: 2, SQL: `ALTER TABLE turns ADD COLUMN first INTEGER NOT NULL DEFAULT 0`}}
}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction and returns its number; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) (uint64, error)
	Now    func() time.Time // default time.Now
}

// Turns is all turns. Its methods are safe for concurrent use.
type Turns struct{ opts Options }

// New makes it over a store; Run sweeps.
func New(o Options) (*Turns, error) {
	if o.Store == nil {
		return nil, errors.New("turn: Options.Store is required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) (uint64, error) { return 0, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Turns{o}, nil
}

// Put keeps a principal's claim and records it; the same claim again returns the turn that is kept.
// CodeInvalidRequest for one out of bounds, CodeConflict for another claim with the ID of one that
// is kept.
func (t *Turns) Put(ctx context.Context, p capabilities.PrincipalID, c turn.Claim) (Turn, error) {
	if err := c.Validate(); err != nil {
		return Turn{}, err
	}
	claim, err := json.Marshal(c)
	if err != nil {
		return Turn{}, err
	}
	sum := sha256.Sum256(append([]byte(string(p)+"\x00"), claim...))
	now := t.opts.Now()
	kept := Turn{ID: cmp.Or(c.Turn, "turn_"+hex.EncodeToString(sum[:8])), Principal: p, Claim: c, Received: now.UTC()}
	err = t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		var received int64
		var whose, said string
		switch err := tx.QueryRow(`SELECT received_ms, first, principal, claim FROM turns WHERE id = $1`, kept.ID).
			Scan(&received, &kept.First, &whose, &said); {
		case err == nil && (whose != string(p) || said != string(claim)):
			return capabilities.Errorf(capabilities.CodeConflict, "another turn has the ID %s", kept.ID).
				WithHint("Choose another turn_id, or none.")
		case err == nil:
			kept.Received = time.UnixMilli(received).UTC()
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if kept.First, err = t.recordIn(tx, &kept); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO turns (id, principal, received_ms, claim, first) VALUES ($1, $2, $3, $4, $5)`,
			kept.ID, string(p), now.UnixMilli(), string(claim), int64(kept.First)); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM turns WHERE principal = $1 AND turn <= (
			SELECT turn FROM turns WHERE principal = $1 ORDER BY turn DESC LIMIT 1 OFFSET $2)`, string(p), maxEach); err != nil {
			return err
		}
		return nil
	})
	return kept, err
}

// recordIn writes the packets of a turn's stages and returns the number of the first.
func (t *Turns) recordIn(tx *store.Tx, kept *Turn) (first uint64, err error) {
	for i, s := range kept.Claim.Stages {
		kind := KindStage
		if s.Stage == turn.Pipeline {
			kind = KindTurn
		}
		seq, err := t.opts.Record(tx, kind, kept.Principal, Recorded{kept.ID, kept.Claim.Session, s})
		if err != nil {
			return 0, err
		}
		if i == 0 {
			first = seq
		}
	}
	return first, nil
}

const columns = `id, principal, received_ms, claim, first`

// Get returns a turn of a principal, "" for anybody's; CodeNotFound if there is none.
func (t *Turns) Get(ctx context.Context, p capabilities.PrincipalID, id string) (Turn, error) {
	found, err := scan(t.opts.Store.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM turns
		WHERE id = $1 AND ($2 = '' OR principal = $2)`, id, string(p)))
	if errors.Is(err, sql.ErrNoRows) {
		return Turn{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no turn %s", capabilities.Escape(capabilities.Clip(id, 40)))
	}
	return found, err
}

// List returns the newest turns of a principal, "" for everybody's, and of a session, "" for all;
// at most limit.
func (t *Turns) List(ctx context.Context, p capabilities.PrincipalID, session string, limit int) ([]Turn, error) {
	rows, err := t.opts.Store.Read().QueryContext(ctx, `SELECT `+columns+` FROM turns
		WHERE ($1 = '' OR principal = $1) AND ($2 = '' OR json_extract(claim, '$.session_id') = $2) ORDER BY turn DESC LIMIT $3`,
		string(p), session, min(limit, MaxListed))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Turn
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

func scan(row interface{ Scan(...any) error }) (found Turn, err error) {
	var p, claim string
	var received int64
	if err := row.Scan(&found.ID, &p, &received, &claim, &found.First); err != nil {
		return Turn{}, err
	}
	found.Principal, found.Received = capabilities.PrincipalID(p), time.UnixMilli(received).UTC()
	return found, json.Unmarshal([]byte(claim), &found.Claim)
}

// Run removes rows whose time is over, until ctx ends.
func (t *Turns) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		_ = t.Sweep(ctx) // one that fails is tried again
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Sweep removes rows whose time is over.
func (t *Turns) Sweep(ctx context.Context) error {
	return t.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM turns WHERE received_ms < $1`, t.opts.Now().Add(-keeps).UnixMilli())
		return err
	})
}
