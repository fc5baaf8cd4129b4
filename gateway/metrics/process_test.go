package metrics

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The process's own figures, by the names that everybody's dashboards have, move with
// what the process does.
func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems tell their own tools")
	}
	r := New()
	r.Process()
	before := figures(t, r)
	for _, name := range []string{
		"process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds", "process_max_fds", "process_cpu_seconds_total", "process_start_time_seconds",
		"go_goroutines", "go_threads", "go_memstats_heap_alloc_bytes", "go_memstats_sys_bytes", "go_memstats_next_gc_bytes", "go_memstats_heap_released_bytes",
	} {
		if _, there := before[name]; !there {
			t.Errorf("there is no %s", name)
		}
	}
	if before["process_resident_memory_bytes"] < 1<<20 || before["process_start_time_seconds"] < 1.7e9 || before["process_virtual_memory_bytes"] < before["process_resident_memory_bytes"] {
		t.Errorf("the figures are %v", before)
	}
	const more = 20
	end := make(chan struct{})
	defer close(end)
	for range more {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		go func() { <-end }()
	}
	after := figures(t, r)
	for _, name := range []string{"process_open_fds", "go_goroutines"} {
		// Some that read the figures the first time may have ended since.
		if d := after[name] - before[name]; d < more-5 || d > more+5 {
			t.Errorf("%s grew by %v, not by about %d", name, d, more)
		}
	}
}

func figures(t *testing.T, r *Registry) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page(r)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, f := range families {
		m := f.GetMetric()[0]
		out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return out
}
