package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Query selects packets. Empty fields match all.
type Query struct {
	After     uint64 // packets with a larger sequence number
	Before    uint64 // packets with a smaller one; 0: no bound
	Limit     int    // default 100, at most 1000
	Newest    bool   // the last ones, newest first, instead of the first
	Call      capabilities.CallID
	Kind      Kind // a kind, or the beginning of one that ends with "."
	Tool      capabilities.ToolID
	Without   []string // beginnings of IDs of tools that are left out
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Node      capabilities.NodeID
	// Parent is the call whose steps it is about; Whole leaves out all steps.
	Parent capabilities.CallID
	Whole  bool
	// Text stands somewhere in tool, principal, lane, node, call or body, whatever the
	// case of its Latin letters. No index helps: bound it by After and Before.
	Text string
	// Says are texts that stand in the body just so. No index helps here either.
	Says []string
}

const (
	defaultLimit = 100
	maxLimit     = 1000

	followed    = 100 // packets that Follow reads at once
	followPause = 100 * time.Millisecond
)

// Of a step's packets the body says whose step it is. An index holds those alone, and SQLite takes
// it only for the very words with which it was made. A body is canonical JSON, so no text in it can
// look like a member of it.
const (
	hasParent = `instr(body, '"parent_call_id":') > 0`
	parentOf  = `json_extract(body, '$.parent_call_id')`
)

// Packets returns what q selects, from durable packets only.
func (l *Ledger) Packets(ctx context.Context, q Query) ([]Packet, error) {
	var packets []Packet
	tail, args := q.sql()
	err := l.scan(ctx, tail, args, func(p *Packet) error {
		packets = append(packets, *p)
		return nil
	})
	return packets, err
}

// sql is what selects the packets, behind the table's name.
func (q *Query) sql() (tail string, args []any) {
	where := []string{"seq > $1"}
	args = []any{int64(q.After)}
	add := func(cond string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(cond, len(args)))
	}
	if q.Before > 0 {
		add("seq < $%d", int64(q.Before))
	}
	if prefix := string(q.Kind); strings.HasSuffix(prefix, ".") {
		add("kind >= $%d", prefix)
		add("kind < $%d", prefix[:len(prefix)-1]+"/") // '/' follows '.'
	} else if prefix != "" {
		add("kind = $%d", prefix)
	}
	for _, f := range [...]struct{ cond, value string }{
		{"call_id = $%d AND call_id <> ''", string(q.Call)}, // as the index wants it
		{"tool_id = $%d", string(q.Tool)},
		{"principal = $%d", string(q.Principal)},
		{"lane = $%d", string(q.Lane)},
		{"node_id = $%d", string(q.Node)},
	} {
		if f.value != "" {
			add(f.cond, f.value)
		}
	}
	for _, tools := range q.Without {
		args = append(args, tools)
		where = append(where, fmt.Sprintf("substr(tool_id, 1, length($%[1]d)) <> $%[1]d", len(args)))
	}
	if q.Parent != "" {
		add(hasParent+" AND "+parentOf+" = $%d", string(q.Parent)) // as the index wants it
	}
	if q.Whole {
		where = append(where, "NOT ("+hasParent+")")
	}
	for _, text := range q.Says {
		add("instr(body, $%d) > 0", text)
	}
	if q.Text != "" {
		add("instr(lower(tool_id || ' ' || principal || ' ' || lane || ' ' || node_id || ' ' || call_id || ' ' || body), lower($%d)) > 0", q.Text)
	}
	order := " ORDER BY seq"
	if q.Newest {
		order += " DESC"
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	args = append(args, min(limit, maxLimit))
	return "WHERE " + strings.Join(where, " AND ") + order + fmt.Sprintf(" LIMIT $%d", len(args)), args
}

// Followed is what Follow reads; a Ledger is one.
type Followed interface {
	Packets(context.Context, Query) ([]Packet, error)
	Changed() <-chan struct{}
	Tip() (seq uint64, hash chain.Hash)
}

// Follow hands every durable packet of a kind behind sequence number after to each, in order, until
// ctx ends. It looks at no packet twice, and reads at most ten times a second however many come.
// A failed read is told to failed, and tried again with the next packet.
func Follow(ctx context.Context, l Followed, after uint64, kind Kind, each func(*Packet), failed func(error)) {
	for ctx.Err() == nil {
		changed := l.Changed() // before reading, so that nothing is missed
		tip, _ := l.Tip()
		list, err := l.Packets(ctx, Query{After: after, Kind: kind, Limit: followed})
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		for i := range list {
			each(&list[i])
			after = list[i].Seq
		}
		if len(list) == followed {
			continue
		}
		if err == nil {
			after = max(after, tip) // up to there nothing else is of the kind
		}
		select {
		case <-ctx.Done():
		case <-changed:
			select {
			case <-ctx.Done():
			case <-time.After(followPause):
			}
		}
	}
}

// Since returns every durable packet behind a sequence number to each, in order, until
// it fails.
func (l *Ledger) Since(ctx context.Context, seq uint64, each func(*Packet) error) error {
	return l.scan(ctx, "WHERE seq > $1 ORDER BY seq", []any{int64(seq)}, each)
}

// Between returns the durable packets of some kinds behind sequence number after and up to through
// to each, in order, until it fails. They come without Prev and Hash.
func (l *Ledger) Between(ctx context.Context, after, through uint64, kinds []Kind, each func(*Packet) error) error {
	quoted := make([]string, len(kinds))
	for i, k := range kinds {
		quoted[i] = "'" + strings.ReplaceAll(string(k), "'", "''") + "'"
	}
	rows, err := l.store.Read().QueryContext(ctx, "SELECT seq, time_us, kind, call_id, tool_id, principal, lane, node_id, body FROM "+
		"packet_store WHERE seq > $1 AND seq <= $2 AND kind IN ("+
		strings.Join(quoted, ", ")+") ORDER BY seq", int64(after), int64(through))
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var c scanned
		if err := rows.Scan(c.into()...); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		p := c.packet()
		if err := each(&p); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// EndedIn reports whether a call's end is recorded, as tx sees the ledger.
func (l *Ledger) EndedIn(tx *store.Tx, call capabilities.CallID) (bool, error) {
	var ended bool
	err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM packet_store WHERE call_id = $1 AND call_id <> '' AND kind IN ('"+
		string(KindCallResult)+"', '"+string(KindCallFailed)+"', '"+string(KindCallReconciled)+"'))", string(call)).Scan(&ended)
	if err != nil {
		return false, fmt.Errorf("ledger: %w", err)
	}
	return ended, nil
}

// scan reads packets one by one.
func (l *Ledger) scan(ctx context.Context, tail string, args []any, each func(*Packet) error) error {
	rows, err := l.store.Read().QueryContext(ctx, "SELECT "+columns+" FROM packet_store "+tail, args...)
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Packet
		if err := scanPacket(rows, &p); err != nil {
			return err
		}
		if err := each(&p); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

func scanPacket(rows interface{ Scan(...any) error }, p *Packet) error {
	var c scanned
	var prev, hash []byte
	if err := rows.Scan(append(c.into(), &prev, &hash)...); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	*p = c.packet()
	if len(prev) != len(p.Prev) || len(hash) != len(p.Hash) {
		return corrupt("entry %d has no proper hash", p.Seq)
	}
	copy(p.Prev[:], prev)
	copy(p.Hash[:], hash)
	return nil
}

// scanned is a row of the first nine columns in the types that database/sql fills without looking
// at them by reflection, which would take longer than reading them.
type scanned struct {
	seq, timeUS                             int64
	kind, call, tool, principal, lane, node string
	body                                    []byte
}

func (c *scanned) into() []any {
	return []any{&c.seq, &c.timeUS, &c.kind, &c.call, &c.tool, &c.principal, &c.lane, &c.node, &c.body}
}

func (c *scanned) packet() Packet {
	return Packet{
		Seq: uint64(c.seq), TimeUS: c.timeUS, Kind: Kind(c.kind), Call: capabilities.CallID(c.call), Tool: capabilities.ToolID(c.tool),
		Principal: capabilities.PrincipalID(c.principal), Lane: capabilities.LaneID(c.lane), Node: capabilities.NodeID(c.node), Body: c.body,
	}
}
