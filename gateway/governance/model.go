package governance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

// foldVersion is raised when the same packets make other numbers: the store then folds them anew.
const foldVersion = 3

// Bounds of folding and keeping.
const (
	batch     = 10_000               // packets folded in one transaction
	each      = 30 * time.Second     // how often Run folds what came since
	keepHours = 60 * 24 * time.Hour  // numbers by the hour; those by the day stay
	keepDays  = 800 * 24 * time.Hour // numbers by the day; those by the month stay
)

// Grain is how long the time is that one number counts.
type Grain int

// The grains.
const (
	Hour Grain = iota
	Day
	Month
	grains = 3
)

// String is its name in answers.
func (g Grain) String() string { return [...]string{"hour", "day", "month"}[g] }

// start returns when the time of g begins that t lies in. Days and months are those of UTC.
func (g Grain) start(t time.Time) time.Time {
	t = t.UTC()
	switch g {
	case Hour:
		return t.Truncate(time.Hour)
	case Day:
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	}
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// next returns when the time of g ends that begins at t.
func (g Grain) next(t time.Time) time.Time {
	switch g {
	case Hour:
		return t.Add(time.Hour)
	case Day:
		return t.AddDate(0, 0, 1)
	}
	return t.AddDate(0, 1, 0)
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "governance", Version: 1, SQL: `
		CREATE TABLE governance_cell (
			fact  TEXT NOT NULL,
			grain INTEGER NOT NULL,
			start INTEGER NOT NULL,
			tool  TEXT NOT NULL,
			a     TEXT NOT NULL,
			b     TEXT NOT NULL,
			c     TEXT NOT NULL,
			n     INTEGER NOT NULL,
			PRIMARY KEY (fact, grain, start, tool, a, b, c)
		) STRICT, WITHOUT ROWID;
		CREATE TABLE governance_state (
			one     INTEGER PRIMARY KEY CHECK (one = 1),
			version INTEGER NOT NULL,
			seq     INTEGER NOT NULL
		) STRICT`}}
}

// Options of New.
type Options struct {
	Store  *store.Store   // required, opened with Migrations
	Ledger *ledger.Ledger // required
	// Retained counts the artifacts that there are, by their class; default: there are none.
	Retained func(context.Context) (standard, extended outcome.Retained, _ error)
	Log      *slog.Logger     // default: discards
	Now      func() time.Time // default time.Now
}

// Model is the numbers of one gateway. Its methods are safe for concurrent use.
type Model struct {
	opts Options

	mu  sync.Mutex // held while it folds
	seq uint64     // the last packet that is counted; of the store once read is true
	ok  bool       // seq was read

	measured measured // for Register
}

// New makes a Model. It reads nothing yet.
func New(o Options) *Model {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Model{opts: o}
}

// Run folds what comes until ctx ends, so that no page has much left to fold.
func (m *Model) Run(ctx context.Context) error {
	for tick := time.NewTicker(each); ; {
		if _, err := m.CatchUp(ctx); err != nil && ctx.Err() == nil {
			m.opts.Log.Warn("governance.fold", "err", err)
		} else if err := m.sweep(ctx); err != nil && ctx.Err() == nil {
			m.opts.Log.Warn("governance.sweep", "err", err)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// CatchUp folds every durable packet that is not counted yet, and returns the sequence number
// through which all are.
func (m *Model) CatchUp(ctx context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tip, _ := m.opts.Ledger.Tip()
	if err := m.load(ctx, tip); err != nil {
		return 0, err
	}
	for m.seq < tip {
		through := min(m.seq+batch, tip)
		if err := m.foldBatch(ctx, through); err != nil {
			return m.seq, err
		}
	}
	return m.seq, nil
}

// Rebuild forgets all numbers and folds them anew from the packets that the ledger still has.
func (m *Model) Rebuild(ctx context.Context) (uint64, error) {
	m.mu.Lock()
	err := m.forget(ctx)
	m.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return m.CatchUp(ctx)
}

// load reads how far the numbers go. Those of another fold, or of a ledger that had more than
// this one, are no use.
func (m *Model) load(ctx context.Context, tip uint64) error {
	if m.ok {
		return nil
	}
	var version int
	var seq int64
	err := m.opts.Store.Read().QueryRowContext(ctx, "SELECT version, seq FROM governance_state WHERE one = 1").Scan(&version, &seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return fmt.Errorf("governance: %w", err)
	case version != foldVersion || uint64(seq) > tip:
		return m.forget(ctx)
	}
	m.seq, m.ok = uint64(seq), true
	return nil
}

func (m *Model) forget(ctx context.Context) error {
	err := m.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, table := range [...]string{"governance_cell", "governance_state"} {
			if _, err := tx.Exec("DELETE FROM " + table); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	m.seq, m.ok = 0, true
	return nil
}

// timed is a cell and its hour.
type timed struct {
	cell
	hour int64 // s since 1970
}

// foldBatch folds the packets behind m.seq and up to through, in one transaction.
func (m *Model) foldBatch(ctx context.Context, through uint64) error {
	var packets []ledger.Packet
	err := m.opts.Ledger.Between(ctx, m.seq, through, folded, func(p *ledger.Packet) error {
		packets = append(packets, *p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	hours := foldAll(packets)
	err = m.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for g := Hour; g < grains; g++ {
			for _, one := range atGrain(hours, g) {
				_, err := tx.Exec("INSERT INTO governance_cell (fact, grain, start, tool, a, b, c, n) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) "+
					"ON CONFLICT DO UPDATE SET n = n + excluded.n",
					string(one.Fact), int(g), one.hour, string(one.Tool), one.A, one.B, one.C, one.n)
				if err != nil {
					return err
				}
			}
		}
		_, err := tx.Exec("INSERT INTO governance_state (one, version, seq) VALUES (1, $1, $2) ON CONFLICT DO UPDATE SET version = excluded.version, seq = excluded.seq",
			foldVersion, int64(through))
		return err
	})
	if err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	m.seq = through
	return nil
}

// foldAll folds packets with every processor: the sum does not depend on who added what.
func foldAll(packets []ledger.Packet) map[timed]int64 {
	parts := make([]map[timed]int64, 0, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(packets, max(512, len(packets)/runtime.GOMAXPROCS(0)+1)) {
		part := map[timed]int64{}
		parts = append(parts, part)
		wg.Go(func() {
			for i := range chunk {
				hour := Hour.start(chunk[i].Time()).Unix()
				fold(&chunk[i], func(c cell, n int64) { part[timed{c, hour}] += n })
			}
		})
	}
	wg.Wait()
	if len(parts) == 0 {
		return nil
	}
	for _, part := range parts[1:] {
		for at, n := range part {
			parts[0][at] += n
		}
	}
	return parts[0]
}

// counted is a cell, its time and its number.
type counted struct {
	timed
	n int64
}

// atGrain sums hours into the times of a grain, in the order of the table's key.
func atGrain(hours map[timed]int64, g Grain) []counted {
	sums := hours
	if g != Hour {
		sums = make(map[timed]int64, len(hours))
		for at, n := range hours {
			at.hour = g.start(time.Unix(at.hour, 0)).Unix()
			sums[at] += n
		}
	}
	list := make([]counted, 0, len(sums))
	for at, n := range sums {
		list = append(list, counted{at, n})
	}
	slices.SortFunc(list, func(a, b counted) int { return compare(a.timed, b.timed) })
	return list
}

// sweep forgets the numbers of hours and days that coarser ones have replaced.
func (m *Model) sweep(ctx context.Context) error {
	now := m.opts.Now()
	var old bool
	err := m.opts.Store.Read().QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM governance_cell WHERE fact = $1 AND grain = $2 AND start < $3)", string(outcomes), int(Hour), now.Add(-keepHours-24*time.Hour).Unix()).Scan(&old)
	if err != nil || !old {
		return err
	}
	return m.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
		for _, f := range allFacts {
			for g, keep := range [...]time.Duration{keepHours, keepDays} {
				if _, err := tx.Exec("DELETE FROM governance_cell WHERE fact = $1 AND grain = $2 AND start < $3", string(f), g, now.Add(-keep).Unix()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
