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

	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

// foldVersion is raised when the same packets make other numbers: the store then folds them anew.
const foldVersion = 5

// Versions that counted all but some: those that they left out are folded on top.
const (
	beforeUncounted = 3 // no packets of drift that was too much
	beforeRefusals  = 4 // no refusals by category
)

// Bounds of folding and keeping.
const (
	batch     = 250_000              // packets folded in one transaction: each empties the readers' caches
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

// Migrations are the tables of this room. All numbers of one time are one row: a page of 90 days
// reads 90 rows, however many packets, tools and people there were.
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
		) STRICT`}, {Room: "governance", Version: 2, SQL: `
		CREATE TABLE governance_series ( -- what a number counts, but for its time
			id   INTEGER PRIMARY KEY,
			fact TEXT NOT NULL,
			tool TEXT NOT NULL,
			a    TEXT NOT NULL,
			b    TEXT NOT NULL,
			c    TEXT NOT NULL,
			UNIQUE (fact, tool, a, b, c)
		) STRICT;
		CREATE TABLE governance_time (
			grain   INTEGER NOT NULL,
			start   INTEGER NOT NULL,
			numbers TEXT NOT NULL, -- [series, number, series, number, ...]
			PRIMARY KEY (grain, start)
		) STRICT, WITHOUT ROWID;
		INSERT INTO governance_series (id, fact, tool, a, b, c)
			SELECT ROW_NUMBER() OVER (ORDER BY fact, tool, a, b, c), fact, tool, a, b, c FROM (SELECT DISTINCT fact, tool, a, b, c FROM governance_cell);
		INSERT INTO governance_time (grain, start, numbers)
			SELECT n.grain, n.start, '[' || group_concat(s.id || ',' || n.n) || ']' FROM governance_cell n JOIN governance_series s USING (fact, tool, a, b, c) GROUP BY n.grain, n.start;
		DROP TABLE governance_cell`, Postgres: `
		CREATE TABLE governance_series (
			id   BIGINT PRIMARY KEY,
			fact TEXT COLLATE "C" NOT NULL,
			tool TEXT COLLATE "C" NOT NULL,
			a    TEXT COLLATE "C" NOT NULL,
			b    TEXT COLLATE "C" NOT NULL,
			c    TEXT COLLATE "C" NOT NULL,
			UNIQUE (fact, tool, a, b, c)
		);
		CREATE TABLE governance_time (
			grain   BIGINT NOT NULL,
			start   BIGINT NOT NULL,
			numbers TEXT COLLATE "C" NOT NULL,
			PRIMARY KEY (grain, start)
		);
		DROP TABLE governance_cell -- none was filled there`}, {Room: "governance", Version: 3, SQL: `
		UPDATE governance_series SET fact = 'none' WHERE fact = 'used' AND a = 'grant' -- it was never a key`}}
}

// Options of New.
type Options struct {
	Store  *store.Store   // required, opened with Migrations
	Ledger *ledger.Ledger // required
	// Retained counts the artifacts that there are, by their class; default: there are none.
	Retained func(context.Context) (standard, extended outcome.Retained, _ error)
	// Own reports whether a tool is people's own work at a surface, which no model calls; default:
	// none is.
	Own func(capabilities.ToolID) bool
	Log *slog.Logger     // default: discards
	Now func() time.Time // default time.Now
}

// Model is the numbers of one gateway. Its methods are safe for concurrent use.
type Model struct {
	opts Options

	mu      sync.Mutex // held while it folds or reads
	seq     uint64     // the last packet that is counted; of the store once ok is true
	ok      bool       // what is above and below was read
	ids     map[cell]int64
	cells   []cell                  // by their numbers, from 1
	slots   []uint8                 // of their facts, of as many as were looked at
	ofFact  [len(facts) + 1][]int32 // those of each slot, in their order
	groups  map[groupKey]*grouping
	rows    map[when]*row
	held    int       // numbers of rows
	most    int       // how many stay, besides those of the last window
	windows []*window // the last that were read, all through seq

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
	return &Model{opts: o, most: keptNumbers}
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
		err := m.foldBatch(ctx, through)
		if errors.Is(err, errCounted) { // another gateway of the site did it
			m.ok = false
			err = m.load(ctx, tip)
		}
		if err != nil {
			return m.seq, err
		}
	}
	return m.seq, nil
}

// errCounted: the store's numbers are of later packets than those here.
var errCounted = errors.New("governance: another gateway has counted these packets")

// countedIn returns errCounted if another gateway folded since this one read.
func (m *Model) countedIn(tx *store.Tx) error {
	if m.opts.Store.Member() == "" {
		return nil
	}
	var seq uint64
	err := tx.QueryRow("SELECT seq FROM governance_state WHERE one = 1").Scan(&seq)
	if err == nil && seq != m.seq || errors.Is(err, sql.ErrNoRows) && m.seq != 0 {
		return errCounted
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
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
	case version < beforeUncounted || version > foldVersion || uint64(seq) > tip:
		return m.forget(ctx)
	}
	if err := m.loadSeries(ctx); err != nil {
		return err
	}
	if version == beforeUncounted {
		if err := m.foldThese(ctx, 0, uint64(seq), beforeRefusals, []ledger.Kind{ledger.KindDriftUncounted}, drifts); err != nil {
			return err
		}
	}
	if version == beforeUncounted || version == beforeRefusals {
		if err := m.foldThese(ctx, 0, uint64(seq), foldVersion, []ledger.Kind{ledger.KindCallDecision}, refusals); err != nil {
			return err
		}
	}
	m.seq, m.ok = uint64(seq), true
	return nil
}

func (m *Model) loadSeries(ctx context.Context) error {
	m.empty()
	rows, err := m.opts.Store.Read().QueryContext(ctx, "SELECT id, fact, tool, a, b, c FROM governance_series ORDER BY id")
	if err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var c cell
		if err := rows.Scan(&id, &c.Fact, &c.Tool, &c.A, &c.B, &c.C); err != nil {
			return fmt.Errorf("governance: %w", err)
		}
		if id != int64(len(m.cells)) {
			return fmt.Errorf("governance: series %d is missing", len(m.cells))
		}
		m.ids[c], m.cells = id, append(m.cells, c)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	return nil
}

func (m *Model) forget(ctx context.Context) error {
	err := m.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, table := range [...]string{"governance_time", "governance_series", "governance_state"} {
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
	m.empty()
	return nil
}

// empty forgets all that was read.
func (m *Model) empty() {
	m.ids, m.cells, m.slots, m.ofFact = map[cell]int64{}, make([]cell, 1), nil, [len(facts) + 1][]int32{}
	m.rows, m.held, m.windows, m.groups = map[when]*row{}, 0, nil, map[groupKey]*grouping{}
}

// foldBatch folds the packets behind m.seq and up to through, in one transaction.
func (m *Model) foldBatch(ctx context.Context, through uint64) error {
	return m.foldThese(ctx, m.seq, through, foldVersion, folded)
}

// foldThese folds the packets of some kinds behind after and up to through; of what they say some
// facts alone, if there are any. The numbers are then those of a version.
func (m *Model) foldThese(ctx context.Context, after, through uint64, version int, kinds []ledger.Kind, only ...fact) error {
	parts, err := m.read(ctx, after, through, kinds, only)
	if err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	fresh, sums := m.number(parts)
	err = m.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := m.countedIn(tx); err != nil {
			return err
		}
		for i, c := range fresh {
			if _, err := tx.Exec("INSERT INTO governance_series (id, fact, tool, a, b, c) VALUES ($1, $2, $3, $4, $5, $6)",
				len(m.cells)+i, string(c.Fact), string(c.Tool), c.A, c.B, c.C); err != nil {
				return err
			}
		}
		for at, add := range sums {
			if err := addTo(tx, at, add); err != nil {
				return err
			}
		}
		_, err := tx.Exec("INSERT INTO governance_state (one, version, seq) VALUES (1, $1, $2) ON CONFLICT (one) DO UPDATE SET version = "+
			"excluded.version, seq = excluded.seq",
			version, int64(through))
		return err
	})
	if err != nil {
		return fmt.Errorf("governance: %w", err)
	}
	for _, c := range fresh {
		m.ids[c], m.cells = int64(len(m.cells)), append(m.cells, c)
	}
	m.added(sums)
	m.seq = through
	return nil
}

// read folds the packets behind after and up to through with every processor, each a stretch of
// them: the sum does not depend on who added what.
func (m *Model) read(ctx context.Context, after, through uint64, kinds []ledger.Kind, only []fact) ([]*part, error) {
	stretch := max(512, (through-after)/uint64(runtime.GOMAXPROCS(0))+1)
	var parts []*part
	var errs errgroup.Group
	for ; after < through; after += stretch {
		part, first, last := &part{words: words{}, only: only, hours: map[int64]map[cell]*int64{}}, after, min(after+stretch, through)
		parts = append(parts, part)
		errs.Go(func() error { return m.opts.Ledger.Between(ctx, first, last, kinds, part.fold) })
	}
	return parts, errs.Wait()
}

// part is what one processor folds. Packets come in the order of their times, so those of an hour
// come together.
type part struct {
	words words
	only  []fact                    // empty: all
	hours map[int64]map[cell]*int64 // by s since 1970
	hour  int64
	cells map[cell]*int64 // of hour; nil before the first packet
}

func (p *part) fold(of *ledger.Packet) error {
	if hour := Hour.start(of.Time()).Unix(); p.cells == nil || hour != p.hour {
		if p.hours[hour] == nil {
			p.hours[hour] = map[cell]*int64{}
		}
		p.hour, p.cells = hour, p.hours[hour]
	}
	fold(of, p.words, func(c cell, n int64) {
		if len(p.only) > 0 && !slices.Contains(p.only, c.Fact) {
			return
		}
		had := p.cells[c]
		if had == nil {
			had = new(int64)
			p.cells[c] = had
		}
		*had += n
	})
	return nil
}

// when is one time of a grain.
type when struct {
	grain Grain
	start int64 // s since 1970
}

// number sums parts into all grains, by the numbers of their series, and returns the cells that
// have none yet: theirs are to be those behind m.cells, in the order of the cells.
func (m *Model) number(parts []*part) (fresh []cell, _ map[when]numbers) {
	sums, found := map[when]map[int64]int64{}, map[cell]int64{} // by a number below zero for now
	for _, part := range parts {
		for hour, cells := range part.hours {
			var into [grains]map[int64]int64
			for g := range into {
				w := when{Grain(g), Grain(g).start(time.Unix(hour, 0)).Unix()}
				if sums[w] == nil {
					sums[w] = map[int64]int64{}
				}
				into[g] = sums[w]
			}
			for c, n := range cells {
				id := m.ids[c]
				if id == 0 {
					id = found[c]
				}
				if id == 0 {
					fresh = append(fresh, c)
					id = -int64(len(fresh))
					found[c] = id
				}
				for _, sum := range into {
					sum[id] += *n
				}
			}
		}
	}
	slices.SortFunc(fresh, compare)
	ids := make([]int64, len(fresh)+1) // by the negative number that stood for each while packets were read
	for i, c := range fresh {
		ids[-found[c]] = int64(len(m.cells) + i)
	}
	all := map[when]numbers{}
	for at, sum := range sums {
		for id, n := range sum {
			if id < 0 {
				delete(sum, id)
				sum[ids[-id]] = n
			}
		}
		all[at] = numbersOf(sum)
	}
	return fresh, all
}

// addTo adds numbers to those of a time. A transaction may run it again: what is added stays as
// it is.
func addTo(tx *store.Tx, at when, add numbers) error {
	var text []byte
	err := tx.QueryRow("SELECT numbers FROM governance_time WHERE grain = $1 AND start = $2", int(at.grain), at.start).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	had, err := parse(text)
	if err != nil {
		return err
	}
	_, err = tx.Exec(
		"INSERT INTO governance_time (grain, start, numbers) VALUES ($1, $2, $3) "+
			"ON CONFLICT (grain, start) DO UPDATE SET numbers = excluded.numbers",
		int(at.grain), at.start, had.plus(add).text())
	return err
}

// sweep forgets the numbers of hours and days that coarser ones have replaced.
func (m *Model) sweep(ctx context.Context) error {
	now := m.opts.Now()
	var old bool
	err := m.opts.Store.Read().QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM governance_time WHERE grain = $1 AND start < $2)", int(Hour), now.Add(-keepHours-24*time.Hour).Unix()).
		Scan(&old)
	if err != nil || !old {
		return err
	}
	return m.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
		for g, keep := range [...]time.Duration{keepHours, keepDays} {
			if _, err := tx.Exec("DELETE FROM governance_time WHERE grain = $1 AND start < $2", g, now.Add(-keep).Unix()); err != nil {
				return err
			}
		}
		return nil
	})
}
