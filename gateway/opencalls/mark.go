package opencalls

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// An open call that no retry can ask for has no row of its own: its intent is in the ledger
// already, and a row more in each of its two commits would be written to be deleted. A start after
// a crash finds those calls by a mark: a packet of the ledger, with rows of state open without a
// request ID for the calls that were open there and went on. Later packets are read from the
// ledger.
const markMigration = `
CREATE TABLE calls_mark (
	one BIGINT PRIMARY KEY CHECK (one = 1),
	seq BIGINT NOT NULL
)`

// markEvery is how often the mark is moved while there are calls, to where the ledger
// ended the time before: calls that end in between are never drawn. A start reads two
// of these times of the ledger, and markAfter packets more at most.
const (
	markEvery = time.Second
	markAfter = 1000 // packets that have nothing to do with such calls
)

// marked are the calls without a request ID whose intent is durable and whose end
// is not. Only what the store announces as committed changes it, so that for a
// function of Store.Write it agrees with the ledger's committed tip.
type marked struct {
	mu      sync.Mutex
	rows    map[capabilities.CallID]*Call
	changes uint64   // of rows
	last    snapshot // what the next mark draws
	drawn   uint64   // changes that the durable mark has seen
	at      uint64   // its packet
}

// snapshot is what was open at one packet of the ledger. The zero value is none.
type snapshot struct {
	seq, changes uint64
	rows         map[capabilities.CallID]*Call
}

func (o *marked) add(r *Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows[r.ID] = r
	o.changes++
}

func (o *marked) remove(call capabilities.CallID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.rows, call)
	o.changes++
}

func (o *marked) has(call capabilities.CallID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rows[call] != nil
}

// begin says where the durable mark of an earlier process stands.
func (o *marked) begin(at uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = at
}

// behind reports that the durable mark is to be moved.
func (o *marked) behind(tip uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changes != o.drawn || tip-o.at >= markAfter
}

// now returns this snapshot, and the one before, of which a mark is to be drawn.
func (o *marked) now(tip uint64) (now, last snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return snapshot{tip, o.changes, maps.Clone(o.rows)}, o.last
}

// moved follows a mark of last that is durable; now is the next.
func (o *marked) moved(last, now snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = now
	if last.rows != nil {
		o.drawn, o.at = last.changes, last.seq
	}
}

// mark moves the mark on, if there is a reason.
func (b *Book) mark(ctx context.Context) error {
	tip, _ := b.opts.Ledger.Tip()
	if !b.open.behind(tip) {
		return nil
	}
	if b.several() { // what is open has a row
		err := b.opts.Store.Write(ctx, func(tx *store.Tx) error { return setMark(tx, tip) })
		if err == nil {
			b.open.begin(tip)
		}
		return err
	}
	return b.opts.Store.Write(ctx, b.MarkIn)
}

// MarkIn moves the mark to the snapshot of the mark before, as part of tx. Calls that the same
// group of the store wrote before are neither below the committed tip nor open yet: they belong to
// what comes after this snapshot.
func (b *Book) MarkIn(tx *store.Tx) error {
	tip, _ := b.opts.Ledger.Tip()
	now, last := b.open.now(tip)
	tx.OnCommit(func() { b.open.moved(last, now) })
	if last.rows == nil {
		return nil
	}
	was, err := drawnIn(tx)
	if err != nil {
		return err
	}
	drawn := map[capabilities.CallID]bool{}
	for _, call := range was {
		if drawn[call] = now.rows[call] != nil && last.rows[call] != nil; drawn[call] {
			continue
		}
		if _, err := tx.Exec(`DELETE FROM calls WHERE state = 'open' AND call_id = $1`, string(call)); err != nil {
			return err
		}
	}
	for call, r := range last.rows {
		if now.rows[call] == nil || drawn[call] {
			continue // it ended, as the ledger says behind the mark; or it has its row
		}
		if err := insert(tx, r); err != nil {
			return err
		}
	}
	return setMark(tx, last.seq)
}

func setMark(tx *store.Tx, seq uint64) error {
	_, err := tx.Exec(`INSERT INTO calls_mark (one, seq) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET seq = excluded.seq`, int64(seq))
	return err
}

// drawnIn returns the calls that the last mark found open.
func drawnIn(tx *store.Tx) (calls []capabilities.CallID, err error) {
	rows, err := tx.Query(`SELECT call_id FROM calls WHERE state = 'open' AND request_id IS NULL`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var call capabilities.CallID
		if err := rows.Scan(&call); err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, rows.Err()
}

// openIn reports that a call without a request ID has no end yet, not even one in tx.
func (b *Book) openIn(tx *store.Tx, call capabilities.CallID) (bool, error) {
	if !b.open.has(call) {
		return false, nil
	}
	ended, err := b.opts.Ledger.EndedIn(tx, call)
	return !ended, err
}

// LeftOpen returns the calls that an earlier process left open or unknown: the rows,
// put right by what the ledger says of the time after the mark.
func (b *Book) LeftOpen(ctx context.Context) ([]Call, error) {
	if b.several() {
		return b.leftOpenAmong(ctx)
	}
	return b.leftOpen(ctx)
}

func (b *Book) leftOpen(ctx context.Context) ([]Call, error) {
	// The mark before the rows: a mark that moves meanwhile leaves more to read, not less.
	var seq int64
	missing := b.opts.Store.Read().QueryRowContext(ctx, `SELECT seq FROM calls_mark`).Scan(&seq)
	rows, err := unsettled(ctx, b.opts.Store.Read())
	if err != nil {
		return nil, err
	}
	switch {
	case errors.Is(missing, sql.ErrNoRows):
		// A gateway that gave every call a row, or a new one: from here on there is a mark.
		tip, _ := b.opts.Ledger.Tip()
		b.open.begin(tip)
		return rows, b.opts.Store.Write(ctx, func(tx *store.Tx) error { return setMark(tx, tip) })
	case missing != nil:
		return nil, missing
	}
	b.open.begin(uint64(seq))
	came, ended, err := b.since(ctx, uint64(seq))
	if err != nil {
		return nil, err
	}
	var open []Call
	for _, r := range rows {
		if r.State == Open && r.Request == "" {
			if ended[r.ID] {
				continue
			}
			delete(came, r.ID)
		}
		open = append(open, r)
	}
	for _, r := range came {
		open = append(open, *r)
	}
	return open, nil
}

// adminFamily is the work of gateway/admin, which has a row of its own for each until its end: that
// of a gateway that serves beside this one goes on.
const adminFamily = "admin"

// since reads the ledger behind a packet: the calls without a request ID that were
// ordered there and did not end, and every call that ended.
func (b *Book) since(ctx context.Context, seq uint64) (came map[capabilities.CallID]*Call, ended map[capabilities.CallID]bool, err error) {
	came, ended = map[capabilities.CallID]*Call{}, map[capabilities.CallID]bool{}
	var asked packet.Request // the last request packet's: a call's first packets are neighbours
	var of capabilities.CallID
	err = b.opts.Ledger.Since(ctx, seq, func(p *ledger.Packet) error {
		switch {
		case p.Tool.Family() == adminFamily:
		case p.Kind == ledger.KindCallRequest:
			asked, of = packet.Request{}, p.Call
			if err := json.Unmarshal(p.Body, &asked); err != nil {
				return fmt.Errorf("packet %d: %w", p.Seq, err)
			}
		case p.Kind == ledger.KindCallDispatch && p.Call == of && asked.RequestID == "":
			came[p.Call] = &Call{
				ID: p.Call, Principal: p.Principal, Lane: p.Lane, Tool: p.Tool, Requested: asked.Requested, Node: p.Node,
				State: Open, Created: beganAt(p), Parent: asked.Parent,
			}
		case p.Kind.Terminal():
			delete(came, p.Call)
			ended[p.Call] = true
		}
		return nil
	})
	return came, ended, err
}

// beganAt is when a call began, which its ID says to the millisecond; the packet may
// have waited for a person.
func beganAt(p *ledger.Packet) time.Time {
	if at, ok := TimeOf(p.Call); ok {
		return at
	}
	return time.UnixMicro(p.TimeUS)
}
