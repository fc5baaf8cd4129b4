package gateway

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// aSiteMoves moves a site from a file into PostgreSQL and back, with a start at each place.
func aSiteMoves(t *testing.T, there, elsewhere store.URL) {
	t.Helper()
	o := options(t)
	g := open(t, o)
	must(t, g.Ledger.Append(t.Context(), ledger.Draft{Kind: ledger.KindStarted, Body: packet.Started{Version: "test"}}))
	g.Close()
	move := func(to store.URL, file string, moves bool) StoreMoved {
		t.Helper()
		done, err := CopyStore(t.Context(), o.Dir, to, file, moves, nil)
		must(t, err)
		if done.Rows == 0 || done.Ledger.Last == 0 {
			t.Errorf("moved %+v", done)
		}
		return done
	}
	own := filepath.Join(o.Dir, store.FileName)
	move("", filepath.Join(t.TempDir(), "look.db"), false)
	site := move(there, "", true).Site
	if _, err := os.Stat(own + ".moved"); err != nil {
		t.Errorf("the file of before: %v", err)
	}
	g = open(t, o) // it knows where its store lies
	if !g.Store.OnPostgres() || g.Site() != site {
		t.Errorf("site %s, on PostgreSQL: %t", g.Site(), g.Store.OnPostgres())
	}
	if _, err := CheckStore(t.Context(), o.Dir, "", nil); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("beside the gateway: %v", err)
	}
	g.Close()
	state, err := CheckStore(t.Context(), o.Dir, "", nil)
	must(t, err)
	if state.Site != site || state.Ledger.Last == 0 {
		t.Errorf("checked %+v", state)
	}
	if _, err := CopyStore(t.Context(), o.Dir, there, "", true, nil); err == nil {
		t.Error("a store was moved onto itself")
	}
	move("", own, true)
	if g = open(t, o); g.Store.OnPostgres() {
		t.Error("the site did not come back")
	}
	g.Close()
	if _, err := CopyStore(t.Context(), o.Dir, there, "", true, nil); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("onto the database that it left: %v", err)
	}
	move(elsewhere, "", true)
	open(t, o).Close()
}
