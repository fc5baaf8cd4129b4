package generation

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGenerations(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: Migrations(), ReserveBytes: -1})
	must(t, err)
	defer s.Close()
	state := func() State {
		t.Helper()
		now, err := Load(t.Context(), s)
		must(t, err)
		return now
	}
	raise := func(now time.Time) (raised uint64) {
		t.Helper()
		must(t, s.Write(t.Context(), func(tx *store.Tx) (err error) { raised, err = RaiseIn(tx, now); return err }))
		return raised
	}
	if now := state(); now.Generation != 0 || now.Superseded() != nil {
		t.Fatalf("a new site: %+v, %v", now, now.Superseded())
	}
	at := time.UnixMilli(5000)
	if got := raise(at); got != 5000 || state().Generation != 5000 {
		t.Errorf("raised to %d, kept %+v", got, state())
	}
	if got := raise(at.Add(-time.Second)); got != 5001 { // a clock that was set back
		t.Errorf("raised to %d by a slow clock", got)
	}
	heard := func(generation uint64, node capabilities.NodeID) {
		t.Helper()
		must(t, s.Write(t.Context(), func(tx *store.Tx) error {
			return HeardIn(tx, node, pairing.Mark{Generation: generation}, at)
		}))
	}
	heard(9000, "n1")
	heard(8000, "n2") // what is known stays
	now := state()
	if now.Later != 9000 || now.ToldBy != "n1" || capabilities.CodeOf(now.Superseded()) != capabilities.CodeSiteSuperseded {
		t.Errorf("%+v: %v", now, now.Superseded())
	}
	// A restore here goes past the copy that was heard of, whatever the clock says.
	if got := raise(at); got != 9001 || state().Superseded() != nil {
		t.Errorf("raised to %d, %v", got, state().Superseded())
	}
}
