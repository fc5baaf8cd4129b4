package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Migration is one step of one room's tables. Steps run once each, by room in
// the order given and by version within a room; their text may never change
// after it has been applied somewhere.
type Migration struct {
	Room    string // the package that owns the tables, such as "ledger"
	Version int    // 1, 2, … without gaps
	SQL     string // one or more statements that run in one transaction

	// Postgres is the step's text for PostgreSQL where no rule makes it of SQL. It may change: no
	// digest is kept of it.
	Postgres string
}

// Options of Open.
type Options struct {
	Path     string // the database file; its folder must exist
	URL      URL    // or the PostgreSQL database that the store lies in
	Site     string // with URL, optional: whose store it is; another site's is refused
	Existing bool   // with URL: it has to be there already
	// Lease is, with URL, how long this gateway serves without a word from its database, as one of
	// several that serve one at a time: Open waits for its turn, and Run ends once another may have
	// it. Default: one gateway alone, which waits for its database.
	Lease time.Duration
	// Shared has several gateways serve at once, each with a Lease: the tables that may be written
	// meanwhile, and whether the others are to hear of it. A table that they keep in memory is in it
	// only if they read it again by Watch.
	Shared       map[string]bool
	Vacant       bool         // with URL: nothing may have been kept there; it stays nobody's until Copy
	Migrations   []Migration  // every room's steps
	Log          *slog.Logger // default: discards
	ReserveBytes int64        // disk kept for WriteTerminal; default 8 MiB, negative for none
	MaxGroup     int          // most functions in one commit; default 256
}

// Store is an open database. All methods are safe for concurrent use.
type Store struct {
	log      *slog.Logger
	path     string
	maxGroup int
	engine   engine
	lockDB   *sql.DB // holds the file that keeps a second process out
	lockConn *sql.Conn
	db       *sql.DB // one connection: the writer's
	conn     *sql.Conn
	readDB   *sql.DB
	reserve  reserve
	fleet    *fleet // nil: this gateway serves alone

	tx       Tx // owned by the leader
	stmts    map[string]*sql.Stmt
	epoch    uint64
	groups   atomic.Int64 // commits since the last checkpoint
	walLarge atomic.Bool  // the next leader should let the WAL start over

	fault   chan struct{} // closed when poisoned
	closing sync.Once
	poison  atomic.Pointer[capabilities.Error]
	refused atomic.Bool // the last ordinary write found the disk full

	mu     sync.Mutex
	queue  []*job
	batch  []*job // scratch of the leader
	busy   bool   // somebody leads
	closed bool
	last   int // size of the last group
}

const (
	defaultReserve  = 8 << 20
	defaultMaxGroup = 256
)

// Open opens or creates the database and applies migrations. It starts no
// goroutine of its own; writing works at once, but the WAL is only brought back
// into the database while Run runs.
func Open(ctx context.Context, o Options) (*Store, error) {
	if (o.Path == "") == (o.URL == "") {
		return nil, errors.New("store: Path or URL is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = defaultReserve
	}
	if o.MaxGroup <= 0 {
		o.MaxGroup = defaultMaxGroup
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s := &Store{
		log: o.Log, path: path, maxGroup: o.MaxGroup,
		stmts: map[string]*sql.Stmt{}, fault: make(chan struct{}), epoch: 1,
		reserve: reserve{path: path + ".reserve", size: o.ReserveBytes},
	}
	s.tx.s = s
	s.engine = lite{s}
	if o.URL != "" {
		at, err := parseURL(string(o.URL))
		if err != nil {
			return nil, err
		}
		if o.Shared != nil {
			if o.Lease <= 0 {
				return nil, errors.New("store: Shared needs a Lease")
			}
			s.fleet = newFleet(o.Shared)
		}
		s.engine = &postgres{Store: s, address: at, site: o.Site, existing: o.Existing, vacant: o.Vacant, lease: newLease(o.Lease)}
	}
	if err := s.open(ctx, o.Migrations); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, migrations []Migration) error {
	if err := s.engine.connect(ctx); err != nil {
		return err
	}
	if err := s.migrate(ctx, migrations); err != nil {
		return err
	}
	return s.engine.ready()
}

// migrate applies what is missing, each step in a transaction of its own.
func (s *Store) migrate(ctx context.Context, migrations []Migration) error {
	const table = `CREATE TABLE IF NOT EXISTS schema_migration (
		room TEXT NOT NULL, version INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (room, version))`
	if _, err := s.conn.ExecContext(ctx, table); err != nil {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The store cannot be set up.")
	}
	type step struct {
		room    string
		version int
	}
	applied := map[step]string{}
	newest := map[string]int{}
	rows, err := s.conn.QueryContext(ctx, "SELECT room, version, digest FROM schema_migration")
	if err != nil {
		return fmt.Errorf("store: reading migrations: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var at step
		var digest string
		if err := rows.Scan(&at.room, &at.version, &digest); err != nil {
			return fmt.Errorf("store: reading migrations: %w", err)
		}
		applied[at] = digest
		newest[at.room] = max(newest[at.room], at.version)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("store: reading migrations: %w", err)
	}
	known := map[string]int{}
	for _, m := range migrations {
		if m.Version != known[m.Room]+1 {
			return fmt.Errorf("store: migration %s/%d comes after version %d", m.Room, m.Version, known[m.Room])
		}
		known[m.Room] = m.Version
		sum := sha256.Sum256([]byte(m.SQL))
		digest := hex.EncodeToString(sum[:])
		if have, ok := applied[step{m.Room, m.Version}]; ok {
			if have != digest {
				return fmt.Errorf("store: migration %s/%d was applied with another text", m.Room, m.Version)
			}
			continue
		}
		if err := s.migrateOne(ctx, m, digest); err != nil {
			return fmt.Errorf("store: migration %s/%d: %w", m.Room, m.Version, err)
		}
	}
	for room, version := range newest {
		if have, ok := known[room]; ok && version > have {
			return capabilities.Errorf(capabilities.CodeVersionSkew, "the store was written by a newer version (%s/%d)", room, version).
				WithHint("Use the newer binary, or restore a backup.")
		}
	}
	return nil
}

func (s *Store) migrateOne(ctx context.Context, m Migration, digest string) error {
	if pg, ok := s.engine.(*postgres); ok && s.fleet != nil {
		if err := pg.alone(ctx); err != nil {
			return err
		}
	}
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, s.engine.steps(m)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO schema_migration (room, version, digest) VALUES ($1, $2, $3)", m.Room, m.Version,
		digest); err != nil {
		return err
	}
	return tx.Commit()
}

// Full reports that the disk is full: only what WriteTerminal takes is written, or the
// last ordinary write found no room.
func (s *Store) Full() bool { return s.reserve.spent.Load() || s.refused.Load() }

// OnPostgres reports that the store lies in PostgreSQL: for the query that no common text says.
func (s *Store) OnPostgres() bool { _, ok := s.engine.(*postgres); return ok }

// Read is a pool of connections that cannot write (query_only). It sees what
// Write has committed as soon as Write returns.
func (s *Store) Read() *sql.DB { return s.readDB }

// Run does what the database needs off the writers' path, until ctx ends: the WAL is brought
// back into the database. It returns an error if the store is poisoned: the process should end.
func (s *Store) Run(ctx context.Context) error { return s.engine.run(ctx) }

// Close waits for the running group, refuses later writes and closes the
// files. Idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var err error
	s.closing.Do(func() {
		s.awaitIdle()
		err = s.release()
	})
	return err
}

func (s *Store) release() error {
	var errs []error
	for _, stmt := range s.stmts {
		errs = append(errs, stmt.Close())
	}
	if s.readDB != nil {
		errs = append(errs, s.readDB.Close())
	}
	errs = append(errs, s.engine.release())
	for _, c := range []*sql.Conn{s.conn, s.lockConn} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	for _, db := range []*sql.DB{s.db, s.lockDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
