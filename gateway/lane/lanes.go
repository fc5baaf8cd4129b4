package lane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/store"
)

const (
	maxNameLen   = 128
	maxPerOwner  = 1000
	maxNodes     = 64
	flushEvery   = 30 * time.Second
	forgetUnused = 30 * 24 * time.Hour
)

// Lane is one lane as its readers see it.
type Lane struct {
	Lane      capabilities.LaneID
	Principal capabilities.PrincipalID // whose it is; empty until it is first used
	Nodes     []capabilities.NodeID
	CreatedAt time.Time
	LastUsed  time.Time
}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// OnClosed is told what a lane holds no more: on a node that was detached from it,
	// or, with an empty node, on every node, before its name can be anybody else's.
	// Default: nobody.
	OnClosed func(lane capabilities.LaneID, node capabilities.NodeID)
	Now      func() time.Time // default time.Now
	Log      *slog.Logger     // default: discards
}

// Lanes is the set of all lanes. Its methods are safe for concurrent use.
type Lanes struct {
	opts Options

	writing sync.Mutex // one change at a time: checks and writes belong together

	mu     sync.RWMutex
	byName map[capabilities.LaneID]*state
	owned  map[capabilities.PrincipalID]int

	turns        uint64 // changes of what lanes found
	foundChanged chan struct{}
}

// state is one lane. Everything but lastUsed is replaced under Lanes.mu.
type state struct {
	owner    capabilities.PrincipalID
	created  time.Time
	nodes    []capabilities.NodeID // sorted, never changed in place
	begun    bool                  // nodes are those that it began with: nobody attached any to it
	working  working               // what it found by searching
	lastUsed atomic.Int64          // Unix milliseconds, 0 for never
	flushed  int64                 // what the database holds; owned by flush
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "lane", Version: 1, SQL: `
		CREATE TABLE lane (
			lane       TEXT PRIMARY KEY,
			principal  TEXT NOT NULL,
			created_at INTEGER NOT NULL,
			last_used  INTEGER NOT NULL
		) STRICT;
		CREATE TABLE lane_node (
			lane        TEXT NOT NULL REFERENCES lane (lane) ON DELETE CASCADE,
			node        TEXT NOT NULL,
			attached_at INTEGER NOT NULL,
			PRIMARY KEY (lane, node)
		) STRICT`}, {Room: "lane", Version: 2, SQL: `
		ALTER TABLE lane ADD COLUMN begun INTEGER NOT NULL DEFAULT 0`}, // 1: its nodes are those that it began with
		{Room: "lane", Version: 3, SQL: `
		CREATE TABLE lane_tool (
			lane  TEXT NOT NULL REFERENCES lane (lane) ON DELETE CASCADE,
			tool  TEXT NOT NULL,
			place INTEGER NOT NULL,
			PRIMARY KEY (lane, tool)
		) STRICT`}}
}

// New makes an empty set; call Load before use.
func New(o Options) (*Lanes, error) {
	if o.Store == nil {
		return nil, errors.New("lane: Options.Store is required")
	}
	if o.OnClosed == nil {
		o.OnClosed = func(capabilities.LaneID, capabilities.NodeID) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Lanes{
		opts: o, byName: make(map[capabilities.LaneID]*state), owned: make(map[capabilities.PrincipalID]int), foundChanged: make(chan struct{}),
	}, nil
}

// Load reads the lanes.
func (l *Lanes) Load(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, err := l.opts.Store.Read().QueryContext(ctx, `SELECT lane, principal, created_at, last_used, begun FROM lane`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	for rows.Next() {
		var (
			name          capabilities.LaneID
			owner         capabilities.PrincipalID
			created, used int64
			begun         bool
		)
		if err := rows.Scan(&name, &owner, &created, &used, &begun); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		s := &state{owner: owner, created: time.UnixMilli(created).UTC(), flushed: used, begun: begun}
		s.lastUsed.Store(used)
		l.byName[name] = s
		l.owned[owner]++
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	err = l.eachLocked(ctx, `SELECT lane, node FROM lane_node ORDER BY lane, node`, func(s *state, node string) {
		s.nodes = append(s.nodes, capabilities.NodeID(node))
	})
	if err != nil {
		return err
	}
	err = l.eachLocked(ctx, `SELECT lane, tool FROM lane_tool ORDER BY lane, place`, func(s *state, tool string) {
		s.working.tools, s.working.version = append(s.working.tools, capabilities.ToolID(tool)), 1
	})
	if err != nil {
		return err
	}
	l.turns = 1
	return nil
}

// eachLocked reads rows of a lane and something that it has, and leaves out those of no lane.
func (l *Lanes) eachLocked(ctx context.Context, query string, add func(s *state, has string)) error {
	rows, err := l.opts.Store.Read().QueryContext(ctx, query)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	for rows.Next() {
		var (
			name capabilities.LaneID
			has  string
		)
		if err := rows.Scan(&name, &has); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		if s := l.byName[name]; s != nil {
			add(s, has)
		}
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return nil
}

// Enter admits a caller to a lane and notes that it is used. A lane nobody has
// used yet becomes the caller's. Another principal's lane is refused, except to
// roles that may use any.
func (l *Lanes) Enter(ctx context.Context, who principal.Identity, lane capabilities.LaneID) error {
	if err := who.Require(principal.ActCall); err != nil {
		return err
	}
	l.mu.RLock()
	s := l.byName[lane]
	owner := capabilities.PrincipalID("")
	if s != nil {
		owner = s.owner
	}
	l.mu.RUnlock()
	if owner == "" {
		if err := l.Claim(ctx, who.Principal, lane); err != nil {
			return err
		}
		l.mu.RLock()
		s = l.byName[lane]
		l.mu.RUnlock()
	} else if owner != who.Principal && !who.May(principal.ActAnyLane) {
		return errTaken()
	}
	if s != nil {
		s.lastUsed.Store(l.opts.Now().UnixMilli())
	}
	return nil
}

func errTaken() error {
	return capabilities.Errorf(capabilities.CodeForbidden, "This lane belongs to another principal.").
		WithHint("Use a lane of your own: the token's default lane, or a new name.")
}

// Claim makes a lane owner's, unless it belongs to another already. Claiming
// one's own lane again does nothing. One that nothing is attached to begins with the nodes
// of owner's home lane, the one that is named like owner; from then on its nodes are its own.
func (l *Lanes) Claim(ctx context.Context, owner capabilities.PrincipalID, lane capabilities.LaneID) error {
	if err := capabilities.ValidateName("lane", string(lane), maxNameLen); err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	return anew(func() error { return l.claim(ctx, owner, lane) })
}

func (l *Lanes) claim(ctx context.Context, owner capabilities.PrincipalID, lane capabilities.LaneID) error {
	l.mu.RLock()
	s, mine, nodes := l.byName[lane], l.owned[owner], l.homeLocked(owner)
	l.mu.RUnlock()
	if s != nil && len(s.nodes) > 0 {
		nodes = nil
	}
	switch {
	case s != nil && s.owner == owner:
		return nil
	case s != nil && s.owner != "":
		return errTaken()
	case mine >= maxPerOwner:
		return capabilities.Errorf(capabilities.CodeOverloaded, "this principal has %d lanes already", maxPerOwner).
			WithHint("Use one of them again; lanes that nobody attached a node to are forgotten after 30 days without use.")
	}
	now := l.opts.Now().UnixMilli()
	err := l.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := l.same(lane, s); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO lane (lane, principal, created_at, last_used, begun) VALUES ($1, $2, $3, 0, $4)
			ON CONFLICT (lane) DO UPDATE SET principal = excluded.principal, begun = excluded.begun`, string(lane), string(owner), now,
			len(nodes) > 0); err != nil {
			return err
		}
		for _, node := range nodes {
			if _, err := tx.Exec(`INSERT INTO lane_node (lane, node, attached_at) VALUES ($1, $2, $3)`, string(lane), string(node),
				now); err != nil {
				return err
			}
			if l.opts.Record == nil {
				continue
			}
			if err := l.opts.Record(tx, "lane.attached", owner, packet.LaneNode{Lane: lane, Node: node, As: string(owner)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == nil {
		s = &state{created: time.UnixMilli(now).UTC()}
		l.byName[lane] = s
	} else {
		l.owned[s.owner]--
	}
	s.owner = owner
	if len(nodes) > 0 {
		s.nodes, s.begun = nodes, true
	}
	l.owned[owner]++
	return nil
}

// homeLocked returns the nodes of the lane that is named like owner, if it is owner's.
func (l *Lanes) homeLocked(owner capabilities.PrincipalID) []capabilities.NodeID {
	if home := l.byName[capabilities.LaneID(owner)]; home != nil && home.owner == owner {
		return home.nodes
	}
	return nil
}

// Attached returns the nodes that are attached to this very lane (S0-17), sorted. The slice
// is shared: read only.
func (l *Lanes) Attached(lane capabilities.LaneID) []capabilities.NodeID {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.byName[lane]; s != nil {
		return s.nodes
	}
	return nil
}

// Attach attaches a node to a lane; a lane that does not exist yet is made, as
// nobody's. Attaching twice is not an error.
func (l *Lanes) Attach(ctx context.Context, by principal.Identity, lane capabilities.LaneID, node capabilities.NodeID) (Lane, error) {
	return l.edit(ctx, by, lane, node, true)
}

// Detach detaches a node from a lane. Detaching what is not attached is CodeNotFound.
func (l *Lanes) Detach(ctx context.Context, by principal.Identity, lane capabilities.LaneID, node capabilities.NodeID) (Lane, error) {
	return l.edit(ctx, by, lane, node, false)
}

func (l *Lanes) edit(ctx context.Context, by principal.Identity, lane capabilities.LaneID, node capabilities.NodeID,
	attach bool) (Lane, error) {
	if err := by.Require(principal.ActManageLanes); err != nil {
		return Lane{}, err
	}
	if err := capabilities.ValidateName("lane", string(lane), maxNameLen); err != nil {
		return Lane{}, err
	}
	if err := capabilities.ValidateName("node ID", string(node), maxNameLen); err != nil {
		return Lane{}, err
	}
	detached := false
	defer func() { // after the lock: it may wait for a node
		if detached {
			l.opts.OnClosed(lane, node)
		}
	}()
	l.writing.Lock()
	defer l.writing.Unlock()
	var made Lane
	err := anew(func() (err error) {
		made, detached, err = l.editOnce(ctx, by, lane, node, attach)
		return err
	})
	return made, err
}

// editOnce reports whether the node was detached.
func (l *Lanes) editOnce(ctx context.Context, by principal.Identity, lane capabilities.LaneID, node capabilities.NodeID,
	attach bool) (_ Lane, detached bool, _ error) {
	l.mu.RLock()
	s := l.byName[lane]
	var have []capabilities.NodeID
	if s != nil {
		have = s.nodes
	}
	l.mu.RUnlock()
	at, attached := slices.BinarySearch(have, node)
	switch {
	case attach && attached:
		return l.view(lane), false, nil
	case !attach && !attached:
		return Lane{}, false, capabilities.Errorf(capabilities.CodeNotFound, "the node is not attached to this lane")
	case attach && len(have) >= maxNodes:
		return Lane{}, false, capabilities.Errorf(capabilities.CodeConflict, "at most %d nodes can be attached to one lane", maxNodes)
	}
	now := l.opts.Now()
	kind, nodes := "lane.attached", slices.Insert(slices.Clone(have), at, node)
	if !attach {
		kind, nodes = "lane.detached", slices.Delete(slices.Clone(have), at, at+1)
	}
	err := l.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if err := l.same(lane, s); err != nil {
			return err
		}
		if attach {
			if _, err := tx.Exec(`INSERT INTO lane (lane, principal, created_at, last_used) VALUES ($1, '', $2, 0) ON CONFLICT (lane) DO NOTHING`,
				string(lane), now.UnixMilli()); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE lane SET begun = 0 WHERE lane = $1`, string(lane)); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO lane_node (lane, node, attached_at) VALUES ($1, $2, $3)`, string(lane), string(node),
				now.UnixMilli()); err != nil {
				return err
			}
		} else if _, err := tx.Exec(`DELETE FROM lane_node WHERE lane = $1 AND node = $2`, string(lane), string(node)); err != nil {
			return err
		}
		if l.opts.Record == nil {
			return nil
		}
		return l.opts.Record(tx, kind, by.Principal, packet.LaneNode{Lane: lane, Node: node})
	})
	if err != nil {
		return Lane{}, false, err
	}
	l.mu.Lock()
	if s == nil {
		s = &state{created: now.Truncate(time.Millisecond).UTC()}
		l.byName[lane] = s
		l.owned[""]++
	}
	s.nodes, s.begun = nodes, s.begun && !attach
	l.mu.Unlock()
	l.opts.Log.Info(kind, "lane", lane, "node", node, "by", by.Principal)
	return l.view(lane), !attach, nil
}

// List returns the lanes of owner, or all of them if owner is empty, sorted by name.
func (l *Lanes) List(owner capabilities.PrincipalID) []Lane {
	l.mu.RLock()
	list := make([]Lane, 0, len(l.byName))
	for name, s := range l.byName {
		if owner == "" || s.owner == owner {
			list = append(list, viewLocked(name, s))
		}
	}
	l.mu.RUnlock()
	sort.Slice(list, func(i, j int) bool { return list[i].Lane < list[j].Lane })
	return list
}

func (l *Lanes) view(lane capabilities.LaneID) Lane {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return viewLocked(lane, l.byName[lane])
}

func viewLocked(name capabilities.LaneID, s *state) Lane {
	v := Lane{Lane: name, Principal: s.owner, Nodes: slices.Clone(s.nodes), CreatedAt: s.created}
	if v.Nodes == nil {
		v.Nodes = []capabilities.NodeID{}
	}
	if used := s.lastUsed.Load(); used > 0 {
		v.LastUsed = time.UnixMilli(used).UTC()
	}
	return v
}

// Run writes down when lanes were last used, off the callers' path, and forgets those that nobody
// attached a node to and that were not used for 30 days. It returns when ctx ends.
func (l *Lanes) Run(ctx context.Context) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			l.flush(last)
			return nil
		case <-tick.C:
			l.flush(ctx)
		}
	}
}

func (l *Lanes) flush(ctx context.Context) {
	l.writing.Lock()
	defer l.writing.Unlock()
	horizon := l.opts.Now().Add(-forgetUnused)
	type touch struct {
		s    *state
		name capabilities.LaneID
		used int64
	}
	var touched []touch
	var dead []capabilities.LaneID
	l.mu.RLock()
	for name, s := range l.byName {
		used := s.lastUsed.Load()
		if (len(s.nodes) == 0 || s.begun) && used < horizon.UnixMilli() && s.created.Before(horizon) {
			dead = append(dead, name)
		} else if used != s.flushed {
			touched = append(touched, touch{s, name, used})
		}
	}
	l.mu.RUnlock()
	if len(touched)+len(dead) == 0 {
		return
	}
	err := l.opts.Store.Write(ctx, func(tx *store.Tx) error {
		for _, t := range touched {
			if _, err := tx.Exec(`UPDATE lane SET last_used = $1 WHERE lane = $2`, t.used, string(t.name)); err != nil {
				return err
			}
		}
		for _, name := range dead {
			if _, err := tx.Exec(`DELETE FROM lane WHERE lane = $1`, string(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.opts.Log.Warn("lane.flush.failed", "err", err)
		return
	}
	for _, name := range dead {
		l.opts.OnClosed(name, "")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range touched {
		t.s.flushed = t.used
	}
	for _, name := range dead {
		if s := l.byName[name]; s != nil {
			l.owned[s.owner]--
			delete(l.byName, name)
		}
	}
}
