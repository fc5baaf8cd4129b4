package dispatch

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/handrail-dev/handrail/capabilities"
)

// Metrics holds what the pipeline counts, under the names of S4-46 with '_' for
// '.', and one counter per capability key (S1-41).
type Metrics struct {
	latency *prometheus.HistogramVec
	total   *prometheus.CounterVec
	keys    *prometheus.CounterVec
	size    prometheus.Gauge

	mu     sync.Mutex
	recent [errorWindow]bool // ring of "ended in error"
	next   int
	filled int
	errors int
}

// errorWindow is over how many of the latest dispatches the error rate is taken.
const errorWindow = 1000

// NewMetrics makes the metrics and registers them with reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tools_dispatch_latency_ms", Help: "Milliseconds from a call's arrival to its recorded end.",
			Buckets: []float64{0.5, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 5000, 30000},
		}, []string{"tool", "status"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tools_dispatch_total", Help: "Dispatches by tool, status and code.",
		}, []string{"tool", "status", "code"}),
		keys: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capability_executions_total", Help: "Executions by granted capability key.",
		}, []string{"key"}),
		size: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tools_registry_size", Help: "Registered tools.",
		}),
	}
	if reg != nil {
		rate := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tools_dispatch_error_rate", Help: "Share of the latest 1,000 dispatches that ended in an error.",
		}, m.errorRate)
		reg.MustRegister(m.latency, m.total, m.keys, m.size, rate)
	}
	return m
}

func (m *Metrics) ended(r *capabilities.Result, grants []string) {
	tool := string(r.Tool)
	m.latency.WithLabelValues(tool, string(r.Status)).Observe(float64(r.Duration) / float64(time.Millisecond))
	m.total.WithLabelValues(tool, string(r.Status), string(r.Code)).Inc()
	for _, k := range grants {
		m.keys.WithLabelValues(k).Inc()
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
