package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

// manyNodes is how many nodes a stop has to reach (issue 5, Numbers).
const manyNodes = 100

// BenchmarkStop measures how long after a stop is asked for every handler on 100
// connected nodes has ended, and each node has said that it obeys; beside it, as the
// floor, how long the nodes take to hear and answer one frame each, which a turn of a
// switch that is off already is.
func BenchmarkStop(b *testing.B) {
	s := site.Start(b, site.Options{})
	handlers := make([]*counted, manyNodes)
	ids := make([]capabilities.NodeID, manyNodes)
	for i := range handlers {
		handlers[i] = &counted{Handler: site.NewHandler(), ended: make(chan struct{}, 1)}
		ids[i] = s.AddNode(fmt.Sprintf("n%d", i), handlers[i]).ID
	}
	var ended, obeyed, floor []time.Duration
	for b.Loop() {
		began := time.Now()
		did, err := s.Resume(ctx(), "admin", "")
		must(b, err)
		if did.Nodes.Confirmed != manyNodes {
			b.Fatalf("%+v", did.Nodes)
		}
		floor = append(floor, time.Since(began))

		var calls sync.WaitGroup
		for i, h := range handlers {
			calls.Go(func() {
				s.Call(ctx(), site.ToolSlow, `{"text":"x","timeout_ms":60000,"node_id":"`+string(ids[i])+`"}`, "")
			})
			if h.AwaitStart(site.Within) == "" {
				b.Fatal("a call did not start")
			}
		}
		began = time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		for _, h := range handlers {
			all.Go(func() {
				<-h.ended
				took := time.Since(began)
				mu.Lock()
				ended = append(ended, took)
				mu.Unlock()
			})
		}
		did, err = s.Stop(ctx(), "admin", "")
		must(b, err)
		obeyed = append(obeyed, time.Since(began))
		if did.Nodes.Confirmed != manyNodes || did.Calls != manyNodes {
			b.Fatalf("%+v", did)
		}
		all.Wait()
		calls.Wait()
	}
	b.ReportMetric(p(ended, 50), "ended-p50-ms")
	b.ReportMetric(p(ended, 99), "ended-p99-ms")
	b.ReportMetric(p(obeyed, 50), "obeyed-p50-ms")
	b.ReportMetric(p(obeyed, 99), "obeyed-p99-ms")
	b.ReportMetric(p(floor, 50), "told-p50-ms")
	b.ReportMetric(p(floor, 99), "told-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// p returns a percentile in milliseconds.
func p(list []time.Duration, percent int) float64 {
	slices.Sort(list)
	return float64(list[min(len(list)-1, len(list)*percent/100)].Microseconds()) / 1000
}
