package dispatch

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// The tables of what untrusted content has been read: in each lane, and by each principal.
// A lane's name is its caller's to choose, so an agent that began another one would
// otherwise take what it has read along and leave the taint behind.
const (
	taintMigration = `
CREATE TABLE lane_taint (
	lane     TEXT NOT NULL,
	taint    TEXT NOT NULL,
	since_ms BIGINT NOT NULL,
	PRIMARY KEY (lane, taint)
) WITHOUT ROWID;`
	readerMigration = `
CREATE TABLE principal_taint (
	principal TEXT NOT NULL,
	taint     TEXT NOT NULL,
	since_ms  BIGINT NOT NULL,
	PRIMARY KEY (principal, taint)
) WITHOUT ROWID;`
)

// taintMemory is how long a lane or a principal that reads nothing more stays tainted.
const taintMemory = 30 * 24 * time.Hour

// taints knows which families' untrusted content has been read where, and by whom. Both
// are tainted in the commit that records the result, before its caller sees it, and
// never made clean.
type taints struct {
	mu      sync.RWMutex
	lanes   map[capabilities.LaneID][]string // sorted; never changed in place
	readers map[capabilities.PrincipalID][]string
}

func newTaints() *taints {
	return &taints{lanes: map[capabilities.LaneID][]string{}, readers: map[capabilities.PrincipalID][]string{}}
}

// of gives the taints of a caller's lane, and of the caller in whatever lane, sorted; the
// slice is shared.
func (t *taints) of(caller Caller) []string {
	t.mu.RLock()
	lane, reader := t.lanes[caller.Lane], t.readers[caller.Principal]
	t.mu.RUnlock()
	for _, family := range lane {
		if !slices.Contains(reader, family) {
			return slices.Compact(slices.Sorted(slices.Values(slices.Concat(lane, reader))))
		}
	}
	return reader
}

func (t *taints) load(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT lane, '', taint FROM lane_taint UNION ALL SELECT '', principal, taint FROM principal_taint`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var caller Caller
		var taint string
		if err := rows.Scan(&caller.Lane, &caller.Principal, &taint); err != nil {
			return err
		}
		t.add(caller, taint)
	}
	return rows.Err()
}

// add taints a caller's lane and the caller; what is empty is left out.
func (t *taints) add(caller Caller, taint string) {
	with := func(list []string) []string {
		if slices.Contains(list, taint) {
			return list
		}
		return slices.Sorted(slices.Values(append(slices.Clone(list), taint)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if caller.Lane != "" {
		t.lanes[caller.Lane] = with(t.lanes[caller.Lane])
	}
	if caller.Principal != "" {
		t.readers[caller.Principal] = with(t.readers[caller.Principal])
	}
}

// markIn taints a caller and its lane with a tool's family as part of tx.
func (t *taints) markIn(tx *store.Tx, caller Caller, tool capabilities.ToolID, now time.Time) error {
	taint := tool.Family()
	t.mu.RLock()
	known := slices.Contains(t.lanes[caller.Lane], taint) && slices.Contains(t.readers[caller.Principal], taint)
	t.mu.RUnlock()
	if known {
		return nil
	}
	if _, err := tx.Exec(`INSERT INTO lane_taint (lane, taint, since_ms) VALUES ($1, $2, $3) ON CONFLICT (lane, taint) DO NOTHING`,
		string(caller.Lane), taint, now.UnixMilli()); err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO principal_taint (principal, taint, since_ms) VALUES ($1, $2, $3) ON CONFLICT (principal, taint) DO NOTHING`,
		string(caller.Principal), taint, now.UnixMilli()); err != nil {
		return err
	}
	tx.OnCommit(func() { t.add(caller, taint) })
	return nil
}

// sweepTaints forgets what is older than taintMemory; what this process knows it keeps
// until it ends.
func sweepTaints(tx *store.Tx, now time.Time) error {
	if _, err := tx.Exec(`DELETE FROM principal_taint WHERE since_ms < $1`, now.Add(-taintMemory).UnixMilli()); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM lane_taint WHERE since_ms < $1`, now.Add(-taintMemory).UnixMilli())
	return err
}
