package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"
)

// maxLabels is how many labels a metric may have.
const maxLabels = 4

// Registry holds the metrics of one gateway. It is safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	families []*family // by name
	process  bool
}

// New makes an empty Registry.
func New() *Registry {
	metrics.ExposeMetadata(true) // a switch for the whole process: every gateway tells types
	return &Registry{}
}

// family is all that has one name.
type family struct {
	name, help string
	labels     []string
	series     func() *metrics.Set
}

var (
	nameFormat  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelFormat = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	helpText    = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelText   = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// add puts a metric in, and panics where a name is taken or impossible: names are
// constants of the program. Names keep to the characters that every reader knows.
func (r *Registry) add(f *family) {
	if !nameFormat.MatchString(f.name) || len(f.labels) > maxLabels {
		panic(fmt.Sprintf("metrics: %q cannot be the name of a metric with %d labels", f.name, len(f.labels)))
	}
	for _, l := range f.labels {
		if !labelFormat.MatchString(l) {
			panic(fmt.Sprintf("metrics: %q cannot be the name of a label", l))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := sort.Search(len(r.families), func(i int) bool { return r.families[i].name >= f.name })
	if at < len(r.families) && r.families[at].name == f.name {
		panic(fmt.Sprintf("metrics: there is a metric %q", f.name))
	}
	r.families = slices.Insert(slices.Clone(r.families), at, f) // a page may be reading the one before
}

// named returns the full name of the series with these label values.
func (f *family) named(values []string) string {
	if len(values) != len(f.labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", f.name, len(f.labels), len(values)))
	}
	if len(values) == 0 {
		return f.name
	}
	pairs := make([]string, len(values))
	for i, v := range values {
		pairs[i] = f.labels[i] + `="` + labelText.Replace(strings.ToValidUTF8(v, "\uFFFD")) + `"`
	}
	sort.Strings(pairs)
	return f.name + "{" + strings.Join(pairs, ",") + "}"
}

// write writes the family in the text format, its help first; nothing if it has no series.
func (f *family) write(to io.Writer) {
	var b bytes.Buffer
	f.series().WritePrometheus(&b)
	if _, rest, ok := bytes.Cut(b.Bytes(), []byte("\n")); ok { // the library's own first line has no help
		_, _ = fmt.Fprintf(to, "# HELP %s %s\n%s", f.name, helpText.Replace(f.help), rest)
	}
}

// vec holds the series of a family by their label values. A series that is there is found without
// taking memory.
type vec[T any] struct {
	*family
	make func(series string) T

	mu  sync.RWMutex
	all map[[maxLabels]string]T
}

// newVec makes a family whose series are made by what make returns for a set.
func newVec[T any](r *Registry, name, help string, labels []string, make func(*metrics.Set, string) T) *vec[T] {
	set := metrics.NewSet()
	v := &vec[T]{
		family: &family{name: name, help: help, labels: labels, series: func() *metrics.Set { return set }},
		make:   func(series string) T { return make(set, series) }, all: map[[maxLabels]string]T{},
	}
	r.add(v.family)
	if len(labels) == 0 {
		v.of(nil) // there from the beginning, at zero
	}
	return v
}

// of returns the series with these label values.
func (v *vec[T]) of(values []string) T {
	var key [maxLabels]string
	copy(key[:], values)
	v.mu.RLock()
	one, there := v.all[key]
	v.mu.RUnlock()
	if there && len(values) == len(v.labels) {
		return one
	}
	series := v.named(values)
	v.mu.Lock()
	defer v.mu.Unlock()
	if one, there = v.all[key]; !there {
		one = v.make(series)
		v.all[key] = one
	}
	return one
}

// Counter is a number for each set of label values that only grows.
type Counter struct{ vec *vec[*metrics.Counter] }

// Counter makes a counter. By custom its name ends in _total.
func (r *Registry) Counter(name, help string, labels ...string) Counter {
	return Counter{newVec(r, name, help, labels, (*metrics.Set).GetOrCreateCounter)}
}

// Inc adds one to the series with these label values.
func (c Counter) Inc(labels ...string) { c.vec.of(labels).Inc() }

// Add adds n, which is not negative, to the series with these label values.
func (c Counter) Add(n int, labels ...string) { c.vec.of(labels).Add(n) }

// Histogram counts values by size for each set of label values.
type Histogram struct {
	vec *vec[*metrics.PrometheusHistogram]
}

// Histogram makes a histogram whose buckets end at bounds, which ascend; a last
// one without a bound is always there.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) Histogram {
	if err := metrics.ValidateBuckets(bounds); err != nil {
		panic(fmt.Sprintf("metrics: %s: %v", name, err))
	}
	return Histogram{newVec(r, name, help, labels, func(s *metrics.Set, series string) *metrics.PrometheusHistogram {
		return s.GetOrCreatePrometheusHistogramExt(series, bounds)
	})}
}

// Observe puts a value into the series with these label values.
func (h Histogram) Observe(v float64, labels ...string) { h.vec.of(labels).Update(v) }

// Gauge makes a metric whose value is asked for when it is read. read must be
// safe for concurrent use and must not read the registry.
func (r *Registry) Gauge(name, help string, read func() float64) {
	set := metrics.NewSet()
	r.add(&family{name: name, help: help, series: func() *metrics.Set { return set }})
	set.NewGauge(name, read)
}

// GaugeBy makes a metric with one label, whose values are asked for when it is read, by the rules
// of Gauge.
func (r *Registry) GaugeBy(name, help, label string, read func() map[string]float64) {
	f := &family{name: name, help: help, labels: []string{label}}
	f.series = func() *metrics.Set {
		set := metrics.NewSet()
		for value, is := range read() {
			set.GetOrCreateGauge(f.named([]string{value}), func() float64 { return is })
		}
		return set
	}
	r.add(f)
}

// Process adds what Prometheus's client libraries say of the process and of Go's runtime, under
// their names. A figure that a system does not tell has no series.
func (r *Registry) Process() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = true
}

// ServeHTTP answers with the metrics as they are, as text (exposition format 0.0.4).
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	families, process := r.families, r.process
	r.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, f := range families {
		f.write(w)
	}
	if process {
		metrics.WriteProcessMetrics(w)
		metrics.WriteFDMetrics(w)
	}
}
