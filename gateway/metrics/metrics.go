package metrics

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
)

// Registry holds the metrics of one gateway. It is safe for concurrent use.
type Registry struct {
	registry *prometheus.Registry
	page     http.Handler
}

// New makes an empty Registry.
func New() *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	r.page = promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true})
	return r
}

// add puts a metric in, and panics where a name is taken or impossible: names are
// constants of the program. Names keep to the characters that every reader knows.
func (r *Registry) add(c prometheus.Collector, names ...string) {
	for _, n := range names {
		if !model.LegacyValidation.IsValidLabelName(n) {
			panic(fmt.Sprintf("metrics: %q cannot be the name of a metric or label", n))
		}
	}
	r.registry.MustRegister(c)
}

// Counter is a number for each set of label values that only grows.
type Counter struct{ vec *prometheus.CounterVec }

// Counter makes a counter. By custom its name ends in _total.
func (r *Registry) Counter(name, help string, labels ...string) Counter {
	c := Counter{prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)}
	r.add(c.vec, append([]string{name}, labels...)...)
	if len(labels) == 0 {
		c.vec.WithLabelValues() // there from the beginning, at zero
	}
	return c
}

// Inc adds one to the series with these label values.
func (c Counter) Inc(labels ...string) { c.vec.WithLabelValues(readable(labels)...).Inc() }

// Histogram counts values by size for each set of label values.
type Histogram struct{ vec *prometheus.HistogramVec }

// Histogram makes a histogram whose buckets end at bounds, which ascend; a last
// one without a bound is always there.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) Histogram {
	h := Histogram{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)}
	r.add(h.vec, append([]string{name}, labels...)...)
	if len(labels) == 0 {
		h.vec.WithLabelValues()
	}
	return h
}

// Observe puts a value into the series with these label values.
func (h Histogram) Observe(v float64, labels ...string) {
	h.vec.WithLabelValues(readable(labels)...).Observe(v)
}

// readable returns label values that are UTF-8: the library panics at others.
func readable(labels []string) []string {
	if !slices.ContainsFunc(labels, func(l string) bool { return !utf8.ValidString(l) }) {
		return labels
	}
	clean := slices.Clone(labels)
	for i, l := range clean {
		clean[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return clean
}

// Gauge makes a metric whose value is asked for when it is read. read must be
// safe for concurrent use and must not read the registry.
func (r *Registry) Gauge(name, help string, read func() float64) {
	r.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read), name)
}

// GaugeBy makes a metric with one label, whose values are asked for when it is read, by the rules
// of Gauge.
func (r *Registry) GaugeBy(name, help, label string, read func() map[string]float64) {
	r.add(gauges{prometheus.NewDesc(name, help, []string{label}, nil), read}, name)
}

// gauges is the collector of GaugeBy.
type gauges struct {
	desc *prometheus.Desc
	read func() map[string]float64
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	for value, is := range g.read() {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, is, value)
	}
}

// Process adds what Prometheus's client libraries say of the process and of Go's runtime, under
// their names. A figure that a system does not tell has no series.
func (r *Registry) Process() {
	r.add(collectors.NewGoCollector())
	r.add(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// ServeHTTP answers with the metrics as they are, in the form that the reader asks
// for: text (exposition format 0.0.4), OpenMetrics or Protocol Buffers.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.page.ServeHTTP(w, req) }
