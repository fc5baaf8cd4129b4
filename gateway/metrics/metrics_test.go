package metrics

import (
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// page is what a reader gets that asks for nothing special.
func page(r *Registry) string {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4; charset=utf-8") {
		return "the type is " + got
	}
	return w.Body.String()
}

func TestPage(t *testing.T) {
	r := New()
	total := r.Counter("calls_total", "Calls by tool.", "tool", "status")
	sizes := r.Histogram("size_bytes", `A \ and
a line.`, []float64{0.5, 10}, "tool")
	r.Histogram("empty_ms", "Nothing yet.", []float64{1})
	r.Counter("never_total", "No series.", "x")
	r.Gauge("rate", "A share.", func() float64 { return 0.25 })
	r.GaugeBy("waiting", "Calls that wait.", "class", func() map[string]float64 { return map[string]float64{"t3": 2} })
	total.Inc("b", "ok")
	total.Inc("b", "ok")
	total.Inc("a", "er\"r\\o\nr\xff")
	for _, v := range []float64{0.5, 0.6, 10, 11, 1e21} {
		sizes.Observe(v, "x")
	}
	const want = `# HELP calls_total Calls by tool.
# TYPE calls_total counter
calls_total{status="er\"r\\o\nr�",tool="a"} 1
calls_total{status="ok",tool="b"} 2
# HELP empty_ms Nothing yet.
# TYPE empty_ms histogram
empty_ms_bucket{le="1"} 0
empty_ms_bucket{le="+Inf"} 0
empty_ms_sum 0
empty_ms_count 0
# HELP rate A share.
# TYPE rate gauge
rate 0.25
# HELP size_bytes A \\ and\na line.
# TYPE size_bytes histogram
size_bytes_bucket{tool="x",le="0.5"} 1
size_bytes_bucket{tool="x",le="10"} 3
size_bytes_bucket{tool="x",le="+Inf"} 5
size_bytes_sum{tool="x"} 1e+21
size_bytes_count{tool="x"} 5
# HELP waiting Calls that wait.
# TYPE waiting gauge
waiting{class="t3"} 2
`
	if got := page(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Operators' programs that read the page read the figures that were counted.
func TestPrometheusReadsIt(t *testing.T) {
	r := New()
	total := r.Counter("calls_total", "Calls: \\ \n \"", "tool")
	sizes := r.Histogram("size_ms", "Sizes.", []float64{1, 2.5, 1e9})
	odd := "a \\ \" \n {}, é\U0001F600"
	for range 3 {
		total.Inc(odd)
	}
	total.Inc("")
	sizes.Observe(2)
	sizes.Observe(math.Inf(1))
	r.Gauge("nothing", "", math.NaN)

	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page(r)))
	if err != nil {
		t.Fatal(err)
	}
	calls := families["calls_total"]
	if calls.GetType().String() != "COUNTER" || calls.GetHelp() != "Calls: \\ \n \"" || len(calls.GetMetric()) != 2 {
		t.Errorf("calls: %v", calls)
	}
	if m := calls.GetMetric()[1]; m.GetLabel()[0].GetValue() != odd || m.GetCounter().GetValue() != 3 {
		t.Errorf("calls of the odd tool: %v", m)
	}
	h := families["size_ms"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 2 || !math.IsInf(h.GetSampleSum(), 1) || len(h.GetBucket()) != 4 || h.GetBucket()[1].GetCumulativeCount() != 1 {
		t.Errorf("sizes: %v", h)
	}
	if v := families["nothing"].GetMetric()[0].GetGauge().GetValue(); !math.IsNaN(v) {
		t.Errorf("nothing: %v", v)
	}
}

func TestImpossibleMetricsPanic(t *testing.T) {
	for name, add := range map[string]func(r *Registry){
		"twice":           func(r *Registry) { r.Counter("a", ""); r.Gauge("a", "", nil) },
		"no name":         func(r *Registry) { r.Counter("", "") },
		"a dot":           func(r *Registry) { r.Counter("a.b", "") },
		"digit first":     func(r *Registry) { r.Counter("1a", "") },
		"label":           func(r *Registry) { r.Counter("a", "", "b c") },
		"falling bounds":  func(r *Registry) { r.Histogram("a", "", []float64{2, 1}) },
		"a value missing": func(r *Registry) { r.Counter("a", "", "b").Inc() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			add(New())
		})
	}
}

func TestCountingTakesNoMemory(t *testing.T) {
	r := New()
	c := r.Counter("c_total", "", "a", "b")
	h := r.Histogram("h", "", []float64{1, 2, 3}, "a")
	if n := testing.AllocsPerRun(100, func() { c.Inc("x", "y"); h.Observe(2, "x") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCountingFromManySides(t *testing.T) {
	r := New()
	c := r.Counter("c_total", "", "a")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				c.Inc("x")
				page(r)
			}
		})
	}
	all.Wait()
	if said := page(r); !strings.Contains(said, `c_total{a="x"} 4000`) {
		t.Error(said)
	}
}
