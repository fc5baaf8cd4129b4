package ledger

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) {
	if childMode() {
		return
	}
	goleak.VerifyTestMain(m)
}

// testKey is a fixed key, the n-th.
func testKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func openStore(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Path: path, Migrations: Migrations, ReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openOn(t testing.TB, s *store.Store, o Options) *Ledger {
	t.Helper()
	o.Store = s
	if o.Chain == "" {
		o.Chain = "gateway-1"
	}
	if o.Key == nil {
		o.Key = testKey(1)
	}
	l, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t testing.TB, o Options) *Ledger {
	return openOn(t, openStore(t, filepath.Join(t.TempDir(), "store.db")), o)
}

// call is the four packets of one call.
func call(id string) []Draft {
	d := Draft{Call: capabilities.CallID(id), Tool: "tool.browser.click", Principal: "agent-1", Lane: "lane-1", Node: "node-1"}
	var all []Draft
	for _, k := range []Kind{KindCallRequest, KindCallDecision, KindCallDispatch, KindCallResult} {
		d.Kind = k
		d.Body = map[string]any{"digest": "0123456789abcdef0123456789abcdef", "kind": string(k), "args": map[string]any{"/ref": "e12"}, "html": "<&>"}
		all = append(all, d)
	}
	return all
}

func mustAppend(t testing.TB, l *Ledger, drafts ...Draft) {
	t.Helper()
	if err := l.Append(context.Background(), drafts...); err != nil {
		t.Fatal(err)
	}
}

// walk checks the whole chain as it stands in the store.
func walk(t testing.TB, l *Ledger) (n int) {
	t.Helper()
	w := chain.NewWalker(l.chain)
	err := l.scan(context.Background(), "ORDER BY seq", nil, func(p *Packet) error {
		n++
		return w.Step(p.Seq, p.Prev, p.TimeUS, chain.Sum(p.appendPreimage(nil)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if seq, hash := l.Tip(); seq != w.Next-1 || hash != w.Prev {
		t.Fatalf("tip is %d %v; the chain ends at %d %v", seq, hash, w.Next-1, w.Prev)
	}
	return n
}

func TestAppendSurvivesRollbacks(t *testing.T) {
	l := open(t, Options{})
	for i := range 30 {
		mustAppend(t, l, call(fmt.Sprint("call-", i))...)
		err := l.store.Write(t.Context(), func(tx *store.Tx) error {
			if _, err := l.AppendIn(tx, call("lost")...); err != nil {
				return err
			}
			return capabilities.Errorf(capabilities.CodeConflict, "no")
		})
		if capabilities.CodeOf(err) != capabilities.CodeConflict {
			t.Fatal(err)
		}
	}
	if n := walk(t, l); n != 120 {
		t.Errorf("%d packets, want 120", n)
	}
}

func BenchmarkAppendIn(b *testing.B) {
	l := open(b, Options{})
	drafts := call("call-1")
	for i := range drafts {
		body, err := Encode(drafts[i].Body)
		if err != nil {
			b.Fatal(err)
		}
		drafts[i].Body = body
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= 256 {
		err := l.store.Write(b.Context(), func(tx *store.Tx) error {
			for range min(left, 256) {
				if _, err := l.AppendIn(tx, drafts...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
