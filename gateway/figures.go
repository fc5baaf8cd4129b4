package gateway

import (
	"os"
	"time"

	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// count makes the metrics of the gateway's own figures.
func (g *Gateway) count() {
	g.countPools()
	g.countSite()
}

// countSite makes the metrics by which an operator sees how the site is.
func (g *Gateway) countSite() {
	g.metrics.GaugeBy("handrail_nodes", "Devices by what they are: connected, away or pending.", "state", func() map[string]float64 {
		by := map[string]float64{"connected": 0, "away": 0, "pending": 0}
		for _, v := range g.Nodes.Views() {
			switch {
			case v.State == pairing.StatePending:
				by["pending"]++
			case v.State == pairing.StateApproved && v.Connected:
				by["connected"]++
			case v.State == pairing.StateApproved:
				by["away"]++
			}
		}
		return by
	})
	g.metrics.Gauge("handrail_lanes", "Lanes that there are.", func() float64 { return float64(len(g.Lanes.List(""))) })
	g.metrics.Gauge("handrail_approvals_waiting", "Questions that wait for a person.", func() float64 {
		return float64(len(g.Consent.Approvals()))
	})
	g.metrics.Gauge("handrail_approvals_oldest_seconds", "How long the oldest question waits.", func() float64 {
		if waiting := g.Consent.Approvals(); len(waiting) > 0 {
			return max(0, time.Since(waiting[0].Created).Seconds())
		}
		return 0
	})
	g.metrics.Gauge("handrail_grants", "Grants that hold.", func() float64 { return float64(len(g.Consent.Grants())) })
	g.metrics.Gauge("handrail_ledger_entries", "The number of the record's last durable packet.", func() float64 {
		seq, _ := g.Ledger.Tip()
		return float64(seq)
	})
	g.metrics.Gauge("handrail_ledger_lag_entries", "Durable packets that no signed head covers yet.", func() float64 {
		seq, _ := g.Ledger.Tip()
		return max(0, float64(seq)-float64(g.Ledger.Head().Seq))
	})
	g.metrics.Gauge("handrail_ledger_head_seconds", "When the record's head was signed last, in seconds since 1970.", func() float64 {
		return float64(g.Ledger.Head().Time) / 1000
	})
	g.metrics.Gauge("handrail_disk_full", "1 while the disk is full: nothing is carried out then.", func() float64 {
		return truth(g.Store.Full())
	})
	g.metrics.GaugeBy("handrail_disk_bytes", "Bytes of the store, and free ones on its disk, where the system says so.", "of",
		func() map[string]float64 {
			by := map[string]float64{}
			for of, name := range map[string]string{"store": "store.db", "log": "store.db-wal"} {
				if info, err := os.Stat(g.path(name)); err == nil {
					by[of] = float64(info.Size())
				}
			}
			if free, ok := store.FreeBytes(g.opts.Dir); ok {
				by["free"] = float64(free)
			}
			return by
		})
	g.metrics.Gauge("handrail_stopped", "1 while the site's stop switch is on.", func() float64 {
		_, on := g.Switch.Now()
		return truth(on)
	})
	g.metrics.Gauge("handrail_site_generation", "The site's generation, which each restore of a backup raises.", func() float64 {
		return float64(g.generation.Generation)
	})
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
