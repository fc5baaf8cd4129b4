package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"modernc.org/sqlite" // the driver "sqlite" as well

	"github.com/handrail-dev/handrail/capabilities"
)

// lite is SQLite: one file of this machine, a WAL, a lock that keeps a second process out.
type lite struct{ *Store }

const (
	walSize          = 4 << 20
	checkpointTick   = 100 * time.Millisecond
	checkpointGroups = 64               // commits after which the WAL is copied back at the next tick
	checkpointEvery  = 10 * time.Second // or fewer
	walFrames        = 2 << 20 / 4096   // frames at which the writer lets the WAL start over
)

func (s lite) connect(ctx context.Context) error {
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
			WithAction(capabilities.Action{Key: capabilities.ActionChooseData},
				"Stop the gateway that runs on it, or give this one another directory.")
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
	return nil
}

func (s lite) ready() error {
	if err := s.extendWAL(); err != nil {
		s.log.Warn("store.wal.short", "err", err) // slower, not wrong
	}
	var err error
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

// extendWAL makes the WAL's file as long as it usually gets, with zeros, which
// SQLite takes for the end of the log (no frame has page number 0). Syncing bytes
// inside a file costs less than making it longer with every commit.
func (s lite) extendWAL() error {
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

// run brings the WAL back into the database, off the writers' path, until ctx
// ends. It returns an error if the store is poisoned: the process should end.
func (s lite) run(ctx context.Context) error {
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
func (s lite) copyBack(ctx context.Context, conn *sql.Conn) {
	var busy, frames, copied int // of the moment it began
	switch err := conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &copied); {
	case err == nil && frames > walFrames:
		s.walLarge.Store(true)
	case err != nil && ctx.Err() == nil:
		s.checkpointFailed(err)
	}
}

func (s lite) release() error {
	if s.conn != nil && s.reserve.spent.Load() {
		return keepWAL(s.conn)
	}
	return nil
}

// errNothing rolls a transaction back that only looks whether there is room.
var errNothing = errors.New("store: nothing to write")
