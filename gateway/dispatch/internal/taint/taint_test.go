package taint

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Untrusted content taints the lane and the reader, in whatever lane, from the commit on, also for
// the next process, until nobody read anything for long.
func TestReadingTaints(t *testing.T) {
	s := opened(t)
	b, now := New(), time.Now()
	must(t, s.Write(t.Context(), func(tx *store.Tx) error {
		if err := b.MarkIn(tx, "main", "agent", "tool.browser.evaluate", now); err != nil {
			return err
		}
		if got := b.Of("main", "agent"); got != nil {
			t.Errorf("before the commit: %q", got)
		}
		return nil
	}))
	must(t, s.Write(t.Context(), func(tx *store.Tx) error { return b.MarkIn(tx, "side", "other", "tool.desktop.query", now) }))
	if err := s.Write(t.Context(), func(tx *store.Tx) error {
		_ = b.MarkIn(tx, "never", "never", "tool.browser.evaluate", now)
		return context.Canceled
	}); err == nil {
		t.Fatal("written")
	}
	check := func(b *Book) {
		t.Helper()
		for _, c := range []struct {
			lane capabilities.LaneID
			who  capabilities.PrincipalID
			want []string
		}{
			{"main", "agent", []string{"browser"}}, {"new", "agent", []string{"browser"}}, {"main", "somebody", []string{"browser"}},
			{"side", "agent", []string{"browser", "desktop"}}, {"new", "somebody", nil}, {"never", "never", nil},
		} {
			if got := b.Of(c.lane, c.who); !slices.Equal(got, c.want) {
				t.Errorf("%s in %s: %q, want %q", c.who, c.lane, got, c.want)
			}
		}
	}
	check(b)
	later := New()
	must(t, later.Load(t.Context(), s.Read()))
	check(later)

	must(t, s.Write(t.Context(), func(tx *store.Tx) error { return SweepIn(tx, now.Add(memory+time.Hour)) }))
	clean := New()
	must(t, clean.Load(t.Context(), s.Read()))
	if got := clean.Of("side", "agent"); got != nil {
		t.Errorf("after a month: %q", got)
	}
}

// A principal that goes on reading stays tainted for a month from the last day on which it read,
// also for the next process; in between a read costs no write.
func TestReadingAgainTaintsLonger(t *testing.T) {
	s, b, began := opened(t), New(), time.Now()
	read := func(at time.Time) {
		t.Helper()
		must(t, s.Write(t.Context(), func(tx *store.Tx) error { return b.MarkIn(tx, "main", "agent", "tool.browser.evaluate", at) }))
	}
	since := func() (lane, reader int64) {
		t.Helper()
		must(t, s.Read().QueryRowContext(t.Context(), `SELECT since_ms FROM lane_taint WHERE lane = 'main'`).Scan(&lane))
		must(t, s.Read().QueryRowContext(t.Context(), `SELECT since_ms FROM principal_taint WHERE principal = 'agent'`).Scan(&reader))
		return lane, reader
	}
	read(began)
	read(began.Add(renewal - time.Hour))
	if lane, reader := since(); lane != began.UnixMilli() || reader != began.UnixMilli() {
		t.Error("a read within a day was written again")
	}
	last := began
	for last.Before(began.Add(memory)) {
		last = last.Add(renewal)
		read(last)
		if lane, reader := since(); lane != last.UnixMilli() || reader != last.UnixMilli() {
			t.Fatalf("the read after %s was not written", last.Sub(began))
		}
		b = New() // the next process
		must(t, b.Load(t.Context(), s.Read()))
	}
	after := func(at time.Time) (lane, reader []string) {
		t.Helper()
		must(t, s.Write(t.Context(), func(tx *store.Tx) error { return SweepIn(tx, at) }))
		next := New()
		must(t, next.Load(t.Context(), s.Read()))
		return next.Of("main", "somebody"), next.Of("new", "agent")
	}
	if lane, reader := after(last.Add(memory - time.Hour)); len(lane) != 1 || len(reader) != 1 {
		t.Errorf("clean while they read: %q, %q", lane, reader)
	}
	if lane, reader := after(last.Add(memory + time.Hour)); lane != nil || reader != nil {
		t.Errorf("a month after the last read: %q, %q", lane, reader)
	}
}

func opened(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1, Migrations: []store.Migration{
		{Room: "taint", Version: 1, SQL: LaneMigration}, {Room: "taint", Version: 2, SQL: ReaderMigration},
	}})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
