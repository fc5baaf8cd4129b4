package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// member opens one of several that write the store at once.
func member(t *testing.T, u URL, more ...string) *Store {
	t.Helper()
	shared := map[string]bool{"item": true}
	for _, table := range more {
		shared[table] = true
	}
	s, err := Open(t.Context(), Options{URL: u, Migrations: testTables, Lease: 5 * time.Second, Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func runs(t *testing.T, s *Store) (ended chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	over := make(chan struct{})
	go func() { ended <- s.Run(ctx); close(over) }()
	t.Cleanup(func() { cancel(); <-over })
	return ended, cancel
}

func TestMembers(t *testing.T) {
	server := pgtest.Start(t)
	for name, test := range map[string]func(*testing.T, URL){
		"write in one order":                      membersWriteInOneOrder,
		"hear of each other":                      membersHearOfEachOther,
		"write no table that is nobody's":         membersWriteSharedTables,
		"are put out once they stand still":       membersArePutOut,
		"are put out once they are killed":        membersAreKilled,
		"leave at once":                           membersLeave,
		"keep out who wants the store alone":      membersKeepOutOthers,
		"do not wait for one within its group":    membersDoNotWait,
		"come back over another connection":       membersComeBack,
		"make tables only where nobody serves":    membersMakeTables,
		"are none of a store with one gateway":    nobodysMember,
		"keep no group of one that was put out":   membersKeepNothingLate,
		"tell again what a failed reading missed": membersTellAgain,
		"take turns": membersTakeTurns,
		"read again what rests on something else": membersRereadTables,
	} {
		t.Run(name, func(t *testing.T) { test(t, URL(server.URL())) })
	}
}

// membersWriteInOneOrder: what each has in memory is what the row says, whenever its function runs.
func membersWriteInOneOrder(t *testing.T, u URL) {
	const writers, each = 3, 40
	var stores []*Store
	var counts []*atomic.Int64
	for range writers {
		s, count := member(t, u), &atomic.Int64{}
		s.Watch(func(ctx context.Context) error {
			var n int64
			err := s.Read().QueryRowContext(ctx, "SELECT COUNT(*) FROM item").Scan(&n)
			count.Store(n)
			return err
		}, "item")
		stores, counts = append(stores, s), append(counts, count)
	}
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			for k := range each {
				err := s.Write(t.Context(), func(tx *Tx) error {
					var n int64
					if err := tx.QueryRow("SELECT COUNT(*) FROM item").Scan(&n); err != nil {
						return err
					}
					if have := counts[i].Load(); have != n {
						return fmt.Errorf("member %d has %d in memory where the store has %d", i, have, n)
					}
					tx.OnCommit(func() { counts[i].Add(1) })
					return insert(tx, fmt.Sprintf("%d-%d", i, k))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := names(t, stores[0]); len(got) != writers*each {
		t.Errorf("kept %d of %d", len(got), writers*each)
	}
}

func membersHearOfEachOther(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	heard := make(chan int, 100)
	b.Watch(func(ctx context.Context) error {
		var n int
		err := b.Read().QueryRowContext(ctx, "SELECT COUNT(*) FROM item").Scan(&n)
		heard <- n
		return err
	}, "item")
	runs(t, b) // it writes nothing of its own
	if err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "one") }); err != nil {
		t.Fatal(err)
	}
	for <-heard != 1 {
	}
	if err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "two") }); err != nil {
		t.Fatal(err)
	}
	if err := b.Refresh(t.Context()); err != nil { // at once, without its turn
		t.Fatal(err)
	}
	select {
	case n := <-heard:
		if n != 2 {
			t.Errorf("it heard of %d", n)
		}
	default:
		t.Error("it does not know what was written before")
	}
	all, err := b.Members(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("members %v, %v", all, err)
	}
}

func membersWriteSharedTables(t *testing.T, u URL) {
	s, err := Open(t.Context(), Options{URL: u, Migrations: testTables, Lease: 2 * time.Second, Shared: map[string]bool{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Write(t.Context(), func(tx *Tx) error {
		_ = insert(tx, "one") // whatever the room makes of the error
		return nil
	})
	if capabilities.CodeOf(err) != capabilities.CodeNotSupported {
		t.Errorf("it wrote a table that others keep in memory: %v", err)
	}
	if got := names(t, s); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
}

// goers counts whom a member puts out.
func goers(s *Store) chan string {
	gone := make(chan string, 10)
	s.OnGone(func(tx *Tx, member string) error {
		tx.OnCommit(func() { gone <- member })
		return nil
	})
	return gone
}

func membersArePutOut(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	gone := goers(b)
	ended, _ := runs(t, a)
	runs(t, b)
	for a.groups.Load() < 2 { // it has begun to renew its lease
		yield()
	}
	release := make(chan struct{})
	stood := make(chan error, 1)
	go func() { // a stands still within a group, as one that is stopped or cut off
		stood <- a.Write(context.Background(), func(tx *Tx) error {
			err := insert(tx, "late")
			<-release
			return err
		})
	}()
	if err := <-ended; !errors.Is(err, errLapsed) || !Lapsed(err) {
		t.Errorf("it stopped with %v", err)
	}
	if got := <-gone; got != a.Member() {
		t.Errorf("%s was put out", got)
	}
	close(release)
	if err := <-stood; capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("its group: %v", err)
	}
	if got := names(t, b); got["late"] {
		t.Error("a group of a member that was put out was kept")
	}
}

func membersAreKilled(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	gone := goers(b)
	runs(t, b)
	_ = a.engine.(*postgres).own.PgConn().Conn().Close() // as the system does for a process that died
	if got := <-gone; got != a.Member() {
		t.Errorf("%s was put out", got)
	}
	if in, err := b.In(t.Context(), a.Member()); in || err != nil {
		t.Errorf("it is in: %v, %v", in, err)
	}
	if err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "late") }); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("it wrote: %v", err)
	}
	if !Lapsed(a.poison.Load()) {
		t.Errorf("it goes on: %v", a.poison.Load())
	}
}

func membersLeave(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	gone := goers(b)
	runs(t, b)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-gone; got != a.Member() {
		t.Errorf("%s was put out", got)
	}
}

func membersKeepOutOthers(t *testing.T, u URL) {
	a := member(t, u)
	s, err := Open(t.Context(), Options{URL: u, Migrations: testTables})
	if capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("one that serves alone came in: %v", err)
	}
	if s != nil {
		_ = s.Close()
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	alone, err := Open(t.Context(), Options{URL: u, Migrations: testTables})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if _, err := Open(t.Context(), Options{URL: u, Migrations: testTables, Lease: time.Second, Shared: map[string]bool{}}); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a member came in beside one that serves alone: %v", err)
	}
}

// membersDoNotWait: one that stands still within a group holds the order of all; the server ends
// that group, and it is run anew behind the others'.
func membersDoNotWait(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	begun, release := make(chan struct{}), make(chan struct{})
	over := make(chan error, 1)
	var once sync.Once
	go func() {
		over <- a.Write(context.Background(), func(tx *Tx) error {
			err := insert(tx, "a")
			once.Do(func() {
				close(begun)
				<-release
			})
			return err
		})
	}()
	<-begun
	if err := b.Write(t.Context(), func(tx *Tx) error { return insert(tx, "b") }); err != nil {
		t.Fatal(err)
	}
	if got := names(t, b); got["a"] || !got["b"] {
		t.Errorf("kept %v", got)
	}
	close(release)
	if err := <-over; err != nil {
		t.Errorf("its group: %v", err)
	}
	if got := names(t, b); !got["a"] {
		t.Errorf("kept %v", got)
	}
}

func membersComeBack(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	if err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "one") }); err != nil {
		t.Fatal(err)
	}
	_ = a.engine.(*postgres).own.PgConn().Conn().Close()
	for { // ordinary writes are refused until the connection is there
		err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "two") })
		if err == nil {
			break
		}
		if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable || a.poison.Load() != nil {
			t.Fatal(err)
		}
		yield()
	}
	if got := names(t, b); len(got) != 2 {
		t.Errorf("kept %v", got)
	}
}

func membersMakeTables(t *testing.T, u URL) {
	a := member(t, u)
	newer := append([]Migration{}, testTables...)
	newer = append(newer, Migration{Room: "newer", Version: 1, SQL: "CREATE TABLE newer (n INTEGER PRIMARY KEY)"})
	o := Options{URL: u, Migrations: newer, Lease: 2 * time.Second, Shared: map[string]bool{"item": true}}
	if _, err := Open(t.Context(), o); capabilities.CodeOf(err) != capabilities.CodeVersionSkew {
		t.Errorf("tables changed below a gateway that serves: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

func nobodysMember(t *testing.T, u URL) {
	s, err := Open(t.Context(), Options{URL: u, Migrations: testTables})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Watch(func(context.Context) error { t.Error("it heard of others"); return nil }, "item")
	if s.Member() != "" || s.Refresh(t.Context()) != nil {
		t.Errorf("member %q", s.Member())
	}
	if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "one") }); err != nil {
		t.Error(err)
	}
}

func membersKeepNothingLate(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	if err := b.engine.(*postgres).putOut(t.Context(), a.Member(), 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "late") }); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("it wrote: %v", err)
	}
	if got := names(t, b); len(got) != 0 {
		t.Errorf("kept %v", got)
	}
}

// membersTellAgain: a room that could not be read again is not old: nothing is written meanwhile.
func membersTellAgain(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	fails, read := true, 0
	b.Watch(func(context.Context) error {
		if fails {
			return errors.New("no")
		}
		read++
		return nil
	}, "item")
	if err := a.Write(t.Context(), func(tx *Tx) error { return insert(tx, "one") }); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), func(tx *Tx) error { return insert(tx, "two") }); err == nil {
		t.Error("it wrote with what was old")
	}
	fails = false
	if err := b.Write(t.Context(), func(tx *Tx) error { return insert(tx, "three") }); err != nil || read != 1 {
		t.Errorf("%v, read %d times", err, read)
	}
}

// membersTakeTurns: one has the turn of a name at a time, for as long as it is in. It knows by then
// what the others wrote.
func membersTakeTurns(t *testing.T, u URL) {
	a, b := member(t, u), member(t, u)
	runs(t, b)
	ended, stop := runs(t, a)
	var inside, most atomic.Int64
	var all sync.WaitGroup
	for _, s := range []*Store{a, b} {
		all.Go(func() {
			for range 10 {
				done, err := s.Turn(t.Context(), "one")
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, fmt.Sprint(s.Member(), time.Now().UnixNano())) }); err != nil {
					t.Error(err)
				}
				inside.Add(-1)
				done()
			}
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had it at once", most.Load())
	}
	if _, err := a.Turn(t.Context(), "one"); err != nil { // it never ends
		t.Fatal(err)
	}
	if done, err := b.Turn(t.Context(), "another"); err != nil {
		t.Error(err)
	} else {
		done()
	}
	short, cancel := context.WithTimeout(t.Context(), 10*turnAgain)
	defer cancel()
	if _, err := b.Turn(short, "one"); capabilities.CodeOf(err) != capabilities.CodeOverloaded {
		t.Errorf("a turn that another has: %v", err)
	}
	stop()
	<-ended
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	done, err := b.Turn(t.Context(), "one") // of one that is out
	if err != nil {
		t.Fatal(err)
	}
	done()
}

func membersRereadTables(t *testing.T, u URL) {
	a := member(t, u)
	member(t, u)
	read := 0
	a.Watch(func(context.Context) error { read++; return nil }, "item")
	for _, want := range []int{1, 1} {
		if err := a.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if read != want {
			t.Errorf("read %d times, want %d", read, want)
		}
	}
	a.Reread("item")
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read != 2 {
		t.Errorf("read %d times once it was to be read again", read)
	}
}
