package metrics

import (
	"runtime"
	"runtime/metrics"
)

// Process adds what Prometheus's own client libraries say of the process and of Go's
// runtime, under their names. What a system does not tell has no series.
func (r *Registry) Process() {
	for _, m := range []struct{ name, help, of string }{
		{"go_memstats_heap_alloc_bytes", "Bytes of objects on the heap.", "/memory/classes/heap/objects:bytes"},
		{"go_memstats_heap_released_bytes", "Bytes of the heap that were given back to the system.", "/memory/classes/heap/released:bytes"},
		{"go_memstats_next_gc_bytes", "The size of the heap at which the next collection ends.", "/gc/heap/goal:bytes"},
		{"go_memstats_sys_bytes", "Bytes that the runtime has from the system.", "/memory/classes/total:bytes"},
	} {
		r.Gauge(m.name, m.help, func() float64 { return sampled(m.of) })
	}
	r.Gauge("go_goroutines", "Goroutines there are.", func() float64 { return float64(runtime.NumGoroutine()) })
	r.Gauge("go_threads", "Threads of the system that were made.", func() float64 {
		n, _ := runtime.ThreadCreateProfile(nil)
		return float64(n)
	})
	for _, m := range []struct {
		name, help, kind string
		read             func() (float64, bool)
	}{
		{"process_cpu_seconds_total", "Processor time of user and system together.", "counter", cpuSeconds},
		{"process_max_fds", "Descriptors that may be open.", "gauge", maxDescriptors},
		{"process_open_fds", "Descriptors that are open.", "gauge", openDescriptors},
		{"process_resident_memory_bytes", "Memory that is in use.", "gauge", resident},
		{"process_start_time_seconds", "When the process began, in seconds since 1970.", "gauge", began},
		{"process_virtual_memory_bytes", "Address space that is in use.", "gauge", virtual},
	} {
		if _, told := m.read(); told {
			r.add(&family{name: m.name, help: m.help, kind: m.kind, read: func() float64 { v, _ := m.read(); return v }})
		}
	}
}

// Descriptors is how many descriptors the process may have open; 0: nobody says.
func Descriptors() int {
	most, _ := maxDescriptors()
	return int(min(most, 1<<30))
}

func sampled(name string) float64 {
	one := []metrics.Sample{{Name: name}}
	metrics.Read(one)
	if one[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return float64(one[0].Value.Uint64())
}
