package governance

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/ledger"
)

// ledgerOf is a house whose ledger has so many random packets, over days.
func ledgerOf(b *testing.B, packets uint64, days int) *house {
	b.Helper()
	h, r := newHouse(b), rand.New(rand.NewPCG(7, 8))
	step := time.Duration(days) * 24 * time.Hour / time.Duration(packets/500+1)
	for n := uint64(0); n < packets; n, _ = h.ledger.Tip() {
		var drafts []ledger.Draft
		for len(drafts) < 500 {
			drafts = append(drafts, random(r)...)
		}
		h.put(b, drafts...)
		h.now = h.now.Add(step)
	}
	return h
}

// Folding beside its floor: reading the same packets and doing nothing with them.
func BenchmarkFold(b *testing.B) {
	h := ledgerOf(b, 100_000, 30)
	tip, _ := h.ledger.Tip()
	rate := func(b *testing.B, each func()) {
		for b.Loop() {
			each()
		}
		b.ReportMetric(float64(tip)*float64(b.N)/b.Elapsed().Seconds(), "packets/s")
	}
	b.Run("fold", func(b *testing.B) {
		rate(b, func() {
			if _, err := h.Rebuild(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("floor", func(b *testing.B) {
		rate(b, func() {
			if err := h.ledger.Between(b.Context(), 0, tip, folded, func(*ledger.Packet) error { return nil }); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// All views that one page of the console asks for, over 90 days, when one more call came since the
// last page.
func BenchmarkPage(b *testing.B) {
	h := ledgerOf(b, 200_000, 90)
	if _, err := h.CatchUp(b.Context()); err != nil {
		b.Fatal(err)
	}
	in := Span{From: h.now.AddDate(0, 0, -90)}
	r := rand.New(rand.NewPCG(9, 10))
	for b.Loop() {
		h.put(b, random(r)...)
		for _, view := range []func() error{
			func() error { _, err := h.KPIs(b.Context(), in); return err }, func() error { _, err := h.Coverage(b.Context(), in); return err },
			func() error { _, err := h.Isolation(b.Context(), in); return err }, func() error { _, err := h.Drift(b.Context(), in); return err },
			func() error { _, err := h.Privilege(b.Context(), in); return err }, func() error { _, err := h.Friction(b.Context(), in); return err },
			func() error { _, err := h.Changes(b.Context(), in); return err }, func() error { _, err := h.Profiles(b.Context(), in); return err },
		} {
			if err := view(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
