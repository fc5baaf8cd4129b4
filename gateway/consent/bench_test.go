package consent_test

import (
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/consent"
)

// BenchmarkCheck measures finding the grant that covers a call, among 64 others;
// its use is spent in the commit that records the call. The floor compares who, what,
// where and which conversation with as many bare records behind a lock.
func BenchmarkCheck(b *testing.B) {
	r := open(b, filepath.Join(b.TempDir(), "store.db"), time.Second)
	for i := range 64 {
		tool := "tool.browser.*"
		if i == 63 {
			tool = "tool.desktop.*"
		}
		if _, err := r.Grant(b.Context(), consent.Spec{Principal: "agent", Tools: []string{tool}, Node: "n1", Lane: "l1", For: time.Hour, Approver: "anna"}); err != nil {
			b.Fatal(err)
		}
	}
	ask := consent.Ask{
		Call: "c1", Principal: "agent", Role: "agent", Tool: "tool.desktop.screenshot", Node: "n1", Lane: "l1", Args: []byte(`{"display":"primary"}`),
		Snapshot: "p1", Longest: consent.KindLease,
	}
	b.Run("floor", func(b *testing.B) {
		var mu sync.Mutex
		type bare struct{ principal, tool, node, lane string }
		list := make([]bare, 64)
		for i := range list {
			list[i] = bare{"agent", "tool.browser.click", "n1", "l1"}
		}
		list[63].tool = "tool.desktop.screenshot"
		want := bare{string(ask.Principal), string(ask.Tool), string(ask.Node), string(ask.Lane)}
		for b.Loop() {
			mu.Lock()
			at := slices.Index(list, want)
			mu.Unlock()
			if at != 63 {
				b.Fatal(at)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, err := r.Await(b.Context(), ask)
			if err != nil || p.Grant == "" {
				b.Fatal(err)
			}
		}
	})
}
