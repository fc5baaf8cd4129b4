package site

import (
	"slices"
	"testing"
	"time"
)

// Measured is one of the things that Measure times.
type Measured struct {
	Name string
	Do   func()
}

// Measure does each of them in turn, as often as b asks, and reports the median of each as NAME-ns
// and, where the system tells, the mean of the processor time that the whole process took meanwhile
// as NAME-cpu-ns. They take turns because a machine is shared: what others take of it slows all of
// them alike.
func Measure(b *testing.B, all ...Measured) {
	b.Helper()
	took, busy := make([][]float64, len(all)), make([]time.Duration, len(all))
	for _, one := range all { // what is made once
		one.Do()
	}
	for b.Loop() {
		for i, one := range all {
			before, began := ProcessorTime(), time.Now()
			one.Do()
			took[i] = append(took[i], float64(time.Since(began)))
			busy[i] += ProcessorTime() - before
		}
	}
	for i, one := range all {
		slices.Sort(took[i])
		b.ReportMetric(took[i][len(took[i])/2], one.Name+"-ns")
		if busy[i] > 0 {
			b.ReportMetric(float64(busy[i])/float64(len(took[i])), one.Name+"-cpu-ns")
		}
	}
}
