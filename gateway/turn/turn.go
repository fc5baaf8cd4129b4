package turn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
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
	// Lease is how long a turn is said to run without a word of its worker. A worker says where it is
	// at each stage, and three times in that time.
	Lease = time.Minute
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
	Claim     turn.Claim // with its state
	// Received is when its end came; of one that has none, its newest stage.
	Received time.Time
	Until    time.Time // of one that runs, when it is lost without another word
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
		{Room: "turn", Version: 2, SQL: `ALTER TABLE turns ADD COLUMN first INTEGER NOT NULL DEFAULT 0`},
		{Room: "turn", Version: 3, SQL: `
		ALTER TABLE turns ADD COLUMN state TEXT NOT NULL DEFAULT 'ended';
		ALTER TABLE turns ADD COLUMN until_ms INTEGER NOT NULL DEFAULT 0`}}
}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction and returns its number; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) (uint64, error)
	Lease  time.Duration    // default Lease
	Now    func() time.Time // default time.Now
}

// Turns is all turns. Its methods are safe for concurrent use.
type Turns struct {
	opts  Options
	mu    sync.Mutex
	moved chan struct{} // closed at the next change of any turn
}

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
	if o.Lease == 0 {
		o.Lease = Lease
	}
	return &Turns{opts: o, moved: make(chan struct{})}, nil
}

// Put keeps a principal's claim. One that says that its turn runs is kept until the next of it; one
// that has ended is recorded, and the same again returns the turn that is kept. CodeInvalidRequest
// for one out of bounds, CodeConflict for another claim with the ID of one that is kept.
func (t *Turns) Put(ctx context.Context, p capabilities.PrincipalID, c turn.Claim) (Turn, error) {
	if err := c.Validate(); err != nil {
		return Turn{}, err
	}
	running := c.State == turn.Running
	c.State = ""
	claim, err := json.Marshal(c)
	if err != nil {
		return Turn{}, err
	}
	sum := sha256.Sum256(append([]byte(string(p)+"\x00"), claim...))
	id := cmp.Or(c.Turn, "turn_"+hex.EncodeToString(sum[:8]))
	var kept Turn
	moved := false
	err = t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		known, said, err := t.knownIn(tx, id)
		if err != nil {
			return err
		}
		now := t.opts.Now().UTC()
		kept, moved = Turn{ID: id, Principal: p, Claim: c, Received: now}, true
		text := claim
		ended := known != nil && known.Claim.State == turn.Ended
		switch {
		case known != nil && !known.goesOn(&kept), ended && !running && said != string(claim):
			return capabilities.Errorf(capabilities.CodeConflict, "another turn has the ID %s", id).
				WithHint("Choose another turn_id, or none.")
		case ended: // the same again, or a word of before that was late
			kept, moved = *known, false
			return nil
		case running && known != nil && len(known.Claim.Stages) >= len(c.Stages): // only its lease is another
			kept.Claim, kept.Received, text = known.Claim, known.Received, []byte(said)
			moved = known.Claim.State == turn.Lost
		}
		if running {
			kept.Claim.State, kept.Until = turn.Running, now.Add(t.opts.Lease)
			return t.saveIn(tx, &kept, string(text), known == nil)
		}
		kept.Claim.State = turn.Ended
		if kept.First, err = t.recordIn(tx, &kept); err != nil {
			return err
		}
		return t.saveIn(tx, &kept, string(text), known == nil)
	})
	if err == nil && moved {
		t.move()
	}
	return kept, err
}

// goesOn reports whether a word is one of the same turn.
func (t *Turn) goesOn(word *Turn) bool {
	return t.Principal == word.Principal && t.Claim.Session == word.Claim.Session && t.Claim.Lane == word.Claim.Lane &&
		t.Claim.Started.Equal(word.Claim.Started)
}

// knownIn returns the turn of an ID with its claim as it is written; nil if there is none.
func (t *Turns) knownIn(tx *store.Tx, id string) (*Turn, string, error) {
	found, said, err := t.scan(tx.QueryRow(`SELECT `+columns+` FROM turns WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	return &found, said, err
}

// saveIn writes a turn's row. Of a principal's rows the oldest go first.
func (t *Turns) saveIn(tx *store.Tx, kept *Turn, claim string, fresh bool) error {
	var until int64
	if !kept.Until.IsZero() {
		until = kept.Until.UnixMilli()
	}
	if !fresh {
		_, err := tx.Exec(`UPDATE turns SET received_ms = $2, claim = $3, first = $4, state = $5, until_ms = $6 WHERE id = $1`,
			kept.ID, kept.Received.UnixMilli(), claim, int64(kept.First), string(kept.Claim.State), until)
		return err
	}
	if _, err := tx.Exec(`INSERT INTO turns (id, principal, received_ms, claim, first, state, until_ms) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		kept.ID, string(kept.Principal), kept.Received.UnixMilli(), claim, int64(kept.First), string(kept.Claim.State), until); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM turns WHERE principal = $1 AND turn <= (
		SELECT turn FROM turns WHERE principal = $1 ORDER BY turn DESC LIMIT 1 OFFSET $2)`, string(kept.Principal), maxEach)
	return err
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

const columns = `id, principal, received_ms, claim, first, state, until_ms`

// Get returns a turn of a principal, "" for anybody's; CodeNotFound if there is none.
func (t *Turns) Get(ctx context.Context, p capabilities.PrincipalID, id string) (Turn, error) {
	found, _, err := t.scan(t.opts.Store.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM turns
		WHERE id = $1 AND ($2 = '' OR principal = $2)`, id, string(p)))
	if errors.Is(err, sql.ErrNoRows) {
		return Turn{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no turn %s", capabilities.Escape(capabilities.Clip(id, 40)))
	}
	return found, err
}

// Query says which turns List returns.
type Query struct {
	Principal capabilities.PrincipalID // "": everybody's
	Session   string                   // "": of all
	State     turn.State               // "": in any
	Limit     int                      // required
}

// List returns the newest turns of a query.
func (t *Turns) List(ctx context.Context, q Query) ([]Turn, error) {
	rows, err := t.opts.Store.Read().QueryContext(ctx, `SELECT `+columns+` FROM turns
		WHERE ($1 = '' OR principal = $1) AND ($2 = '' OR json_extract(claim, '$.session_id') = $2)
		AND ($3 = '' OR CASE WHEN state = 'running' AND until_ms <= $4 THEN 'lost' ELSE state END = $3) ORDER BY turn DESC LIMIT $5`,
		string(q.Principal), q.Session, string(q.State), t.opts.Now().UnixMilli(), min(q.Limit, MaxListed))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Turn
	for rows.Next() {
		one, _, err := t.scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// scan reads a row. One that runs is lost once its lease is over: the row says the same at any
// time, after a start and at each gateway of several.
func (t *Turns) scan(row interface{ Scan(...any) error }) (found Turn, claim string, err error) {
	var p, state string
	var received, until int64
	if err := row.Scan(&found.ID, &p, &received, &claim, &found.First, &state, &until); err != nil {
		return Turn{}, "", err
	}
	if err := json.Unmarshal([]byte(claim), &found.Claim); err != nil {
		return Turn{}, "", err
	}
	found.Principal, found.Received = capabilities.PrincipalID(p), time.UnixMilli(received).UTC()
	if found.Claim.State = turn.State(state); found.Claim.State == turn.Running {
		if found.Until = time.UnixMilli(until).UTC(); !found.Until.After(t.opts.Now()) {
			found.Claim.State, found.Until = turn.Lost, time.Time{}
		}
	}
	return found, claim, nil
}

// Tables are those whose change by another gateway is heard of.
var Tables = []string{"turns"}

// Again is called once another gateway changed a turn.
func (t *Turns) Again(context.Context) error {
	t.move()
	return nil
}

func (t *Turns) move() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.moved)
	t.moved = make(chan struct{})
}

// Moved is closed when a turn is another than before; ask again for the next. That a lease is over
// is no change.
func (t *Turns) Moved() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved
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
