package dispatch

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room. A row of calls stands for a call that
// is open (it must end, whatever crashes) or that a retry may still ask about; open
// calls that no retry can ask for have theirs only in the picture of the last mark
// (open.go). The key begins with the state, so that the open ones lie together.
var Migrations = []store.Migration{{Room: "dispatch", Version: 1, SQL: `
CREATE TABLE calls (
	call_id    TEXT NOT NULL,
	principal  TEXT NOT NULL,
	request_id TEXT,
	lane       TEXT NOT NULL,
	tool       TEXT NOT NULL,
	requested  TEXT NOT NULL,
	node       TEXT NOT NULL,
	args_mac   BLOB NOT NULL,
	state      TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	until_ms   BIGINT NOT NULL,
	PRIMARY KEY (state, call_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX calls_request ON calls (principal, request_id) WHERE request_id IS NOT NULL;
CREATE INDEX calls_until ON calls (until_ms) WHERE state = 'ended';
`}, {Room: "dispatch", Version: 2, SQL: taintMigration}, {Room: "dispatch", Version: 3, SQL: markMigration},
	{Room: "dispatch", Version: 4, SQL: `ALTER TABLE calls ADD COLUMN parent TEXT NOT NULL DEFAULT ''`}, {Room: "dispatch", Version: 5, SQL: readerMigration}}

// The states of a row. unknown means that the caller was told "unknown outcome"
// and that the node may still say what became of it (tool.call.reconciled).
const (
	rowOpen    = "open"
	rowUnknown = "unknown"
	rowEnded   = "ended"
)

// isUnsettled is every state but ended, as the key finds it.
const isUnsettled = `state IN ('open', 'unknown')`

// requestMemory is how long a request ID is remembered after its call ended, and
// unknownMemory how long an unknown outcome waits for its node.
const (
	requestMemory = 24 * time.Hour
	unknownMemory = 7 * 24 * time.Hour
)

// row is one line of calls.
type row struct {
	call      capabilities.CallID
	principal capabilities.PrincipalID
	request   capabilities.RequestID
	lane      capabilities.LaneID
	tool      capabilities.ToolID
	requested capabilities.NodeID
	node      capabilities.NodeID
	argsMAC   []byte
	state     string
	created   time.Time
	parent    capabilities.CallID // of a step
}

const rowColumns = `call_id, principal, COALESCE(request_id, ''), lane, tool, requested, node, args_mac, state, created_ms, parent`

func scanRow(scan func(...any) error) (row, error) {
	var r row
	var ms int64
	err := scan(&r.call, &r.principal, &r.request, &r.lane, &r.tool, &r.requested, &r.node, &r.argsMAC, &r.state, &ms, &r.parent)
	r.created = time.UnixMilli(ms)
	return r, err
}

func insertRow(tx *store.Tx, r *row) error {
	var request any
	if r.request != "" {
		request = string(r.request)
	}
	mac := r.argsMAC
	if mac == nil {
		mac = []byte{} // what SQLite gives back of an empty one
	}
	_, err := tx.Exec(`INSERT INTO calls (call_id, principal, request_id, lane, tool, requested, node, args_mac, state, created_ms, until_ms, parent)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		string(r.call), string(r.principal), request, string(r.lane), string(r.tool), string(r.requested), string(r.node),
		mac, r.state, r.created.UnixMilli(), r.created.Add(unknownMemory).UnixMilli(), string(r.parent))
	return err
}

// stateIn gives the state of a call's row, "" when there is none; of a call without a
// request ID, what its row would say.
func (d *Dispatcher) stateIn(tx *store.Tx, r *row) (state string, err error) {
	if r.request == "" {
		if open, err := d.openIn(tx, r.call); open || err != nil {
			return rowOpen, err
		}
	}
	err = tx.QueryRow(`SELECT state FROM calls WHERE state IN ('open', 'unknown', 'ended') AND call_id = $1 ORDER BY state DESC`, string(r.call)).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows), r.request == "" && state == rowOpen: // the picture is of before it ended
		return "", nil
	}
	return state, err
}

// endRow closes the row of a call that was in state from: forgotten at once when no
// retry can ask for it.
func (d *Dispatcher) endRow(tx *store.Tx, r *row, from string, now time.Time) error {
	switch {
	case r.request != "":
		_, err := tx.Exec(`UPDATE calls SET state = $1, until_ms = $2 WHERE state = $3 AND call_id = $4`,
			rowEnded, now.Add(requestMemory).UnixMilli(), from, string(r.call))
		return err
	case from == rowUnknown:
		_, err := tx.Exec(`DELETE FROM calls WHERE state = 'unknown' AND call_id = $1`, string(r.call))
		return err
	}
	tx.OnCommit(func() { d.open.remove(r.call) })
	return nil
}

// freeRow forgets a call that was in state from and never started: its request ID may
// be used again.
func (d *Dispatcher) freeRow(tx *store.Tx, r *row, from string) error {
	if r.request == "" {
		return d.endRow(tx, r, from, time.Now())
	}
	_, err := tx.Exec(`DELETE FROM calls WHERE state = $1 AND call_id = $2`, from, string(r.call))
	return err
}

// markUnknown keeps an open call's row for a late word of its node.
func (d *Dispatcher) markUnknown(tx *store.Tx, r *row) error {
	if r.request != "" {
		_, err := tx.Exec(`UPDATE calls SET state = $1 WHERE state = 'open' AND call_id = $2`, rowUnknown, string(r.call))
		return err
	}
	tx.OnCommit(func() { d.open.remove(r.call) })
	unknown := *r
	unknown.state = rowUnknown
	return insertRow(tx, &unknown)
}

// findRow gives the row of a request ID, if one is remembered.
func findRow(ctx context.Context, db *sql.DB, key requestKey) (row, bool, error) {
	r, err := scanRow(db.QueryRowContext(ctx, `SELECT `+rowColumns+` FROM calls WHERE principal = $1 AND request_id = $2`,
		string(key.principal), string(key.request)).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, false, nil
	}
	return r, err == nil, err
}

// unsettledRows gives every row that has not ended, oldest first.
func unsettledRows(ctx context.Context, db *sql.DB) ([]row, error) {
	rows, err := db.QueryContext(ctx, `SELECT `+rowColumns+` FROM calls WHERE `+isUnsettled+` ORDER BY created_ms`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		r, err := scanRow(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// sweepRows forgets what nobody can ask for any more, at most 1,000 ended rows a
// time.
func sweepRows(tx *store.Tx, now time.Time) error {
	if _, err := tx.Exec(`DELETE FROM calls WHERE state = 'ended' AND call_id IN (SELECT call_id FROM calls WHERE state = 'ended' AND until_ms < $1 LIMIT 1000)`, now.UnixMilli()); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM calls WHERE state = 'unknown' AND until_ms < $1`, now.UnixMilli())
	return err
}
