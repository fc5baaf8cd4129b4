package stop

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room. stop_switch has one row.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "stop", Version: 1, SQL: `
		CREATE TABLE stop_switch (
			one     INTEGER PRIMARY KEY,
			epoch   INTEGER NOT NULL,
			stopped INTEGER NOT NULL,
			by      TEXT NOT NULL,
			reason  TEXT NOT NULL,
			at_ms   INTEGER NOT NULL
		) STRICT;
		CREATE TABLE stop_node (
			node_id TEXT PRIMARY KEY,
			epoch   INTEGER NOT NULL,
			stopped INTEGER NOT NULL
		) STRICT`}}
}

// MaxReason bounds a reason, in bytes.
const MaxReason = 500

// State is the switch as people see it. Since is when it was turned last.
type State struct {
	Epoch   uint64
	Stopped bool
	By      capabilities.PrincipalID
	Reason  string
	Since   time.Time
}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default: discards
}

// Switch is the site's stop switch. All methods are safe for concurrent use.
type Switch struct {
	opts    Options
	turning sync.Mutex // one turn at a time, its commit included

	mu    sync.RWMutex
	state State
	nodes map[capabilities.NodeID]Own
}

// Own is what a node said last of its own stop switch.
type Own struct {
	Epoch   uint64
	Stopped bool
}

// New makes a switch that is off; call Load before use.
func New(o Options) (*Switch, error) {
	if o.Store == nil {
		return nil, errors.New("stop: Options.Store is required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Switch{opts: o, nodes: map[capabilities.NodeID]Own{}}, nil
}

// Load reads what an earlier process kept.
func (s *Switch) Load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readLocked(ctx)
}

func (s *Switch) readLocked(ctx context.Context) error {
	db := s.opts.Store.Read()
	var ms int64
	err := db.QueryRowContext(ctx, `SELECT epoch, stopped, by, reason, at_ms FROM stop_switch WHERE one = 1`).
		Scan(&s.state.Epoch, &s.state.Stopped, &s.state.By, &s.state.Reason, &ms)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	if err == nil {
		s.state.Since = time.UnixMilli(ms).UTC()
	}
	rows, err := db.QueryContext(ctx, `SELECT node_id, epoch, stopped FROM stop_node`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	for rows.Next() {
		var id capabilities.NodeID
		var own Own
		if err := rows.Scan(&id, &own.Epoch, &own.Stopped); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		s.nodes[id] = own
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return nil
}

// State returns the switch.
func (s *Switch) State() State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// Now returns what tickets and hellos carry.
func (s *Switch) Now() (epoch uint64, stopped bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.Epoch, s.state.Stopped
}

// Turn is one turn of the switch.
type Turn struct {
	On     bool
	By     capabilities.PrincipalID
	Reason string // at most MaxReason bytes
	// Effect is called between the turn in memory and its commit for a stop, after it
	// for a release, with the new epoch. It ends what runs, or lets it run again.
	Effect func(epoch uint64)
	// In is what else belongs into the commit; nil: nothing. Detail, if not nil, is
	// added to the packet's body after In ran.
	In     func(*store.Tx) error
	Detail func() packet.StopEnded
}

// Set turns the switch. Turning it the way it is already makes a new epoch, which is told to
// everybody again: that mends a node that missed one. If a stop cannot be written down, it is in
// effect all the same and Set returns the error.
func (s *Switch) Set(ctx context.Context, t Turn) (State, error) {
	if len(t.Reason) > MaxReason {
		return State{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most %d bytes", MaxReason)
	}
	s.turning.Lock()
	defer s.turning.Unlock()
	now := s.opts.Now()
	was := s.State()
	// The time, because a store that was put back knows of no later epoch, and nodes do.
	next := State{Epoch: max(was.Epoch+1, uint64(max(now.UnixMilli(), 0))), Stopped: t.On, By: t.By, Reason: t.Reason, Since: now.UTC().
		Truncate(time.Millisecond)}
	if t.On {
		s.put(next)
		t.effect(next.Epoch)
	}
	kept, err := s.keep(context.WithoutCancel(ctx), next, t)
	if err != nil {
		if t.On {
			s.opts.Log.Error("stop.not_kept", "err", err)
			return next, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err,
				"Everything is stopped, but that could not be written down: a restart of the gateway would forget it.")
		}
		return was, err
	}
	if !t.On || kept.Epoch != next.Epoch {
		s.put(kept)
		t.effect(kept.Epoch)
	}
	next = kept
	s.opts.Log.Warn("gateway.stop", "stopped", t.On, "by", t.By, "epoch", next.Epoch)
	return next, nil
}

func (t *Turn) effect(epoch uint64) {
	if t.Effect != nil {
		t.Effect(epoch)
	}
}

func (s *Switch) put(next State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = next
}

// The kinds of packets of this room.
const (
	kindStopped     = "gateway.stopped"
	kindResumed     = "gateway.resumed"
	kindNodeStopped = "gateway.node.stopped"
	kindNodeResumed = "gateway.node.resumed"
)

// keep makes a turn durable, and returns it with the epoch that it has.
func (s *Switch) keep(ctx context.Context, next State, t Turn) (State, error) {
	kind := kindResumed
	if next.Stopped {
		kind = kindStopped
	}
	write := s.opts.Store.Write
	if next.Stopped { // a full disk must not let a restart forget it
		write = s.opts.Store.WriteTerminal
	}
	err := write(ctx, func(tx *store.Tx) error {
		if err := s.latestIn(tx, &next); err != nil {
			return err
		}
		body := packet.Stop{Epoch: next.Epoch, Reason: next.Reason}
		if t.In != nil {
			if err := t.In(tx); err != nil {
				return err
			}
		}
		if t.Detail != nil {
			ended := t.Detail()
			body.StopEnded = &ended
		}
		if err := s.opts.Record(tx, kind, next.By, body); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO stop_switch (one, epoch, stopped, by, reason, at_ms) VALUES (1, $1, $2, $3, $4, $5)
			ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, stopped = excluded.stopped, by = excluded.by, reason = excluded.reason, at_ms = excluded.at_ms`,
			int64(next.Epoch), flag(next.Stopped), string(next.By), next.Reason, next.Since.UnixMilli())
		return err
	})
	return next, err
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// Heard takes what a node says of its own stop switch, in memory, and reports
// whether it has been stopped since it last said so: what was granted on it before
// then is over. Keep makes it durable.
func (s *Switch) Heard(node capabilities.NodeID, own Own) (stopped, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.nodes[node]
	if own == was {
		return false, false
	}
	s.nodes[node] = own
	return own.Stopped && !was.Stopped || own.Epoch > was.Epoch, true
}

// Keep writes down what Heard took, with what else belongs into the commit.
func (s *Switch) Keep(ctx context.Context, node capabilities.NodeID, own Own, in func(*store.Tx) error) error {
	kind := kindNodeResumed
	if own.Stopped {
		kind = kindNodeStopped
	}
	return s.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if in != nil {
			if err := in(tx); err != nil {
				return err
			}
		}
		if err := s.opts.Record(tx, kind, "", packet.NodeStop{Node: node, Epoch: own.Epoch}); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO stop_node (node_id, epoch, stopped) VALUES ($1, $2, $3)
			ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch, stopped = excluded.stopped`, string(node), int64(own.Epoch),
			flag(own.Stopped))
		return err
	})
}
