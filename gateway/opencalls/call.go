package opencalls

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room, which once was a part of dispatch: versions 2 and
// 5 of that name are what lanes have read. A row of calls stands for a call that
// is open (it must end, whatever crashes) or that a retry may still ask about; open
// calls that no retry can ask for have theirs only in the rows of the last mark
// (mark.go). The key begins with the state, so that the open ones lie together.
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
`}, {Room: "dispatch", Version: 3, SQL: markMigration},
	{Room: "dispatch", Version: 4, SQL: `ALTER TABLE calls ADD COLUMN parent TEXT NOT NULL DEFAULT ''`},
	// A row of before says nothing of person: it stands for both.
	{Room: "dispatch", Version: 6, SQL: `
ALTER TABLE calls ADD COLUMN person BIGINT;
DROP INDEX calls_request;
CREATE UNIQUE INDEX calls_request ON calls (principal, request_id, person) WHERE request_id IS NOT NULL;
`},
	// Of several gateways that serve at once, the one that took the call.
	{Room: "dispatch", Version: 7, SQL: `ALTER TABLE calls ADD COLUMN member TEXT NOT NULL DEFAULT ''`}}

// State is how far an open call is.
type State string

// The states. Unknown means that the caller was told "unknown outcome" and that the node
// may still say what became of it (tool.call.reconciled). "" is a call that has no row.
const (
	Open    State = "open"
	Unknown State = "unknown"
	Ended   State = "ended"
)

// isUnsettled is every state but ended, as the key finds it.
const isUnsettled = `state IN ('open', 'unknown')`

// requestMemory is how long a request ID is remembered after its call ended, and
// UnknownMemory how long an unknown outcome waits for its node.
const (
	requestMemory = 24 * time.Hour
	UnknownMemory = 7 * 24 * time.Hour
)

// Call is a call whose intent is durable, as one line of calls has it.
type Call struct {
	ID        capabilities.CallID
	Principal capabilities.PrincipalID
	Person    bool                   // a person's, and not an agent's of the same name
	Request   capabilities.RequestID // empty: no retry can ask for it
	Lane      capabilities.LaneID
	Tool      capabilities.ToolID
	Requested capabilities.NodeID // the node that the caller named
	Node      capabilities.NodeID // the node that it went to; empty: a tool of the gateway
	ArgsMAC   []byte              // of the canonical arguments, under the call's digest key
	State     State
	Created   time.Time           // when it came in
	Parent    capabilities.CallID // of a step
	// Recall is what Node's journal reached back to when the call was placed, in this process: its
	// ticket went over the connection that said so, or over a later one. It has no column.
	Recall string
	// Member is the gateway that took it, of several that serve at once; empty: there is one.
	Member string
}

const rowColumns = `call_id, principal, COALESCE(request_id, ''), lane, tool, requested, node, args_mac, state, created_ms, parent, COALESCE(person, 0), member`

func scanCall(scan func(...any) error) (Call, error) {
	var r Call
	var ms int64
	err := scan(&r.ID, &r.Principal, &r.Request, &r.Lane, &r.Tool, &r.Requested, &r.Node, &r.ArgsMAC, &r.State, &ms, &r.Parent,
		&r.Person, &r.Member)
	r.Created = time.UnixMilli(ms)
	return r, err
}

func insert(tx *store.Tx, r *Call) error {
	var request any
	if r.Request != "" {
		request = string(r.Request)
	}
	mac := r.ArgsMAC
	if mac == nil {
		mac = []byte{} // what SQLite returns of an empty one
	}
	_, err := tx.Exec(
		`INSERT INTO calls (call_id, principal, request_id, lane, tool, requested, node, args_mac, state, created_ms, until_ms, parent, person,
			member)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		string(r.ID), string(r.Principal), request, string(r.Lane), string(r.Tool), string(r.Requested), string(r.Node),
		mac, string(r.State), r.Created.UnixMilli(), r.Created.Add(UnknownMemory).UnixMilli(), string(r.Parent), r.Person, r.Member)
	return err
}

// StateIn returns the state of a call's row, "" when there is none; of a call without a
// request ID, what its row would say.
func (b *Book) StateIn(tx *store.Tx, r *Call) (state State, err error) {
	rows := b.several() // every open call has its row
	if r.Request == "" && !rows {
		if open, err := b.openIn(tx, r.ID); open || err != nil {
			return Open, err
		}
	}
	err = tx.QueryRow(`SELECT state FROM calls WHERE state IN ('open', 'unknown', 'ended') AND call_id = $1 ORDER BY state DESC`,
		string(r.ID)).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows), r.Request == "" && state == Open && !rows: // the mark is of before it ended
		return "", nil
	}
	return state, err
}

// endRow closes the row of a call that was in state from: forgotten at once when no
// retry can ask for it.
func (b *Book) endRow(tx *store.Tx, r *Call, from State, now time.Time) error {
	switch {
	case r.Request != "":
		_, err := tx.Exec(`UPDATE calls SET state = $1, until_ms = $2 WHERE state = $3 AND call_id = $4`,
			string(Ended), now.Add(requestMemory).UnixMilli(), string(from), string(r.ID))
		return err
	case from == Unknown:
		_, err := tx.Exec(`DELETE FROM calls WHERE state = 'unknown' AND call_id = $1`, string(r.ID))
		return err
	case b.several():
		_, err := tx.Exec(`DELETE FROM calls WHERE state = $1 AND call_id = $2`, string(from), string(r.ID))
		return err
	}
	tx.OnCommit(func() { b.open.remove(r.ID) })
	return nil
}

// freeRow forgets a call that was in state from and never started: its request ID may
// be used again.
func (b *Book) freeRow(tx *store.Tx, r *Call, from State) error {
	if r.Request == "" {
		return b.endRow(tx, r, from, time.Now())
	}
	_, err := tx.Exec(`DELETE FROM calls WHERE state = $1 AND call_id = $2`, string(from), string(r.ID))
	return err
}

// markUnknown keeps an open call's row for a late word of its node.
func (b *Book) markUnknown(tx *store.Tx, r *Call) error {
	if r.Request != "" || b.several() {
		_, err := tx.Exec(`UPDATE calls SET state = $1 WHERE state = 'open' AND call_id = $2`, string(Unknown), string(r.ID))
		return err
	}
	tx.OnCommit(func() { b.open.remove(r.ID) })
	unknown := *r
	unknown.State = Unknown
	return insert(tx, &unknown)
}

// Find returns the call that a principal, as a person or as an agent, made with a request
// ID, if one is remembered.
func (b *Book) Find(ctx context.Context, p capabilities.PrincipalID, person bool, request capabilities.RequestID) (Call, bool, error) {
	r, err := scanCall(b.opts.Store.Read().QueryRowContext(ctx, `SELECT `+rowColumns+` FROM calls
		WHERE principal = $1 AND request_id = $2 AND COALESCE(person, $3) = $3`, string(p), string(request), person).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Call{}, false, nil
	}
	return r, err == nil, err
}

// unsettled returns every row that has not ended, oldest first.
func unsettled(ctx context.Context, db *sql.DB) ([]Call, error) {
	rows, err := db.QueryContext(ctx, `SELECT `+rowColumns+` FROM calls WHERE `+isUnsettled+` ORDER BY created_ms`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Call
	for rows.Next() {
		r, err := scanCall(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// SweepIn forgets what nobody can ask for any more, at most 1,000 ended rows a
// time.
func SweepIn(tx *store.Tx, now time.Time) error {
	if _, err := tx.Exec(
		`DELETE FROM calls WHERE state = 'ended' AND call_id IN (SELECT call_id FROM calls WHERE state = 'ended' AND until_ms < $1 LIMIT 1000)`,
		now.UnixMilli()); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM calls WHERE state = 'unknown' AND until_ms < $1`, now.UnixMilli())
	return err
}
