package governance

import (
	"context"
	"crypto/ed25519"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Numbers of before stay when their table changes: packets that the ledger has pruned count on.
func TestNumbersOfBeforeStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	open := func(migrations []store.Migration) *store.Store {
		db, err := store.Open(t.Context(), store.Options{Path: path, ReserveBytes: -1, Migrations: append(migrations, ledger.Migrations...)})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(Migrations()[:1])
	err := db.Write(t.Context(), func(tx *store.Tx) error {
		for _, row := range []struct {
			tool  string
			start int64
			n     int64
		}{{"tool.a.b", 3600, 2}, {"tool.a.b", 7200, 3}, {"tool.a.c", 7200, 5}} {
			if _, err := tx.Exec("INSERT INTO governance_cell (fact, grain, start, tool, a, b, c, n) VALUES ('executions', 0, $1, $2, 't0', 't0', 'node-1', $3)", row.start, row.tool, row.n); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("INSERT INTO governance_cell (fact, grain, start, tool, a, b, c, n) VALUES ('used', 0, 3600, 'tool.a.b', 'grant', 'ann', '', 1)"); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO governance_state (one, version, seq) VALUES (1, $1, 2)", beforeUncounted)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(Migrations())
	t.Cleanup(func() { _ = db.Close() })
	book, err := ledger.Open(context.Background(), ledger.Options{Store: db, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	more := ledger.Draft{Kind: ledger.KindDriftUncounted, Tool: "tool.a.b", Body: packet.DriftUncounted{Events: 7, Severity: drift.Violation}}
	denied := called{tool: "tool.a.b", effect: policy.Deny, code: capabilities.CodeDeniedByPolicy, declared: policy.ByCategory{Network: []string{"dns.lookup", "egress.https"}}}
	// The first two were read, and not counted, or not by category.
	if err := book.Append(t.Context(), more, denied.drafts()[1], more); err != nil {
		t.Fatal(err)
	}
	h := &house{Model: New(Options{Store: db, Ledger: book}), ledger: book}
	if _, err := h.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := h.cells(t)
	for cell, n := range map[string]int64{
		"0|3600|{executions tool.a.b t0 t0 node-1}": 2, "0|7200|{executions tool.a.b t0 t0 node-1}": 3, "0|7200|{executions tool.a.c t0 t0 node-1}": 5,
	} {
		if got[cell] != n {
			t.Errorf("%s is %d: %v", cell, got[cell], got)
		}
	}
	all := span{to: time.Now().AddDate(1, 0, 0), grain: Month}
	if drifted, err := h.sums(t.Context(), all, drifts); err != nil || len(drifted) != 1 || drifted[0].n != 14 {
		t.Errorf("%+v, %v", drifted, err)
	}
	if list, err := h.sums(t.Context(), all, refusals, byA, byB); err != nil || len(list) != 1 || list[0].a != "network" || list[0].b != "deny" || list[0].n != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := h.sums(t.Context(), all, decisions); err != nil || len(list) != 0 {
		t.Errorf("what was counted is counted again: %+v, %v", list, err)
	}
	all.grain = Hour
	if keys, err := h.sums(t.Context(), all, used, byA); err != nil || len(keys) != 0 {
		t.Errorf("%+v, %v", keys, err)
	}
}
