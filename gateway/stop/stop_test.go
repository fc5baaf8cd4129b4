package stop_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/stop"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path, Migrations: stop.Migrations(), ReserveBytes: -1})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newSwitch(t *testing.T, o stop.Options) *stop.Switch {
	t.Helper()
	s, err := stop.New(o)
	must(t, err)
	must(t, s.Load(t.Context()))
	return s
}

// A stop is in effect before its commit, a release after; both are there again after
// a restart, with who and why.
func TestSwitchIsDurable(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	var order, kinds []string
	o := stop.Options{Store: db, Record: func(_ *store.Tx, kind string, by capabilities.PrincipalID, _ any) error {
		order, kinds = append(order, "commit"), append(kinds, kind+" by "+string(by))
		return nil
	}}
	s := newSwitch(t, o)
	effect := func(uint64) { order = append(order, "effect") }
	on, err := s.Set(t.Context(), stop.Turn{On: true, By: "anna", Reason: "enough", Effect: effect})
	must(t, err)
	again := newSwitch(t, o)
	if got := again.State(); got != on || !got.Stopped || got.By != "anna" || got.Reason != "enough" {
		t.Errorf("%+v, want %+v", got, on)
	}
	off, err := again.Set(t.Context(), stop.Turn{By: "bert", Effect: effect})
	must(t, err)
	if off.Epoch <= on.Epoch || off.Stopped {
		t.Errorf("%+v after %+v", off, on)
	}
	if epoch, stopped := newSwitch(t, o).Now(); epoch != off.Epoch || stopped {
		t.Errorf("%d %v", epoch, stopped)
	}
	if want := []string{"effect", "commit", "commit", "effect"}; len(order) != 4 || order[0] != want[0] || order[1] != want[1] || order[3] != want[3] {
		t.Errorf("%v", order)
	}
	if len(kinds) != 2 || kinds[0] != "gateway.stopped by anna" || kinds[1] != "gateway.resumed by bert" {
		t.Errorf("%v", kinds)
	}
}

// A stop that cannot be written down stops all the same, and a release that cannot does not
// release.
func TestSwitchWithoutADisk(t *testing.T) {
	fails := false
	broken := errors.New("no disk")
	s := newSwitch(t, stop.Options{Store: open(t, filepath.Join(t.TempDir(), "db")), Record: func(*store.Tx, string, capabilities.PrincipalID, any) error {
		if fails {
			return broken
		}
		return nil
	}})
	fails = true
	if _, err := s.Set(t.Context(), stop.Turn{On: true}); err == nil {
		t.Error("nobody is told that it was not written down")
	}
	if _, err := s.Set(t.Context(), stop.Turn{}); err == nil || !s.State().Stopped {
		t.Errorf("released without a trace: %v", err)
	}
	fails = false
	_, err := s.Set(t.Context(), stop.Turn{})
	must(t, err)
	if s.State().Stopped {
		t.Error("still stopped")
	}
	if _, err := s.Set(t.Context(), stop.Turn{On: true, Reason: string(make([]byte, stop.MaxReason+1))}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || s.State().Stopped {
		t.Errorf("%v", err)
	}
}

// A gateway whose store was put back makes epochs that every node takes for later.
func TestEpochsGrowPastARestore(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	s := newSwitch(t, stop.Options{Store: open(t, filepath.Join(t.TempDir(), "a")), Now: clock})
	var last uint64
	for range 3 { // within one millisecond
		st, err := s.Set(t.Context(), stop.Turn{On: true})
		must(t, err)
		if st.Epoch <= last {
			t.Fatalf("%d after %d", st.Epoch, last)
		}
		last = st.Epoch
	}
	now = now.Add(time.Minute)
	restored := newSwitch(t, stop.Options{Store: open(t, filepath.Join(t.TempDir(), "b")), Now: clock})
	if st, err := restored.Set(t.Context(), stop.Turn{}); err != nil || st.Epoch <= last {
		t.Errorf("%+v %v, after %d", st, err, last)
	}
}

// A node's stop counts once, also when it is over by the time it is heard of.
func TestHeard(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	s := newSwitch(t, stop.Options{Store: db})
	for i, c := range []struct {
		own              stop.Own
		stopped, changed bool
	}{
		{stop.Own{}, false, false}, {stop.Own{Stopped: true}, true, true}, {stop.Own{Stopped: true}, false, false},
		{stop.Own{Epoch: 1}, true, true}, {stop.Own{Epoch: 1}, false, false}, {stop.Own{Epoch: 2}, true, true}, {stop.Own{Epoch: 1}, false, true},
	} {
		if stopped, changed := s.Heard("n1", c.own); stopped != c.stopped || changed != c.changed {
			t.Errorf("%d: %v %v", i, stopped, changed)
		}
	}
	must(t, s.Keep(context.Background(), "n1", stop.Own{Epoch: 5}, nil))
	again := newSwitch(t, stop.Options{Store: db})
	if stopped, changed := again.Heard("n1", stop.Own{Epoch: 5}); stopped || changed {
		t.Error("it forgot what it kept")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A stop that another gateway tells of is in effect at once, and counts once. A release is not
// taken on its word.
func TestTold(t *testing.T) {
	s := newSwitch(t, stop.Options{Store: open(t, filepath.Join(t.TempDir(), "store.db"))})
	first, err := s.Set(t.Context(), stop.Turn{By: "anna"})
	must(t, err)
	turned := 0
	tell := func(now stop.State) { s.Told(now, func(stop.State) { turned++ }) }
	tell(stop.State{Epoch: first.Epoch - 1, Stopped: true})
	tell(stop.State{Epoch: first.Epoch + 2})
	if _, on := s.Now(); on || turned != 0 {
		t.Errorf("an old stop, or a release, counted: %v, %d", on, turned)
	}
	late := stop.State{Epoch: first.Epoch + 1, Stopped: true, By: "bob", Reason: "enough"}
	tell(late)
	tell(late)
	if got := s.State(); got != late || turned != 1 {
		t.Errorf("%+v, turned %d times", got, turned)
	}
	if next, err := s.Set(t.Context(), stop.Turn{By: "anna"}); err != nil || next.Epoch <= late.Epoch || next.Stopped {
		t.Errorf("%+v, %v", next, err)
	}
}
