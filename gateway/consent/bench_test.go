package consent_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/consent"
)

// BenchmarkCheck measures finding the grant that covers a call, among 64 others;
// its use is spent in the commit that records the call.
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
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Await(b.Context(), ask)
		if err != nil || p.Grant == "" {
			b.Fatal(err)
		}
	}
}
