package outcome

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newClock() *clock { return &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func openStore(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path, Migrations: Migrations, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Store == nil {
		o.Store = openStore(t, filepath.Join(t.TempDir(), "store.db"))
	}
	if o.Key == nil {
		o.Key = bytes.Repeat([]byte{7}, KeySize)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, call capabilities.CallID, kind string, data []byte, ttl time.Duration) error {
	t.Helper()
	return s.opts.Store.Write(t.Context(), func(tx *store.Tx) error { return s.PutIn(tx, call, kind, data, ttl) })
}

func expired(err error) bool { return capabilities.CodeOf(err) == capabilities.CodeResultExpired }

func TestPutGetExpire(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.now})
	if err := put(t, s, "c1", "result", []byte("one"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := put(t, s, "c1", "result", []byte("two"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), "c1", "result"); err != nil || string(got) != "two" {
		t.Fatalf("%q, %v", got, err)
	}
	for _, miss := range [][2]string{{"c1", "other"}, {"c2", "result"}} {
		if _, err := s.Get(t.Context(), capabilities.CallID(miss[0]), miss[1]); !expired(err) {
			t.Errorf("%v: %v", miss, err)
		}
	}
	c.add(time.Minute)
	if _, err := s.Get(t.Context(), "c1", "result"); !expired(err) {
		t.Errorf("after the expiry: %v", err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.opts.Store.Read().QueryRow("SELECT COUNT(*) FROM outcome").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows after the sweep, %v", n, err)
	}
}

func TestSealedAtRestAndBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	st := openStore(t, path)
	s := open(t, Options{Store: st})
	canary := []byte("canary-4711-canary")
	for _, call := range []capabilities.CallID{"c1", "c2"} {
		if err := put(t, s, call, "result", canary, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{path, path + "-wal"} {
		if b, err := os.ReadFile(p); err != nil || bytes.Contains(b, canary) {
			t.Errorf("%s holds the plain bytes (%v)", p, err)
		}
	}
	// Sealed bytes moved to another call, or given a longer life, do not open.
	for _, change := range []string{
		"UPDATE outcome SET sealed = (SELECT sealed FROM outcome WHERE call_id = 'c2') WHERE call_id = 'c1'",
		"UPDATE outcome SET expires_ms = expires_ms + 1000 WHERE call_id = 'c2'",
	} {
		if err := st.Write(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(change); return err }); err != nil {
			t.Fatal(err)
		}
	}
	for _, call := range []capabilities.CallID{"c1", "c2"} {
		if got, err := s.Get(t.Context(), call, "result"); !expired(err) {
			t.Errorf("%s: %q, %v", call, got, err)
		}
	}
	other := open(t, Options{Store: st, Key: bytes.Repeat([]byte{8}, KeySize)})
	if err := put(t, s, "c3", "result", canary, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Get(t.Context(), "c3", "result"); !expired(err) {
		t.Errorf("another key: %v", err)
	}
}

func TestQuotaDropsWhatExpiresFirst(t *testing.T) {
	s := open(t, Options{Quota: 10 * 1040, MaxItem: 1000})
	data := make([]byte, 1000) // 1040 sealed
	for i := range 10 {
		if err := put(t, s, capabilities.CallID(fmt.Sprint("c", i)), "result", data, time.Duration(100-i)*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	// A rollback must not spoil the count.
	err := s.opts.Store.Write(t.Context(), func(tx *store.Tx) error {
		if err := s.PutIn(tx, "lost", "result", data, time.Hour); err != nil {
			return err
		}
		return errors.New("no")
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, call := range []capabilities.CallID{"c3", "new"} { // replaced, then added
		if err := put(t, s, call, "result", data, 200*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		_, err := s.Get(t.Context(), capabilities.CallID(fmt.Sprint("c", i)), "result")
		if gone := i == 9; gone != expired(err) || !gone && err != nil {
			t.Errorf("c%d: %v", i, err)
		}
	}
	var used int64
	if err := s.opts.Store.Read().QueryRow("SELECT SUM(size) FROM outcome").Scan(&used); err != nil || used != 10*1040 || used != s.used {
		t.Errorf("used %d, remembered %d, %v", used, s.used, err)
	}
	if err := put(t, s, "big", "result", make([]byte, 1001), time.Hour); capabilities.CodeOf(err) != capabilities.CodeResultTooLarge {
		t.Errorf("too large: %v", err)
	}
}

func TestDigestKeys(t *testing.T) {
	c := newClock()
	st := openStore(t, filepath.Join(t.TempDir(), "store.db"))
	s := open(t, Options{Store: st, Now: c.now, DigestTTL: 24 * time.Hour})
	began := c.now()
	key := func(s *Store, call capabilities.CallID) DigestKey {
		t.Helper()
		k, err := s.DigestKey(t.Context(), call, began)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	// Several at once agree on one secret.
	macs := make([][32]byte, 16)
	var wg sync.WaitGroup
	for i := range macs {
		wg.Go(func() { macs[i] = key(s, "c1").MAC([]byte("1234")) })
	}
	wg.Wait()
	for _, m := range macs {
		if m != macs[0] {
			t.Fatal("two keys for one call")
		}
	}
	if key(s, "c2").MAC([]byte("1234")) == macs[0] {
		t.Error("two calls share a key")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", key(s, "c1"), key(s, "c1"), key(s, "c1"), key(s, "c1")); bytes.Count([]byte(text), []byte("[digest key]")) != 4 {
		t.Errorf("a key prints as %s", text)
	}
	c.add(23 * time.Hour)
	again := open(t, Options{Store: st, Now: c.now, DigestTTL: 24 * time.Hour})
	if key(again, "c1").MAC([]byte("1234")) != macs[0] {
		t.Error("another key after a restart")
	}
	c.add(3 * time.Hour)
	if err := again.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, again} {
		if _, err := s.DigestKey(t.Context(), "c1", began); !expired(err) {
			t.Errorf("after the expiry: %v", err)
		}
	}
	var n int
	if err := st.Read().QueryRow("SELECT COUNT(*) FROM outcome_digest_key").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d secrets left, %v", n, err)
	}
}

func TestRunEnds(t *testing.T) {
	s := open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func BenchmarkDigestKey(b *testing.B) {
	st, err := store.Open(b.Context(), store.Options{Path: filepath.Join(b.TempDir(), "s.db"), Migrations: Migrations, ReserveBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	s, err := Open(Options{Store: st, Key: make([]byte, KeySize)})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		k, err := s.DigestKey(b.Context(), "c1", now)
		if err != nil {
			b.Fatal(err)
		}
		k.MAC([]byte("{}"))
	}
}
