package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// TestPostgres has one server for all that is about PostgreSQL.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t)
	for _, one := range []struct {
		name string
		test func(*testing.T, *pgtest.Server)
	}{
		{"keeps the same promises", keepsTheSamePromises},
		{"has one writer", hasOneWriter},
		{"swallowed errors keep nothing", swallowedErrorsKeepNothing},
		{"a commit without an answer", commitWithoutAnAnswer},
		{"a copy there and back", copyThereAndBack},
		{"goes away and comes back", goesAwayAndComesBack},
		{"by TLS", byTLS}, // the last: its server starts anew
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, server) })
	}
}

// keepsTheSamePromises runs the tests of the writer that name no file.
func keepsTheSamePromises(t *testing.T, server *pgtest.Server) {
	t.Helper()
	elsewhere = func(path string) URL {
		h := fnv.New64a()
		_, _ = h.Write([]byte(path))
		return URL(server.Named(fmt.Sprintf("s%x", h.Sum64())))
	}
	defer func() { elsewhere = nil }()
	for name, test := range map[string]func(*testing.T){
		"groups":         TestWriteIsVisibleAndGrouped,
		"fails alone":    TestFailingFunctionFailsAlone,
		"panic":          TestPanicReachesItsOwnCallerOnly,
		"oncommit panic": TestOnCommitPanicDoesNotStopTheWriter,
		"context":        TestContextEndsTheWaitOnly,
		"readers":        TestReadersCanNotWrite,
		"queries":        TestQueriesInTx,
	} {
		t.Run(name, test)
	}
}

func openURL(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: URL(url), Migrations: testTables})
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

func hasOneWriter(t *testing.T, server *pgtest.Server) {
	t.Helper()
	url := server.URL()
	s := openURL(t, url)
	if _, err := Open(t.Context(), Options{URL: URL(url), Migrations: testTables}); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a second gateway got %v", err)
	}
	// Another gateway took the schema over, whatever became of the lock: nothing more is written.
	if _, err := s.engine.(*postgres).own.Exec(t.Context(), "UPDATE store_writer SET epoch = epoch + 1"); err != nil {
		t.Fatal(err)
	}
	err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "late") })
	if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable || !errors.Is(err, s.poison.Load()) {
		t.Errorf("the replaced writer got %v", err)
	}
	if names(t, s)["late"] {
		t.Error("the replaced writer wrote")
	}
}

func swallowedErrorsKeepNothing(t *testing.T, server *pgtest.Server) {
	t.Helper()
	s := openURL(t, server.URL())
	err := s.Write(t.Context(), func(tx *Tx) error {
		if err := insert(tx, "one"); err != nil {
			return err
		}
		_ = insert(tx, "one") // not unique
		return nil
	})
	if !errors.Is(err, errUndone) || len(names(t, s)) != 0 {
		t.Errorf("got %v with %v kept", err, names(t, s))
	}
}

func goesAwayAndComesBack(t *testing.T, server *pgtest.Server) {
	t.Helper()
	s := openURL(t, server.URL())
	write := func(terminal bool, name string) error {
		return s.write(context.Background(), func(tx *Tx) error { return insert(tx, name) }, terminal)
	}
	if err := write(false, "before"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := write(false, "refused"); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Fatalf("while the database was away a write got %v", err)
	}
	if !s.Full() {
		t.Error("the store does not say that nothing is written")
	}
	terminal := make(chan error, 1)
	go func() { terminal <- write(true, "terminal") }()
	for leads := false; !leads; yield() {
		s.mu.Lock()
		leads = s.busy
		s.mu.Unlock()
	}
	if err := write(false, "refused too"); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("beside a terminal write that waits, an ordinary one got %v", err)
	}
	server.Go()
	if err := <-terminal; err != nil {
		t.Errorf("the terminal write got %v", err)
	}
	if err := write(false, "after"); err != nil {
		t.Errorf("after its return a write got %v", err)
	}
	if got := names(t, s); len(got) != 3 || !got["before"] || !got["terminal"] || !got["after"] {
		t.Errorf("kept %v", got)
	}
}

// commitWithoutAnAnswer ends the writer's process of the server around commits, while
// callers write: what they were told is what is there.
func commitWithoutAnAnswer(t *testing.T, server *pgtest.Server) {
	t.Helper()
	url := server.URL()
	s := openURL(t, url)
	other := openURL(t, server.URL()) // the connection that ends others
	var told sync.Map
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("%d-%d", w, i)
				told.Store(name, s.Write(context.Background(), func(tx *Tx) error { return insert(tx, name) }) == nil)
			}
		})
	}
	for range 20 {
		if _, err := other.engine.(*postgres).own.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
		before := s.groups.Load()
		for s.groups.Load() == before && s.poison.Load() == nil {
			yield()
		}
	}
	close(stop)
	wg.Wait()
	if p := s.poison.Load(); p != nil {
		t.Fatal(p)
	}
	kept := names(t, s)
	told.Range(func(name, ok any) bool {
		if kept[name.(string)] != ok.(bool) {
			t.Errorf("%v: told %v, kept %v", name, ok, kept[name.(string)])
		}
		return true
	})
}

func TestPostgresAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"postgres://u:geheim@h/d?sslmode=prefer":       "in the clear",
		"postgres://u:geheim@h/d?schema=pg_x":          "no name",
		"postgres://u:geheim@h/d?schema=A%22B":         "no name",
		"http://u:geheim@h/d":                          "not that of a PostgreSQL",
		"postgres://u:geheim@h/d?sslmode=verify-half":  "cannot be read",
		"postgres://u:geheim@h/d?connect_timeout=ever": "cannot be read",
	} {
		_, err := parseURL(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", in, err)
		}
	}
	for in, tls := range map[string]bool{"postgres://u@db.example/d": true, "postgres://u@localhost/d": false, "postgres://u@/d?host=/run": false} {
		at, err := parseURL(in)
		if err != nil || at.schema != "handrail" || (at.TLSConfig != nil) != tls || tls && at.TLSConfig.InsecureSkipVerify {
			t.Errorf("%s: %v, %v", in, at, err)
		}
	}
}
