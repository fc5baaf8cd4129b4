package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestMain(m *testing.M) {
	if childMode() {
		return
	}
	goleak.VerifyTestMain(m)
}

var testTables = []Migration{
	{Room: "test", Version: 1, SQL: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);"},
	{Room: "test", Version: 2, SQL: "ALTER TABLE item ADD COLUMN data BLOB; CREATE INDEX item_data ON item (data);"},
}

// elsewhere is where the store of a path lies, when the same tests look at another database.
var elsewhere func(path string) URL

func openAt(t testing.TB, path string, o Options) *Store {
	t.Helper()
	o.Path = path
	if elsewhere != nil {
		o.Path, o.URL = "", elsewhere(path)
	}
	if o.Migrations == nil {
		o.Migrations = testTables
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(t testing.TB) *Store {
	return openAt(t, filepath.Join(t.TempDir(), "store.db"), Options{ReserveBytes: 64 << 10})
}

func insert(tx *Tx, name string) error {
	_, err := tx.Exec("INSERT INTO item (name) VALUES ($1)", name)
	return err
}

func names(t testing.TB, s *Store) map[string]bool {
	t.Helper()
	rows, err := s.Read().Query("SELECT name FROM item")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		all[name] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// hold makes the store busy with one group until release is called, so that
// what is written meanwhile forms the next group.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	started, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		done <- s.Write(context.Background(), func(tx *Tx) error {
			once.Do(func() { close(started) })
			<-gate
			return nil
		})
	}()
	<-started
	return func() {
		close(gate)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// queued waits until n jobs wait for their turn.
func queued(s *Store, n int) {
	for {
		s.mu.Lock()
		have := len(s.queue)
		s.mu.Unlock()
		if have >= n {
			return
		}
		// Nothing announces a queued job; the writer must not pay for it.
		yield()
	}
}

func TestWriteIsVisibleAndGrouped(t *testing.T) {
	s := open(t)
	release := hold(t, s)
	before := s.groups.Load()
	const n = 50
	var wg sync.WaitGroup
	var committed atomic.Int32
	for i := range n {
		wg.Go(func() {
			err := s.Write(t.Context(), func(tx *Tx) error {
				tx.OnCommit(func() { committed.Add(1) })
				return insert(tx, string(rune('a'+i)))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	queued(s, n)
	release()
	wg.Wait()
	if got := len(names(t, s)); got != n {
		t.Errorf("%d rows, want %d", got, n)
	}
	if committed.Load() != n {
		t.Errorf("%d OnCommit calls, want %d", committed.Load(), n)
	}
	// The holder wrote nothing to the file but counts as a commit.
	if got := s.groups.Load() - before; got != 2 {
		t.Errorf("%d commits, want 2: the holder's and one for all the others", got)
	}
}

func TestFailingFunctionFailsAlone(t *testing.T) {
	s := open(t)
	release := hold(t, s)
	boom := errors.New("boom")
	const n = 20
	errs := make([]error, n)
	var commits [n]atomic.Int32
	var epochs sync.Map
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = s.Write(t.Context(), func(tx *Tx) error {
				epochs.Store(tx.Epoch(), true)
				tx.OnCommit(func() { commits[i].Add(1) })
				name := string(rune('a' + i))
				if i == 13 {
					name = "m" // the UNIQUE constraint is violated: i == 12 has it, or this one first
				}
				if err := insert(tx, name); err != nil {
					return err
				}
				if i%5 == 0 {
					return boom
				}
				return nil
			})
		})
	}
	queued(s, n)
	release()
	wg.Wait()
	all := names(t, s)
	for i := range n {
		name := string(rune('a' + i))
		switch {
		case i%5 == 0:
			if !errors.Is(errs[i], boom) || all[name] || commits[i].Load() != 0 {
				t.Errorf("%d: err %v, present %v, commits %d", i, errs[i], all[name], commits[i].Load())
			}
		case i == 12 || i == 13:
		default:
			if errs[i] != nil || !all[name] || commits[i].Load() != 1 {
				t.Errorf("%d: err %v, present %v, commits %d", i, errs[i], all[name], commits[i].Load())
			}
		}
	}
	if (errs[12] == nil) == (errs[13] == nil) || !all["m"] {
		t.Errorf("exactly one of two equal names must win: %v, %v", errs[12], errs[13])
	}
	distinct := 0
	epochs.Range(func(_, _ any) bool { distinct++; return true })
	if distinct < 2 {
		t.Error("Epoch did not change over a rollback")
	}
}

func TestPanicReachesItsOwnCallerOnly(t *testing.T) {
	s := open(t)
	release := hold(t, s)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			if p := recover(); p == nil || !strings.Contains(p.(string), "mine") {
				t.Errorf("recovered %v", p)
			}
		}()
		s.Write(t.Context(), func(tx *Tx) error { insert(tx, "lost"); panic("mine") })
	})
	wg.Go(func() {
		if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "kept") }); err != nil {
			t.Error(err)
		}
	})
	queued(s, 2)
	release()
	wg.Wait()
	if all := names(t, s); !all["kept"] || all["lost"] {
		t.Errorf("rows: %v", all)
	}
}

func TestOnCommitPanicDoesNotStopTheWriter(t *testing.T) {
	s := open(t)
	if err := s.Write(t.Context(), func(tx *Tx) error {
		tx.OnCommit(func() { panic("late") })
		return insert(tx, "a")
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "b") }); err != nil {
		t.Fatal(err)
	}
}

func TestContextEndsTheWaitOnly(t *testing.T) {
	s := open(t)
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	ran := false
	go func() {
		done <- s.Write(ctx, func(tx *Tx) error { ran = true; return insert(tx, "never") })
	}()
	queued(s, 1)
	cancel()
	if err := <-done; capabilities.CodeOf(err) != capabilities.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	release()
	if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "after") }); err != nil {
		t.Fatal(err)
	}
	if ran || names(t, s)["never"] {
		t.Error("a withdrawn function ran")
	}
	// Once it runs, the truth counts and not the context.
	ctx, cancel = context.WithCancel(t.Context())
	if err := s.Write(ctx, func(tx *Tx) error { cancel(); return insert(tx, "truth") }); err != nil {
		t.Errorf("a committed write gave %v", err)
	}
	if err := s.Write(ctx, func(tx *Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestReadersCanNotWrite(t *testing.T) {
	s := open(t)
	if _, err := s.Read().Exec("INSERT INTO item (name) VALUES ('x')"); err == nil {
		t.Fatal("the read pool wrote")
	}
}

func TestPragmas(t *testing.T) {
	s := open(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "wal_autocheckpoint": "0"} {
		var got string
		if err := s.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q (%v), want %q", pragma, got, err, want)
		}
	}
}

// Writers that never pause must not make the WAL longer for ever: each copying ends
// while somebody writes, so nobody ever finds the whole of it copied.
func TestWALStartsOverUnderLoad(t *testing.T) {
	s := open(t)
	db, conn, err := openConn(t.Context(), s.path, "_busy_timeout=1000&_synchronous=FULL&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer conn.Close()
	const each, times = 1 << 20, 40
	for i := range times {
		err := s.Write(t.Context(), func(tx *Tx) error {
			_, err := tx.Exec("INSERT OR REPLACE INTO item (id, name, data) VALUES ($1, $2, $3)", 1, "x", bytes.Repeat([]byte{byte(i + 1)}, each))
			lite{s}.copyBack(t.Context(), conn)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(walSize + 4*each); info.Size() > most {
		t.Errorf("after %d MiB the WAL has %d MiB, at most %d were to be", times*each>>20, info.Size()>>20, most>>20)
	}
	var check string
	if err := s.Read().QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("the database says %q, %v", check, err)
	}
	var data []byte
	if err := s.Read().QueryRow("SELECT data FROM item WHERE id = 1").Scan(&data); err != nil || !bytes.Equal(data, bytes.Repeat([]byte{times}, each)) {
		t.Errorf("the last write is not there: %d bytes, %v", len(data), err)
	}
}

func TestQueriesInTx(t *testing.T) {
	s := open(t)
	err := s.Write(t.Context(), func(tx *Tx) error {
		for _, n := range []string{"a", "b"} {
			if err := insert(tx, n); err != nil {
				return err
			}
		}
		if n, err := tx.Exec("UPDATE item SET data = $1", []byte{1}); n != 2 || err != nil {
			t.Errorf("changed %d, %v", n, err)
		}
		var id int64
		if err := tx.QueryRow("SELECT id FROM item WHERE name = $1", "zz").Scan(&id); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("err = %v", err)
		}
		if elsewhere == nil { // PostgreSQL goes on with nothing after it: swallowedErrorsKeepNothing
			if err := tx.QueryRow("SELECT nothing FROM item").Scan(&id); err == nil {
				t.Error("a wrong query gave no error")
			}
			if _, err := tx.Exec("NONSENSE"); err == nil {
				t.Error("nonsense gave no error")
			}
		}
		rows, err := tx.Query("SELECT name FROM item ORDER BY name")
		if err != nil {
			return err
		}
		defer rows.Close()
		var got string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			got += name
		}
		if got != "ab" {
			t.Errorf("read %q", got)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMigrations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b#c?d%.db")
	o := func(m []Migration) Options { return Options{Path: path, Migrations: m, ReserveBytes: -1} }
	reopen := func(m []Migration) error {
		s, err := Open(t.Context(), o(m))
		if err == nil {
			s.Close()
		}
		return err
	}
	if err := reopen(testTables[:1]); err != nil {
		t.Fatal(err)
	}
	if err := reopen(testTables); err != nil {
		t.Fatal(err)
	}
	if err := reopen(testTables); err != nil {
		t.Fatalf("a second time: %v", err)
	}
	if err := reopen(testTables[:1]); capabilities.CodeOf(err) != capabilities.CodeVersionSkew {
		t.Errorf("older binary: %v", err)
	}
	if err := reopen([]Migration{{Room: "test", Version: 1, SQL: "CREATE TABLE other (id INTEGER)"}, testTables[1]}); err == nil || !strings.Contains(err.Error(), "another text") {
		t.Errorf("changed text: %v", err)
	}
	if err := reopen(append(testTables[:2:2], Migration{Room: "test", Version: 4, SQL: "SELECT 1"})); err == nil {
		t.Error("a gap was accepted")
	}
	bad := append(testTables[:2:2], Migration{Room: "test", Version: 3, SQL: "CREATE TABLE half (id INTEGER); NONSENSE"})
	if err := reopen(bad); err == nil {
		t.Error("a broken step was accepted")
	}
	good := append(testTables[:2:2], Migration{Room: "test", Version: 3, SQL: "CREATE TABLE half (id INTEGER)"})
	if err := reopen(good); err != nil {
		t.Errorf("the broken step left something behind: %v", err)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	s := open(t)
	_, err := Open(t.Context(), Options{Path: s.path, Migrations: testTables})
	if capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Fatalf("err = %v", err)
	}
}

func TestClose(t *testing.T) {
	s := open(t)
	release := hold(t, s)
	write := make(chan error, 1)
	go func() { write <- s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "waiting") }) }()
	queued(s, 1)
	closed := make(chan error, 2)
	go func() { closed <- s.Close() }()
	queued(s, 2)
	release()
	if err := <-write; err != nil {
		t.Errorf("a write accepted before Close failed: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.Context(), func(*Tx) error { return nil }); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("err = %v", err)
	}
	again := openAt(t, s.path, Options{ReserveBytes: -1})
	if !names(t, again)["waiting"] {
		t.Error("the row is gone")
	}
}

func TestPositional(t *testing.T) {
	for in, want := range map[string]string{
		"SELECT 1":                        "SELECT 1",
		"VALUES ($1, $2, $3)":             "VALUES (?, ?, ?)",
		"a = $1 OR b = $1":                "a = $1 OR b = $1",
		"a = $2 AND b = $1":               "a = $2 AND b = $1",
		"a = '$1 it''s $2' AND b = $1":    "a = '$1 it''s $2' AND b = ?",
		"$1$2$3$4$5$6$7$8$9$10 AND c = $": "$1$2$3$4$5$6$7$8$9$10 AND c = $",
	} {
		if got := positional(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
