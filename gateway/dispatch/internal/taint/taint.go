package taint

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// LaneMigration and ReaderMigration make the tables.
const (
	LaneMigration = `
CREATE TABLE lane_taint (
	lane     TEXT NOT NULL,
	taint    TEXT NOT NULL,
	since_ms BIGINT NOT NULL,
	PRIMARY KEY (lane, taint)
) WITHOUT ROWID;`
	ReaderMigration = `
CREATE TABLE principal_taint (
	principal TEXT NOT NULL,
	taint     TEXT NOT NULL,
	since_ms  BIGINT NOT NULL,
	PRIMARY KEY (principal, taint)
) WITHOUT ROWID;`
)

const (
	// memory is how long a lane or a principal stays tainted after the last read that the
	// store knows of.
	memory = 30 * 24 * time.Hour
	// renewal is how old that read may be before another one is written: not every read
	// costs a write.
	renewal = 24 * time.Hour
)

// Book is what has been read. All methods are safe for concurrent use.
type Book struct {
	mu      sync.RWMutex
	lanes   map[capabilities.LaneID][]string // sorted; never changed in place
	readers map[capabilities.PrincipalID][]string
	written map[mark]time.Time // when the read was that the store knows of
}

// mark is a taint of a lane, with no principal, or of a principal, with no lane.
type mark struct {
	in     capabilities.LaneID
	who    capabilities.PrincipalID
	family string
}

// New makes an empty book.
func New() *Book {
	return &Book{
		lanes: map[capabilities.LaneID][]string{}, readers: map[capabilities.PrincipalID][]string{}, written: map[mark]time.Time{},
	}
}

// Of returns the taints of a lane, and of a principal in whatever lane, sorted; the slice is
// shared.
func (t *Book) Of(in capabilities.LaneID, who capabilities.PrincipalID) []string {
	t.mu.RLock()
	lane, reader := t.lanes[in], t.readers[who]
	t.mu.RUnlock()
	for _, family := range lane {
		if !slices.Contains(reader, family) {
			return slices.Compact(slices.Sorted(slices.Values(slices.Concat(lane, reader))))
		}
	}
	return reader
}

// Has reports whether both a lane and a principal are tainted by a family already.
func (t *Book) Has(in capabilities.LaneID, who capabilities.PrincipalID, family string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Contains(t.lanes[in], family) && slices.Contains(t.readers[who], family)
}

// Load reads what an earlier process knew.
func (t *Book) Load(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx,
		`SELECT lane, '', taint, since_ms FROM lane_taint UNION ALL SELECT '', principal, taint, since_ms FROM principal_taint`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var in capabilities.LaneID
		var who capabilities.PrincipalID
		var family string
		var since int64
		if err := rows.Scan(&in, &who, &family, &since); err != nil {
			return err
		}
		t.add(in, who, family, time.UnixMilli(since))
	}
	return rows.Err()
}

// add taints a lane and a principal, as written at that time; what is empty is left out.
func (t *Book) add(in capabilities.LaneID, who capabilities.PrincipalID, family string, at time.Time) {
	with := func(list []string) []string {
		if slices.Contains(list, family) {
			return list
		}
		return slices.Sorted(slices.Values(append(slices.Clone(list), family)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if in != "" {
		t.lanes[in] = with(t.lanes[in])
		t.written[mark{in: in, family: family}] = at
	}
	if who != "" {
		t.readers[who] = with(t.readers[who])
		t.written[mark{who: who, family: family}] = at
	}
}

// MarkIn taints a lane and a principal with a tool's family as part of tx, or says that they
// read again.
func (t *Book) MarkIn(tx *store.Tx, in capabilities.LaneID, who capabilities.PrincipalID, tool capabilities.ToolID, now time.Time) error {
	family := tool.Family()
	if t.fresh(mark{in: in, family: family}, now) && t.fresh(mark{who: who, family: family}, now) {
		return nil
	}
	if _, err := tx.Exec(
		`INSERT INTO lane_taint (lane, taint, since_ms) VALUES ($1, $2, $3) ON CONFLICT (lane, taint) DO UPDATE SET since_ms = excluded.since_ms`,
		string(in), family, now.UnixMilli()); err != nil {
		return err
	}
	if _, err := tx.Exec(
		`INSERT INTO principal_taint (principal, taint, since_ms) VALUES ($1, $2, $3) ON CONFLICT (principal, taint) DO UPDATE SET since_ms = excluded.since_ms`,
		string(who), family, now.UnixMilli()); err != nil {
		return err
	}
	tx.OnCommit(func() { t.add(in, who, family, now) })
	return nil
}

// fresh reports whether the store knows of a read of m so late that another one adds nothing.
func (t *Book) fresh(m mark, now time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	at, known := t.written[m]
	return known && now.Sub(at) < renewal
}

// SweepIn forgets in the store what was not read again within memory; what this process
// knows it keeps until it ends.
func SweepIn(tx *store.Tx, now time.Time) error {
	if _, err := tx.Exec(`DELETE FROM principal_taint WHERE since_ms < $1`, now.Add(-memory).UnixMilli()); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM lane_taint WHERE since_ms < $1`, now.Add(-memory).UnixMilli())
	return err
}
