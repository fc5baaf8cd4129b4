package events

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room. n orders events: 32 times the packet's number, and the
// event's place in it.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "drift", Version: 1, SQL: `
		CREATE TABLE drift_event (
			n           INTEGER PRIMARY KEY,
			drift_id    TEXT NOT NULL UNIQUE,
			at_us       INTEGER NOT NULL,
			call_id     TEXT NOT NULL,
			tool        TEXT NOT NULL,
			principal   TEXT NOT NULL,
			lane        TEXT NOT NULL,
			node        TEXT NOT NULL,
			signal      INTEGER NOT NULL,
			severity    TEXT NOT NULL,
			key         TEXT NOT NULL,
			declared    INTEGER NOT NULL,
			runner      TEXT NOT NULL,
			evidence    TEXT NOT NULL,
			times       INTEGER NOT NULL,
			response    TEXT NOT NULL,
			envelope    TEXT NOT NULL,
			profile     TEXT NOT NULL,
			snapshot    TEXT NOT NULL,
			raises      INTEGER NOT NULL,
			resolved_us INTEGER NOT NULL,
			resolved_by TEXT NOT NULL,
			reason      TEXT NOT NULL
		) STRICT;
		CREATE INDEX drift_event_runner ON drift_event (runner, at_us);
		CREATE INDEX drift_event_raises ON drift_event (tool, node) WHERE raises > 0 AND resolved_us = 0;
		CREATE INDEX drift_event_open ON drift_event (n) WHERE resolved_us = 0;
		CREATE TABLE drift_quarantine (
			runner    TEXT PRIMARY KEY,
			at_us     INTEGER NOT NULL,
			node      TEXT NOT NULL,
			class     TEXT NOT NULL,
			walls     TEXT NOT NULL,
			program   TEXT NOT NULL,
			tool      TEXT NOT NULL,
			drift_id  TEXT NOT NULL,
			lifted_us INTEGER NOT NULL
		) STRICT;
		CREATE TABLE drift_restricted (
			tool     TEXT PRIMARY KEY,
			at_us    INTEGER NOT NULL,
			manifest TEXT NOT NULL,
			drift_id TEXT NOT NULL
		) STRICT;
		CREATE TABLE drift_clean (
			tool  TEXT NOT NULL,
			node  TEXT NOT NULL,
			calls INTEGER NOT NULL,
			PRIMARY KEY (tool, node)
		) STRICT;
		CREATE TABLE drift_state (
			one INTEGER PRIMARY KEY CHECK (one = 1)
		) STRICT`}}
}

// Bounds.
const (
	maxReason = 500 // bytes
	maxListed = 500
	// MaxResolved is how many events are resolved at once.
	MaxResolved = 200
	// perPacket is more than one packet has events.
	perPacket = 32
)

// How responses follow from events.
const (
	// third is how many violations within hour quarantine a runner (S1-52).
	third = 3
	hour  = time.Hour
	// clean is how many calls that show nothing end a raise of risk (S1-05).
	clean = 1000
	// MaxRaise is by how many levels risk is raised at most: from the lowest to the highest.
	MaxRaise = 3
)

// Options of New.
type Options struct {
	Store  *store.Store   // required, opened with Migrations
	Ledger *ledger.Ledger // required
	// Manifest returns the hash of a tool's manifest as it is now; "": there is no such tool.
	// Required for Review.
	Manifest func(capabilities.ToolID) string
	Now      func() time.Time // default time.Now
}

// Event is one difference between what was seen and what was granted.
type Event struct {
	packet.Drift
	Seq       uint64 // of its packet
	At        time.Time
	Call      capabilities.CallID
	Tool      capabilities.ToolID // "": a page showed it
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Node      capabilities.NodeID
	Raises    int       // levels by which it raises the risk now
	Resolved  time.Time // zero: it is open
	By        capabilities.PrincipalID
	Reason    string

	n int64
}

// Quarantine is a runner that takes no calls.
type Quarantine struct {
	drift.Runner
	Fingerprint string
	Since       time.Time
	Tool        capabilities.ToolID // of the last event
	Event       string
}

// Restriction is a tool that is not called before a person has reviewed its manifest.
type Restriction struct {
	Tool     capabilities.ToolID
	Since    time.Time
	Manifest string // of the tool when it was restricted
	Event    string
}

// Raise is by how much the risk of a tool is raised on a node.
type Raise struct {
	Tool   capabilities.ToolID
	Node   capabilities.NodeID
	Levels int // 1 to MaxRaise
	Clean  int // calls since the last event that showed nothing
}

type place struct {
	tool capabilities.ToolID
	node capabilities.NodeID
}

// state is what holds, as far as calls are judged by it.
type state struct {
	raised      map[place]int
	quarantined map[string]Quarantine
	restricted  map[capabilities.ToolID]Restriction
}

func newState() state {
	return state{raised: map[place]int{}, quarantined: map[string]Quarantine{}, restricted: map[capabilities.ToolID]Restriction{}}
}

// Book is the events of one gateway. Its methods are safe for concurrent use.
type Book struct {
	opts Options

	mu sync.RWMutex
	state
	// watched are the places whose clean calls are counted, and some whose are not any more.
	watched map[place]bool
}

// New makes a Book; Load it before use.
func New(o Options) *Book {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Book{opts: o, state: newState(), watched: map[place]bool{}}
}

// Load reads what holds. The first time it is folded from the ledger.
func (b *Book) Load(ctx context.Context) error {
	var known bool
	if err := b.opts.Store.Read().QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM drift_state)").Scan(&known); err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	if !known {
		return b.Rebuild(ctx)
	}
	s := newState()
	scan := func(query string, row func(*sql.Rows) error) error {
		rows, err := b.opts.Store.Read().QueryContext(ctx, query)
		return each(rows, err, row)
	}
	err := errors.Join(
		scan("SELECT tool, node, SUM(raises) FROM drift_event WHERE raises > 0 AND resolved_us = 0 GROUP BY tool, node",
			func(rows *sql.Rows) error {
				var at place
				var levels int
				err := rows.Scan(&at.tool, &at.node, &levels)
				s.raised[at] = min(levels, MaxRaise)
				return err
			}),
		scan("SELECT runner, at_us, node, class, walls, program, tool, drift_id FROM drift_quarantine WHERE lifted_us = 0",
			func(rows *sql.Rows) error {
				var q Quarantine
				var at int64
				err := rows.Scan(&q.Fingerprint, &at, &q.Host, &q.Class, &q.Walls, &q.Program, &q.Tool, &q.Event)
				q.Since = time.UnixMicro(at).UTC()
				s.quarantined[q.Fingerprint] = q
				return err
			}),
		scan("SELECT tool, at_us, manifest, drift_id FROM drift_restricted", func(rows *sql.Rows) error {
			var r Restriction
			var at int64
			err := rows.Scan(&r.Tool, &at, &r.Manifest, &r.Event)
			r.Since = time.UnixMicro(at).UTC()
			s.restricted[r.Tool] = r
			return err
		}),
	)
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	b.take(s)
	return nil
}

func (b *Book) take(s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = s
	for at := range s.raised {
		b.watched[at] = true
	}
}

func each(rows *sql.Rows, err error, row func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Rebuild forgets everything and folds it anew from the packets that the ledger still has.
func (b *Book) Rebuild(ctx context.Context) error {
	tip, _ := b.opts.Ledger.Tip()
	var packets []ledger.Packet
	keep := func(p *ledger.Packet) error { packets = append(packets, *p); return nil }
	err := b.opts.Ledger.Between(ctx, 0, tip, responses, keep)
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	raising := map[place]bool{}
	for i := range packets {
		if packets[i].Kind == ledger.KindDrift {
			raising[place{packets[i].Tool, packets[i].Node}] = true
		}
	}
	if len(raising) > 0 { // only then clean calls count
		err := b.opts.Ledger.Between(ctx, 0, tip, []ledger.Kind{ledger.KindCallResult}, func(p *ledger.Packet) error {
			if raising[place{p.Tool, p.Node}] {
				q := *p
				q.Body = nil
				packets = append(packets, q)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("drift: %w", err)
		}
		sort.Slice(packets, func(i, j int) bool { return packets[i].Seq < packets[j].Seq })
	}
	var s state
	err = b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		s = newState()
		for _, table := range [...]string{"drift_event", "drift_quarantine", "drift_restricted", "drift_clean"} {
			if _, err := tx.Exec("DELETE FROM " + table); err != nil {
				return err
			}
		}
		for i := range packets {
			apply, err := fold(tx, &packets[i])
			if err != nil {
				return err
			}
			apply(&s)
		}
		_, err := tx.Exec("INSERT INTO drift_state (one) VALUES (1) ON CONFLICT DO NOTHING")
		return err
	})
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	b.take(s)
	return nil
}

// Filter is which events are wanted. Empty fields match all.
type Filter struct {
	Open     bool
	Tool     capabilities.ToolID
	Node     capabilities.NodeID
	Call     capabilities.CallID
	Signal   string // as drift.Number has it
	Severity drift.Severity
	Before   uint64 // events of packets before this one; 0: the newest
	Limit    int    // 1 to 500; default 100
}

const eventColumns = "n, drift_id, at_us, call_id, tool, principal, lane, node, signal, severity, key, declared, runner, evidence, " +
	"times, response, envelope, profile, snapshot, raises, resolved_us, resolved_by, reason"

func (e *Event) scan(row interface{ Scan(...any) error }) error {
	var at, resolved int64
	err := row.Scan(&e.n, &e.ID, &at, &e.Call, &e.Tool, &e.Principal, &e.Lane, &e.Node, &e.Signal, &e.Severity, &e.Key, &e.Declared, &e.Runner,
		&e.Evidence, &e.Count,
		&e.Response, &e.EnvelopeHash, &e.Profile, &e.Snapshot, &e.Raises, &resolved, &e.By, &e.Reason)
	e.Seq, e.At = uint64(e.n/perPacket), time.UnixMicro(at).UTC()
	if resolved != 0 {
		e.Resolved, e.Raises = time.UnixMicro(resolved).UTC(), 0
	}
	return err
}

// List returns events, the newest first. before continues the list; 0: there are no more.
func (b *Book) List(ctx context.Context, f Filter) (list []Event, before uint64, err error) {
	if f.Limit == 0 {
		f.Limit = 100
	}
	f.Limit = min(max(f.Limit, 1), maxListed)
	query, args := "SELECT "+eventColumns+" FROM drift_event WHERE n < $1", []any{int64(1)<<62 - 1}
	if f.Before > 0 {
		args[0] = int64(min(f.Before, 1<<56)) * perPacket
	}
	if f.Open {
		query += " AND resolved_us = 0"
	}
	only := func(column string, value any) {
		args = append(args, value)
		query += fmt.Sprintf(" AND %s = $%d", column, len(args))
	}
	if f.Tool != "" {
		only("tool", string(f.Tool))
	}
	if f.Node != "" {
		only("node", string(f.Node))
	}
	if f.Call != "" {
		only("call_id", string(f.Call))
	}
	if f.Signal != "" {
		n, err := drift.ParseNumber(f.Signal)
		if err != nil {
			return nil, 0, err
		}
		only("signal", int(n))
	}
	if f.Severity != "" {
		if !slices.Contains(drift.Severities(), f.Severity) {
			return nil, 0, capabilities.Errorf(capabilities.CodeInvalidRequest, "severity %.32q is none of %v", f.Severity, drift.Severities())
		}
		only("severity", string(f.Severity))
	}
	rows, err := b.opts.Store.Read().QueryContext(ctx, query+fmt.Sprintf(" ORDER BY n DESC LIMIT %d", f.Limit+perPacket), args...)
	err = each(rows, err, func(rows *sql.Rows) error {
		var e Event
		if err := e.scan(rows); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("drift: %w", err)
	}
	for i := f.Limit; i < len(list); i++ { // the events of one packet stay together
		if list[i].Seq != list[i-1].Seq {
			return list[:i], list[i-1].Seq, nil
		}
	}
	return list, 0, nil
}

// Holding returns what holds: quarantines and restrictions, the oldest first, and raises by tool.
func (b *Book) Holding(ctx context.Context) (quarantines []Quarantine, restrictions []Restriction, raises []Raise, err error) {
	b.mu.RLock()
	for _, q := range b.quarantined {
		quarantines = append(quarantines, q)
	}
	for _, r := range b.restricted {
		restrictions = append(restrictions, r)
	}
	for at, levels := range b.raised {
		raises = append(raises, Raise{Tool: at.tool, Node: at.node, Levels: levels})
	}
	b.mu.RUnlock()
	for i := range raises {
		err := b.opts.Store.Read().QueryRowContext(ctx, "SELECT calls FROM drift_clean WHERE tool = $1 AND node = $2", string(raises[i].Tool),
			string(raises[i].Node)).Scan(&raises[i].Clean)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, nil, nil, fmt.Errorf("drift: %w", err)
		}
	}
	sort.Slice(quarantines, func(i, j int) bool { return quarantines[i].Since.Before(quarantines[j].Since) })
	sort.Slice(restrictions, func(i, j int) bool { return restrictions[i].Since.Before(restrictions[j].Since) })
	sort.Slice(raises, func(i, j int) bool {
		x, y := raises[i], raises[j]
		return cmp.Or(cmp.Compare(x.Tool, y.Tool), cmp.Compare(x.Node, y.Node)) < 0
	})
	return quarantines, restrictions, raises, nil
}

// Restricted returns why a tool is not called; false: it may be.
func (b *Book) Restricted(tool capabilities.ToolID) (Restriction, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	r, ok := b.restricted[tool]
	return r, ok
}

// NewID returns the ID of a new event.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "drift_" + hex.EncodeToString(b[:])
}

func checkReason(reason string) error {
	if strings.TrimSpace(reason) == "" || len(reason) > maxReason || !utf8.ValidString(reason) {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "reason: say why, in at most %d bytes", maxReason)
	}
	return nil
}

// change appends a draft and folds it. find makes the draft, in the transaction.
func (b *Book) change(ctx context.Context, reason string, find func(*store.Tx) (ledger.Draft, error)) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	return b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		d, err := find(tx)
		if err != nil {
			return err
		}
		_, err = b.append(tx, d)
		return err
	})
}

// Record records events that no call's end has: those of pages.
func (b *Book) Record(ctx context.Context, drafts ...ledger.Draft) error {
	return b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := b.append(tx, drafts...)
		return err
	})
}

// append records drafts and folds them; memory follows at the commit.
func (b *Book) append(tx *store.Tx, drafts ...ledger.Draft) ([]ledger.Packet, error) {
	packets, err := b.opts.Ledger.AppendIn(tx, drafts...)
	if err != nil {
		return nil, err
	}
	for i := range packets {
		if err := b.foldIn(tx, &packets[i]); err != nil {
			return nil, err
		}
	}
	return packets, nil
}

func (b *Book) foldIn(tx *store.Tx, p *ledger.Packet) error {
	apply, err := fold(tx, p)
	if err != nil {
		return fmt.Errorf("drift: %w", err)
	}
	tx.OnCommit(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		apply(&b.state)
	})
	return nil
}

// Resolve ends events by a person's word, each with a packet of its own: their risk is raised no
// more. A quarantine or a restriction that followed from one stays. All end, or none does:
// CodeNotFound, CodeConflict: one is resolved already.
func (b *Book) Resolve(ctx context.Context, by capabilities.PrincipalID, reason string, ids ...string) ([]Event, error) {
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > MaxResolved {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "name 1 to %d events", MaxResolved)
	}
	find := func(row interface{ Scan(...any) error }, id string) (e Event, err error) {
		if err = e.scan(row); errors.Is(err, sql.ErrNoRows) {
			err = capabilities.Errorf(capabilities.CodeNotFound, "there is no drift event %.80q", id).
				WithAction(capabilities.Action{Key: capabilities.ActionListDrift}, "Name one that is.")
		}
		return e, err
	}
	const one = "SELECT " + eventColumns + " FROM drift_event WHERE drift_id = $1"
	err := b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, id := range ids { // one that stands there twice is resolved already
			e, err := find(tx.QueryRow(one, id), id)
			if err != nil {
				return err
			}
			if !e.Resolved.IsZero() {
				return capabilities.Errorf(capabilities.CodeConflict, "%s is resolved already, by %s", e.ID, e.By).
					WithHint("Nothing was resolved; name those that are open.")
			}
			_, err = b.append(tx, ledger.Draft{Kind: ledger.KindDriftResolved, Call: e.Call, Tool: e.Tool, Principal: by, Lane: e.Lane, Node: e.Node,
				Body: packet.DriftResolved{
					ID: e.ID, Signal: e.Signal, Severity: e.Severity, OpenedUS: e.At.UnixMicro(), Reason: reason,
				}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	list := make([]Event, 0, len(ids))
	for _, id := range ids {
		e, err := find(b.opts.Store.Read().QueryRowContext(ctx, one, id), id)
		if err != nil {
			return nil, fmt.Errorf("drift: %w", err)
		}
		list = append(list, e)
	}
	return list, nil
}
