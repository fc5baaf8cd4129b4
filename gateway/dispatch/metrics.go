package dispatch

import (
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/metrics"
)

// Metrics holds what the pipeline counts, under the names of S4-46 with '_' for
// '.', and one counter per capability key (S1-41).
type Metrics struct {
	latency metrics.Histogram
	total   metrics.Counter
	keys    metrics.Counter

	mu     sync.Mutex
	recent [errorWindow]bool // ring of "ended in error"
	next   int
	filled int
	errors int
}

// errorWindow is over how many of the latest dispatches the error rate is taken.
const errorWindow = 1000

// NewMetrics makes the metrics in reg; nil stands for one that nobody reads.
func NewMetrics(reg *metrics.Registry) *Metrics {
	if reg == nil {
		reg = metrics.New()
	}
	m := &Metrics{
		latency: reg.Histogram("tools_dispatch_latency_ms", "Milliseconds from a call's arrival to its recorded end.",
			[]float64{0.5, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 5000, 30000}, "tool", "status"),
		total: reg.Counter("tools_dispatch_total", "Dispatches by tool, status and code.", "tool", "status", "code"),
		keys:  reg.Counter("capability_executions_total", "Executions by granted capability key.", "key"),
	}
	reg.Gauge("tools_dispatch_error_rate", "Share of the latest 1,000 dispatches that ended in an error.", m.errorRate)
	return m
}

func (m *Metrics) ended(r *capabilities.Result, grants []string) {
	tool := string(r.Tool)
	m.latency.Observe(float64(r.Duration)/float64(time.Millisecond), tool, string(r.Status))
	m.total.Inc(tool, string(r.Status), string(r.Code))
	for _, k := range grants {
		m.keys.Inc(k)
	}
	failed := r.Status == capabilities.StatusError
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filled == errorWindow && m.recent[m.next] {
		m.errors--
	}
	m.recent[m.next] = failed
	if failed {
		m.errors++
	}
	m.next = (m.next + 1) % errorWindow
	m.filled = min(m.filled+1, errorWindow)
}

func (m *Metrics) errorRate() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filled == 0 {
		return 0
	}
	return float64(m.errors) / float64(m.filled)
}
