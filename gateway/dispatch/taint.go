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

// taintMigration is the table of what untrusted content each lane has read.
const taintMigration = `
CREATE TABLE lane_taint (
	lane     TEXT NOT NULL,
	taint    TEXT NOT NULL,
	since_ms BIGINT NOT NULL,
	PRIMARY KEY (lane, taint)
) WITHOUT ROWID;`

// taintMemory is how long a lane that reads nothing more stays tainted.
const taintMemory = 30 * 24 * time.Hour

// taints knows which families' untrusted content each lane has read. A lane is
// tainted in the commit that records the result, before its caller sees it, and
// never made clean.
type taints struct {
	mu    sync.RWMutex
	lanes map[capabilities.LaneID][]string // sorted; never changed in place
}

func newTaints() *taints { return &taints{lanes: map[capabilities.LaneID][]string{}} }

// of gives a lane's taints, sorted; the slice is shared.
func (t *taints) of(lane capabilities.LaneID) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.lanes[lane]
}

func (t *taints) load(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT lane, taint FROM lane_taint`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var lane capabilities.LaneID
		var taint string
		if err := rows.Scan(&lane, &taint); err != nil {
			return err
		}
		t.add(lane, taint)
	}
	return rows.Err()
}

func (t *taints) add(lane capabilities.LaneID, taint string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if list := t.lanes[lane]; !slices.Contains(list, taint) {
		t.lanes[lane] = slices.Sorted(slices.Values(append(slices.Clone(list), taint)))
	}
}

// markIn taints a lane with a tool's family as part of tx.
func (t *taints) markIn(tx *store.Tx, lane capabilities.LaneID, tool capabilities.ToolID, now time.Time) error {
	taint := tool.Family()
	if slices.Contains(t.of(lane), taint) {
		return nil
	}
	if _, err := tx.Exec(`INSERT INTO lane_taint (lane, taint, since_ms) VALUES ($1, $2, $3) ON CONFLICT (lane, taint) DO NOTHING`,
		string(lane), taint, now.UnixMilli()); err != nil {
		return err
	}
	tx.OnCommit(func() { t.add(lane, taint) })
	return nil
}

// sweepTaints forgets what is older than taintMemory; the lanes of this process
// keep what they have until it ends.
func sweepTaints(tx *store.Tx, now time.Time) error {
	_, err := tx.Exec(`DELETE FROM lane_taint WHERE since_ms < $1`, now.Add(-taintMemory).UnixMilli())
	return err
}
