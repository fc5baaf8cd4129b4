package dispatch

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// hopTimes are when the hops of a call ended, in µs since it came in; 0 for what it did not
// reach.
type hopTimes [capabilities.HopAnswer]int64

// list returns them from HopResolve on, up to the last that was reached.
func (h *hopTimes) list() []int64 {
	last := len(h)
	for last > int(capabilities.HopResolve) && h[last-1] == 0 {
		last--
	}
	return h[capabilities.HopResolve:last]
}

// passed notes the end of a hop.
func (t *trail) passed(h capabilities.Hop) { t.hops[h] = max(1, time.Since(t.began).Microseconds()) }

// answered notes the ends of what happened on the node: it was told when the ticket was sent,
// and says itself how long it had the call.
func (t *trail) answered(took time.Duration) {
	t.passed(capabilities.HopRun)
	t.hops[capabilities.HopGuard] = max(t.hops[capabilities.HopSend], t.hops[capabilities.HopRun]-took.Microseconds())
}
