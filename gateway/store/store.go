package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite" // the driver "sqlite" as well

	"github.com/handrail-dev/handrail/capabilities"
)

// Migration is one step of one room's tables. Steps run once each, by room in
// the order given and by version within a room; their text may never change
// after it has been applied somewhere.
type Migration struct {
	Room    string // the package that owns the tables, such as "ledger"
	Version int    // 1, 2, … without gaps
	SQL     string // one or more statements that run in one transaction
}

// Options of Open.
type Options struct {
	Path         string       // required: the database file; its folder must exist
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
	lockDB   *sql.DB // holds the file that keeps a second process out
	lockConn *sql.Conn
	db       *sql.DB // one connection: the writer's
	conn     *sql.Conn
	readDB   *sql.DB
	reserve  reserve

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

	walSize          = 4 << 20
	checkpointTick   = 100 * time.Millisecond
	checkpointGroups = 64               // commits after which the WAL is copied back at the next tick
	checkpointEvery  = 10 * time.Second // or fewer
	walFrames        = 2 << 20 / 4096   // frames at which the writer lets the WAL start over
)

// Open opens or creates the database and applies migrations. It starts no
// goroutine of its own; writing works at once, but the WAL is only brought back
// into the database while Run runs.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Path == "" {
		return nil, errors.New("store: Path is required")
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
	if err := s.open(ctx, o.Migrations); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, migrations []Migration) error {
	// The files hold what agents did: nobody else on the machine may read them.
	for _, p := range []string{s.path, s.path + ".lock"} {
		f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The store's file cannot be opened.")
		}
		if err := f.Close(); err != nil {
			return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
		}
	}
	var err error
	// A lock that the kernel drops with the process, whatever kills it, on every
	// OS: an exclusive transaction on a database of its own.
	s.lockDB, s.lockConn, err = openConn(ctx, s.path+".lock", "_busy_timeout=0&_synchronous=OFF&_journal_mode=MEMORY")
	if err == nil {
		_, err = s.lockConn.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	if codeOf(err)&0xff == sqliteBusy {
		return capabilities.Wrap(capabilities.CodeConflict, err, "Another process uses this data directory.").
			WithHint("Stop the gateway that runs on it, or give this one another --data directory.")
	}
	if err != nil {
		return err
	}
	const pragmas = "_busy_timeout=5000&_journal_mode=WAL&_synchronous=FULL&_foreign_keys=1" +
		"&_pragma=wal_autocheckpoint(0)&_pragma=cache_size(-8000)&_pragma=temp_store(memory)&_pragma=secure_delete(fast)"
	s.db, s.conn, err = openConn(ctx, s.path, pragmas)
	for isDiskFull(err) && s.reserve.spend() {
		// The files that reading needs have no room: what may run is stop, and answers.
		s.log.Error("store.disk.full", "err", "The gateway's disk is full.", "cause", err)
		s.db, s.conn, err = openConn(ctx, s.path, pragmas)
	}
	if isDiskFull(err) {
		return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The gateway's disk is full.").
			WithHint("Free 16 MiB on it, and start the gateway again.")
	}
	if err != nil {
		return err
	}
	if err = s.migrate(ctx, migrations); err != nil {
		return err
	}
	if err := s.extendWAL(); err != nil {
		s.log.Warn("store.wal.short", "err", err) // slower, not wrong
	}
	s.readDB, err = sql.Open("sqlite", dsn(s.path, "_busy_timeout=5000&_query_only=1&_pragma=cache_size(-2000)&_pragma=temp_store(memory)"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.readDB.SetMaxOpenConns(max(4, runtime.GOMAXPROCS(0)))
	s.readDB.SetMaxIdleConns(2)
	s.readDB.SetConnMaxIdleTime(time.Minute)
	if s.reserve.spent.Load() {
		return nil
	}
	if err := s.reserve.fill(); err != nil {
		s.log.Warn("store.reserve.missing", "path", s.reserve.path, "err", err)
		s.reserve.spent.Store(true)
	}
	return nil
}

func openConn(ctx context.Context, path, query string) (*sql.DB, *sql.Conn, error) {
	db, err := sql.Open("sqlite", dsn(path, query))
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The store cannot be opened.")
	}
	return db, conn, nil
}

// dsn puts pragmas into the name, so that every connection has them.
func dsn(path, query string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath() + "?" + query
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
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO schema_migration (room, version, digest) VALUES ($1, $2, $3)", m.Room, m.Version,
		digest); err != nil {
		return err
	}
	return tx.Commit()
}

// extendWAL makes the WAL's file as long as it usually gets, with zeros, which
// SQLite takes for the end of the log (no frame has page number 0). Syncing bytes
// inside a file costs less than making it longer with every commit.
func (s *Store) extendWAL() error {
	f, err := os.OpenFile(s.path+"-wal", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, 256<<10)
	for at := info.Size(); at < walSize; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return errors.Join(err, f.Truncate(info.Size()))
		}
	}
	return f.Sync()
}

// keepWAL leaves the log's files where they are when the last connection closes: on a
// full disk the next start would get no room for them.
func keepWAL(conn *sql.Conn) error {
	return conn.Raw(func(driver any) error {
		file, ok := driver.(sqlite.FileControl)
		if !ok {
			return nil
		}
		_, err := file.FileControlPersistWAL("main", 1)
		return err
	})
}

// errNothing rolls a transaction back that only looks whether there is room.
var errNothing = errors.New("store: nothing to write")

// Full reports that the disk is full: only what WriteTerminal takes is written, or the
// last ordinary write found no room.
func (s *Store) Full() bool { return s.reserve.spent.Load() || s.refused.Load() }

// Read is a pool of connections that cannot write (query_only). It sees what
// Write has committed as soon as Write returns.
func (s *Store) Read() *sql.DB { return s.readDB }

// Run brings the WAL back into the database, off the writers' path, until ctx
// ends. It returns an error if the store is poisoned: the process should end.
func (s *Store) Run(ctx context.Context) error {
	db, conn, err := openConn(ctx, s.path, "_busy_timeout=1000&_synchronous=FULL&_pragma=wal_autocheckpoint(0)&_pragma=cache_size(-200)")
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer db.Close()
	defer conn.Close()
	tick := time.NewTicker(checkpointTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.fault:
			return s.poison.Load()
		case <-tick.C:
		}
		if s.reserve.spent.Load() {
			_ = s.Write(ctx, func(*Tx) error { return errNothing }) // looks for room, once a second
		}
		if groups := s.groups.Load(); groups >= checkpointGroups || groups > 0 && time.Since(last) >= checkpointEvery {
			last = time.Now()
			s.groups.Add(-groups)
			s.copyBack(ctx, conn)
		}
	}
}

// copyBack brings what the WAL holds at this moment back into the database, beside
// the writers. SQLite lets the WAL start over only for a writer that finds all of it
// copied, and writers that never pause add to it meanwhile. So, once it is large,
// the next leader copies the little that came since, while nobody writes.
func (s *Store) copyBack(ctx context.Context, conn *sql.Conn) {
	var busy, frames, copied int // of the moment it began
	switch err := conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &copied); {
	case err == nil && frames > walFrames:
		s.walLarge.Store(true)
	case err != nil && ctx.Err() == nil:
		s.checkpointFailed(err)
	}
}

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
	if s.conn != nil && s.reserve.spent.Load() {
		errs = append(errs, keepWAL(s.conn))
	}
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
