package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/handrail-dev/handrail/capabilities"
)

// Several gateways may write one schema at once. Each is a member: a row of store_member with the
// number of groups that it kept. A group begins by raising the number of all groups, which is a
// lock that lasts until it is kept: the groups of all members have one order. It then raises its
// own member's number, which fails for a member that was put out. Where others kept groups since,
// the rooms whose tables those wrote are read again before the first function of the group runs.
//
//	store_writer  grouped  — of all members, in order
//	store_member  member, grouped, pid, lease_ms, gone
//	store_change  grouped, member, tables — what a group wrote that others keep in memory
//	store_turn    name, member, number — who is at what takes several groups (turn.go)

// memberTables are made where the first member opens a schema.
const memberTables = `
CREATE TABLE IF NOT EXISTS store_member (
	member   TEXT COLLATE "C" PRIMARY KEY,
	pid      BIGINT NOT NULL,
	grouped  BIGINT NOT NULL,
	lease_ms BIGINT NOT NULL,
	gone     BIGINT NOT NULL,
	at       TEXT COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 10);
CREATE TABLE IF NOT EXISTS store_change (
	grouped BIGINT PRIMARY KEY,
	member  TEXT COLLATE "C" NOT NULL,
	tables  TEXT COLLATE "C" NOT NULL,
	at      TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);` + turnTable

const (
	// pollEvery is how old the rooms' memory may be where nobody writes here.
	pollEvery = 200 * time.Millisecond
	judgeTick = 500 * time.Millisecond
	// lostWithin is how long a member may be without a connection: one that broke is made again
	// in a tenth of that.
	lostWithin = 2 * time.Second
	// heardFor is how long it is kept what a group wrote. A member that did not look for as long
	// was put out long ago.
	heardFor = "10 minutes"
)

// fleet is what a store knows as one of several. The leader owns what has no lock.
type fleet struct {
	member string
	shared map[string]bool
	number int64               // of the group under way, among all
	wrote  map[string]struct{} // tables of it that others hear of
	tables map[string]string   // what a text writes, by text

	turns  atomic.Int64 // that this member asked for
	unread atomic.Bool  // a watch was added, and what came before it is not known
	feed   atomic.Int64 // up to which group the rooms know what others wrote

	mu      sync.Mutex
	watches []*watch
	goners  []func(*Tx, string) error

	seen map[string]sighting // of judges
}

type watch struct {
	tables []string
	reload func(context.Context) error
	unread atomic.Bool // what was written until now
}

// sighting is how a member was seen last.
type sighting struct {
	grouped   int64
	still     time.Time // since when it did not go on
	connected time.Time // when it had a connection last
}

func newFleet(shared map[string]bool) *fleet {
	return &fleet{
		member: "g" + strings.ToLower(rand.Text()[:12]), shared: shared, wrote: map[string]struct{}{}, tables: map[string]string{},
		seen: map[string]sighting{},
	}
}

// Member returns which of several gateways this is, and "" for one that serves alone. Each process
// is another.
func (s *Store) Member() string {
	if s.fleet == nil {
		return ""
	}
	return s.fleet.member
}

// Watch has reload called once another gateway wrote any of the tables, and before the next group,
// for what was written until now. It is called by the writer,
// before the first function of a group, so it may read the store and takes no lock that somebody
// holds over a Write. Where this gateway serves alone it is never called.
func (s *Store) Watch(reload func(context.Context) error, tables ...string) {
	if s.fleet == nil {
		return
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	w := &watch{tables: tables, reload: reload}
	w.unread.Store(true)
	s.fleet.watches = append(s.fleet.watches, w)
	s.fleet.unread.Store(true)
}

// Reread has the rooms that watch a table read it again before the next group: what they kept of it
// rests on something that is another now.
func (s *Store) Reread(table string) {
	if s.fleet == nil {
		return
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	for _, w := range s.fleet.watches {
		if slices.Contains(w.tables, table) {
			w.unread.Store(true)
			s.fleet.unread.Store(true)
		}
	}
}

// OnGone has f called when this gateway puts another out, in the commit that does so: what that one
// left open is this one's from then on. f may run more than once.
func (s *Store) OnGone(f func(tx *Tx, member string) error) {
	if s.fleet == nil {
		return
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.fleet.goners = append(s.fleet.goners, f)
}

// Refresh returns once the rooms know what others wrote up to now.
func (s *Store) Refresh(ctx context.Context) error {
	if s.fleet == nil {
		return nil
	}
	return s.Write(ctx, func(*Tx) error { return nil }) // a group begins with it
}

// CatchUp is Refresh for those who miss what another gateway may have written a moment ago: where
// none wrote anything it costs one reading.
func (s *Store) CatchUp(ctx context.Context) error {
	p, several := s.engine.(*postgres)
	if s.fleet == nil || !several {
		return nil
	}
	return p.poll(ctx)
}

// In reports whether a member is one that serves, as the store has it.
func (s *Store) In(ctx context.Context, member string) (in bool, err error) {
	err = s.Read().QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM store_member WHERE member = $1 AND gone = 0)", member).Scan(&in)
	return in, err
}

// Reach has the others know where this gateway is reached.
func (s *Store) Reach(ctx context.Context, at string) error {
	if s.fleet == nil {
		return nil
	}
	return s.Write(ctx, func(tx *Tx) error {
		_, err := tx.Exec(`UPDATE store_member SET at = $1 WHERE member = $2`, at, s.fleet.member)
		return err
	})
}

// Reached returns where each member is reached that serves now.
func (s *Store) Reached(ctx context.Context) (map[string]string, error) {
	rows, err := s.Read().QueryContext(ctx, "SELECT member, at FROM store_member WHERE gone = 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var member, at string
		if err := rows.Scan(&member, &at); err != nil {
			return nil, err
		}
		all[member] = at
	}
	return all, rows.Err()
}

// Members returns those that serve now, this one among them.
func (s *Store) Members(ctx context.Context) (all []string, err error) {
	if s.fleet == nil {
		return nil, nil
	}
	rows, err := s.Read().QueryContext(ctx, "SELECT member FROM store_member WHERE gone = 0 ORDER BY member")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m string
		if err := rows.Scan(&m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, rows.Err()
}

var writes = regexp.MustCompile(`^\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+"?([a-z_]+)"?`)

// note takes down what a text writes. A table that rooms keep in memory and do not read again is
// refused: it would be old at the others.
func (f *fleet) note(query string) error {
	table, known := f.tables[query]
	if !known {
		if m := writes.FindStringSubmatch(query); m != nil {
			table = m[1]
		}
		f.tables[query] = table
	}
	if table == "" || strings.HasPrefix(table, "store_") {
		return nil
	}
	heard, shared := f.shared[table]
	if !shared {
		return capabilities.Errorf(capabilities.CodeNotSupported,
			"This cannot be changed while several gateways serve at once (%s): each of them keeps it in memory.", table).
			WithHint("Let one gateway of the site serve alone, change it there, and start the others again.")
	}
	if heard {
		f.wrote[table] = struct{}{}
	}
	return nil
}

// told is the statement that tells others what the group wrote.
func (f *fleet) told() string {
	if len(f.wrote) == 0 {
		return ""
	}
	return fmt.Sprintf("INSERT INTO store_change (grouped, member, tables) VALUES (%d, '%s', '%s'); ", f.number, f.member,
		strings.Join(slices.Sorted(maps.Keys(f.wrote)), " "))
}

// join makes this gateway a member.
func (s *postgres) join(ctx context.Context) error {
	if _, err := s.own.Exec(ctx, memberTables); err != nil {
		return err
	}
	if _, err := s.own.Exec(ctx, `INSERT INTO store_member (member, pid, grouped, lease_ms, gone) VALUES ($1, $2, 0, $3, 0)`, s.fleet.member,
		int64(s.pid), s.lease.length.Milliseconds()); err != nil {
		return err
	}
	var number int64 // the rooms are read after this
	err := s.own.QueryRow(ctx, `SELECT grouped FROM store_writer`).Scan(&number)
	s.fleet.feed.Store(number)
	return err
}

// returns takes the member's place up again over another connection, and reads how many of its
// groups were kept.
func (s *postgres) returns(ctx context.Context) error {
	err := s.own.QueryRow(ctx, `UPDATE store_member SET pid = $1 WHERE member = $2 AND gone = 0 RETURNING grouped`, int64(s.pid), s.fleet.member).
		Scan(&s.grouped)
	if errors.Is(err, pgx.ErrNoRows) {
		return errReplaced
	}
	return away(err)
}

// alone reports that no other member serves: steps of the tables are made by one.
func (s *postgres) alone(ctx context.Context) error {
	var others int
	if err := s.conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM store_member m WHERE gone = 0 AND member <> $1 AND `+connected, s.fleet.member,
		int64(lockRoom), int64(s.lockID())).Scan(&others); err != nil {
		return err
	}
	if others > 0 {
		return capabilities.Errorf(capabilities.CodeVersionSkew, "the store is of an older version, and %d other gateways work with it", others).
			WithHint("End the others first; the first gateway of the new version brings the store up to date.")
	}
	return nil
}

// connected says of a member m whether its connection is there; it takes the lock's two numbers.
const connected = `EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid::bigint = $2 AND l.objid::bigint = $3 AND
	l.pid = m.pid AND l.granted)`

// beginShared begins a group of a member.
func (s *postgres) beginShared() error {
	f := s.fleet
	clear(f.wrote)
	ctx, cancel := limited()
	defer cancel()
	s.lease.asks()
	results, err := s.own.PgConn().Exec(ctx, fmt.Sprintf(`BEGIN; UPDATE store_writer SET grouped = grouped + 1 WHERE one = 1 AND moved = '';
		UPDATE store_member SET grouped = %d WHERE member = '%s' AND gone = 0; SELECT grouped FROM store_writer`, s.grouped+1, f.member)).ReadAll()
	switch {
	case err != nil:
	case len(results) != 4 || results[1].CommandTag.RowsAffected() != 1 || results[2].CommandTag.RowsAffected() != 1:
		err = errReplaced
	default:
		if f.number, err = strconv.ParseInt(string(results[3].Rows[0][0]), 10, 64); err == nil {
			err = s.refresh(ctx)
		}
	}
	if err != nil && !s.own.IsClosed() {
		_, _ = s.own.Exec(ctx, "ROLLBACK")
	}
	return err
}

// refresh has the rooms read what others wrote before the group under way.
func (s *postgres) refresh(ctx context.Context) error {
	f := s.fleet
	feed := f.feed.Load()
	changed := map[string]bool{}
	if feed != f.number-1 {
		s.Store.epoch++ // rooms that follow Tx.Epoch read what they keep of the database again
		rows, err := s.own.Query(ctx, "SELECT tables FROM store_change WHERE grouped > $1 AND member <> $2", feed, f.member)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var tables string
			if err := rows.Scan(&tables); err != nil {
				return err
			}
			for _, t := range strings.Fields(tables) {
				changed[t] = true
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	unread := f.unread.Swap(false)
	if len(changed) > 0 || unread {
		if err := f.reload(ctx, changed); err != nil {
			f.unread.Store(f.unread.Load() || unread)
			return err
		}
	}
	f.feed.Store(f.number - 1)
	return nil
}

func (f *fleet) reload(ctx context.Context, changed map[string]bool) error {
	f.mu.Lock()
	watches := slices.Clone(f.watches)
	f.mu.Unlock()
	for _, w := range watches {
		if !w.unread.Swap(false) && !slices.ContainsFunc(w.tables, func(t string) bool { return changed[t] }) {
			continue
		}
		if err := w.reload(ctx); err != nil {
			w.unread.Store(true)
			return fmt.Errorf("store: reading %s again: %w", w.tables[0], err)
		}
	}
	return nil
}

// follows has the rooms learn what others wrote, and puts out members that are gone, until ctx
// ends.
func (s *postgres) follows(ctx context.Context) {
	poll, judge := time.NewTicker(pollEvery), time.NewTicker(judgeTick)
	defer poll.Stop()
	defer judge.Stop()
	forget := time.NewTicker(time.Minute)
	defer forget.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-s.fault:
			return
		case <-poll.C:
			err = s.poll(ctx)
		case <-judge.C:
			err = s.judges(ctx)
		case <-forget.C:
			err = s.Write(ctx, func(tx *Tx) error {
				_, err := tx.Exec(`DELETE FROM store_change WHERE at < clock_timestamp() - interval '` + heardFor + `'`)
				return err
			})
		}
		if err != nil && ctx.Err() == nil && !isAway(err) && s.poison.Load() == nil {
			s.log.Warn("store.fleet", "err", err)
		}
	}
}

func (s *postgres) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.lease.length)
	defer cancel()
	var last int64
	if err := s.readDB.QueryRowContext(ctx, "SELECT COALESCE(MAX(grouped), 0) FROM store_change").Scan(&last); err != nil {
		return err
	}
	if last <= s.fleet.feed.Load() {
		return nil
	}
	return s.Refresh(ctx)
}

// judges looks at the other members, and puts out those that are gone: that stood still for longer
// than their lease, that have no connection, or that said that they end.
func (s *postgres) judges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.lease.length)
	defer cancel()
	rows, err := s.readDB.QueryContext(ctx, `SELECT member, grouped, lease_ms, CASE WHEN `+connected+` THEN 1 ELSE 0 END FROM store_member m
		WHERE gone = 0 AND member <> $1`, s.fleet.member, int64(lockRoom), int64(s.lockID()))
	if err != nil {
		return err
	}
	defer rows.Close()
	now, seen := time.Now(), map[string]sighting{}
	out := map[string]int64{}
	for rows.Next() {
		var member string
		var grouped, lease int64
		var there bool
		if err := rows.Scan(&member, &grouped, &lease, &there); err != nil {
			return err
		}
		last, known := s.fleet.seen[member]
		if !known || last.grouped != grouped {
			last.grouped, last.still = grouped, now
		}
		if !known || there {
			last.connected = now
		}
		seen[member] = last
		if over := time.Duration(lease) * time.Millisecond * 6 / 5; lease == 0 || now.Sub(last.still) > over ||
			now.Sub(last.connected) > lostWithin {
			out[member] = grouped
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_ = rows.Close()
	s.fleet.seen = seen
	for _, member := range slices.Sorted(maps.Keys(out)) {
		if err := s.putOut(ctx, member, out[member]); err != nil {
			return err
		}
	}
	return nil
}

func (s *postgres) putOut(ctx context.Context, member string, grouped int64) error {
	s.fleet.mu.Lock()
	goners := slices.Clone(s.fleet.goners)
	s.fleet.mu.Unlock()
	err := s.Write(ctx, func(tx *Tx) error {
		n, err := tx.Exec(`UPDATE store_member SET gone = 1 WHERE member = $1 AND grouped = $2 AND gone = 0`, member, grouped)
		if err != nil {
			return err
		}
		if n == 0 {
			return errNothing // it went on, or another was first
		}
		for _, f := range goners {
			if err := f(tx, member); err != nil {
				return err
			}
		}
		tx.OnCommit(func() { s.log.Warn("store.member.put_out", "member", member, "by", s.fleet.member) })
		return nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// leaves tells the others that this member ends, so that they need not wait for its lease.
func (s *postgres) leaves() {
	if s.fleet == nil || s.own == nil || s.own.IsClosed() || s.poison.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	_, _ = s.own.Exec(ctx, `UPDATE store_member SET lease_ms = 0 WHERE member = $1`, s.fleet.member)
}
