package metrics

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// MaxLabels bounds the labels of one metric.
const MaxLabels = 3

// Registry holds the metrics of one process part. The zero value is ready, and
// safe for concurrent use.
type Registry struct {
	mu       sync.Mutex
	families []*family // sorted by name
}

// values are a series' label values; what a metric has no label for stays empty.
type values [MaxLabels]string

// family is one metric with all its series.
type family struct {
	name, help, kind string
	labels           []string
	bounds           []float64      // of a histogram
	read             func() float64 // of a gauge that is asked

	mu     sync.Mutex
	series map[values]*series
}

// series is one line of a counter, or one histogram.
type series struct {
	count   uint64
	sum     float64
	buckets []uint64 // one for each bound; each value is in one bucket only
}

// add puts a metric in, and panics where a name is taken or impossible: names
// are constants of the program.
func (r *Registry) add(f *family) *family {
	if len(f.labels) > MaxLabels || !slices.IsSorted(f.bounds) || !isName(f.name) || slices.ContainsFunc(f.labels, func(l string) bool { return !isName(l) }) {
		panic(fmt.Sprintf("metrics: %q cannot be a metric with these labels and bounds", f.name))
	}
	f.series = map[values]*series{}
	if len(f.labels) == 0 {
		f.at(nil) // there from the beginning, at zero
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, taken := slices.BinarySearchFunc(r.families, f.name, func(f *family, name string) int { return strings.Compare(f.name, name) })
	if taken {
		panic(fmt.Sprintf("metrics: there are two metrics named %q", f.name))
	}
	r.families = slices.Insert(r.families, at, f)
	return f
}

// isName reports whether s can be the name of a metric or of a label.
func isName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// at gives the series with these label values, one for each label. The caller
// holds f.mu.
func (f *family) at(labels []string) *series {
	if len(labels) != len(f.labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", f.name, len(f.labels), len(labels)))
	}
	var key values
	copy(key[:], labels)
	s := f.series[key]
	if s == nil {
		s = &series{buckets: make([]uint64, len(f.bounds))}
		f.series[key] = s
	}
	return s
}

// Counter is a number for each set of label values that only grows.
type Counter struct{ family *family }

// Counter makes a counter. By custom its name ends in _total.
func (r *Registry) Counter(name, help string, labels ...string) Counter {
	return Counter{r.add(&family{name: name, help: help, kind: "counter", labels: labels})}
}

// Inc adds one to the series with these label values.
func (c Counter) Inc(labels ...string) {
	c.family.mu.Lock()
	c.family.at(labels).count++
	c.family.mu.Unlock()
}

// Histogram counts values by size for each set of label values.
type Histogram struct{ family *family }

// Histogram makes a histogram whose buckets end at bounds, which ascend; a last
// one without a bound is always there.
func (r *Registry) Histogram(name, help string, bounds []float64, labels ...string) Histogram {
	return Histogram{r.add(&family{name: name, help: help, kind: "histogram", labels: labels, bounds: bounds})}
}

// Observe puts a value into the series with these label values.
func (h Histogram) Observe(v float64, labels ...string) {
	h.family.mu.Lock()
	s := h.family.at(labels)
	s.count++
	s.sum += v
	if i, _ := slices.BinarySearch(h.family.bounds, v); i < len(s.buckets) {
		s.buckets[i]++
	}
	h.family.mu.Unlock()
}

// Gauge makes a metric whose value is asked for when it is read. read must be
// safe for concurrent use and must not read the registry.
func (r *Registry) Gauge(name, help string, read func() float64) {
	r.add(&family{name: name, help: help, kind: "gauge", read: read})
}

// ContentType is the type of what Append writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// ServeHTTP answers with the metrics as they are.
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", ContentType)
	_, _ = w.Write(r.Append(nil)) // a reader that went away needs no answer
}

// Append writes every metric that has a value, sorted by name and labels:
//
//	# HELP name what it is
//	# TYPE name counter
//	name{label="value"} 7
func (r *Registry) Append(b []byte) []byte {
	r.mu.Lock()
	families := slices.Clone(r.families)
	r.mu.Unlock()
	for _, f := range families {
		b = f.append(b)
	}
	return b
}

var (
	escapeHelp  = strings.NewReplacer("\\", `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)
)

func (f *family) append(b []byte) []byte {
	if f.read != nil {
		return f.line(f.head(b), "", values{}, "", f.read())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.series) == 0 {
		return b
	}
	keys := make([]values, 0, len(f.series))
	for k := range f.series {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return slices.Compare(keys[i][:], keys[j][:]) < 0 })
	b = f.head(b)
	for _, k := range keys {
		s := f.series[k]
		if f.kind == "counter" {
			b = f.line(b, "", k, "", float64(s.count))
			continue
		}
		var sofar uint64
		for i, bound := range f.bounds {
			sofar += s.buckets[i]
			b = f.line(b, "_bucket", k, strconv.FormatFloat(bound, 'g', -1, 64), float64(sofar))
		}
		b = f.line(b, "_bucket", k, "+Inf", float64(s.count))
		b = f.line(b, "_sum", k, "", s.sum)
		b = f.line(b, "_count", k, "", float64(s.count))
	}
	return b
}

func (f *family) head(b []byte) []byte {
	return fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, escapeHelp.Replace(f.help), f.name, f.kind)
}

// line writes one sample; le is a bucket's bound.
func (f *family) line(b []byte, suffix string, k values, le string, v float64) []byte {
	b = append(append(b, f.name...), suffix...)
	open := byte('{')
	label := func(name, value string) {
		b = append(append(append(b, open), name...), `="`...)
		b = append(append(b, escapeLabel.Replace(strings.ToValidUTF8(value, "\uFFFD"))...), '"')
		open = ','
	}
	for i, name := range f.labels {
		label(name, k[i])
	}
	if le != "" {
		label("le", le)
	}
	if open == ',' {
		b = append(b, '}')
	}
	b = append(b, ' ')
	return append(strconv.AppendFloat(b, v, 'g', -1, 64), '\n')
}
