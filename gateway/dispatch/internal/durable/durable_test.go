package durable

import (
	"context"
	"crypto/ed25519"
	"errors"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
)

func packets(call capabilities.CallID) Packets {
	draft := func(kind ledger.Kind) ledger.Draft { return ledger.Draft{Kind: kind, Call: call} }
	return Packets{draft(ledger.KindCallRequest), []ledger.Draft{draft(ledger.KindCallDecision)}, draft(ledger.KindCallDispatch)}
}

// A committed value is one whose packets are all in the ledger; a value that is made in any
// other way cannot be used.
func TestOnlyACommitMakesOne(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1, Migrations: ledger.Migrations})
	must(t, err)
	defer s.Close()
	l, err := ledger.Open(t.Context(), ledger.Options{Store: s, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32))})
	must(t, err)
	count := func(call capabilities.CallID) int {
		all, err := l.Packets(t.Context(), ledger.Query{Call: call, Limit: 10})
		must(t, err)
		return len(all)
	}

	also := 0
	c, err := Commit(t.Context(), s, l, "c1", packets("c1"), func(*store.Tx) error { also++; return nil })
	must(t, err)
	if c.Of() != "c1" || count("c1") != 3 || also == 0 {
		t.Errorf("%q with %d packets, %d times more", c.Of(), count("c1"), also)
	}

	broken := errors.New("broken")
	for name, p := range map[string]func(*Packets){
		"no request":             func(p *Packets) { p.Request = ledger.Draft{} },
		"no decision":            func(p *Packets) { p.Decisions = nil },
		"no intent":              func(p *Packets) { p.Intent.Kind = ledger.KindCallResult },
		"another call's intent":  func(p *Packets) { p.Intent.Call = "c1" },
		"another call's verdict": func(p *Packets) { p.Decisions[0].Call = "c1" },
	} {
		bad := packets("c2")
		p(&bad)
		if c, err := Commit(t.Context(), s, l, "c2", bad, nil); err == nil || c != nil {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	if c, err := Commit(t.Context(), s, l, "c2", packets("c2"), func(*store.Tx) error { return broken }); !errors.Is(err, broken) || c != nil {
		t.Errorf("%v, %v", c, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Commit(gone, s, l, "c2", packets("c2"), nil); err == nil || c != nil {
		t.Errorf("%v, %v", c, err)
	}
	if n := count("c2"); n != 0 {
		t.Errorf("%d packets of what was not committed", n)
	}
	for _, forged := range []*Committed[string]{nil, {}, {of: "c2"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a forged one can be used")
				}
			}()
			forged.Of()
		}()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
