package dispatch

import "time"

// hop is one hop of a call, in the order of docs/architecture.md, "One call, hop by hop".
type hop int

const (
	hopFront   hop = iota + 1 // a surface decodes, and knows who calls
	hopResolve                // resolve: the tool, and arguments that fit
	hopPlace                  // place: the node
	hopDecide                 // decide: envelope and decision
	hopDedupe                 // deduplicate: start, join or replay
	hopPermit                 // permit: a person's word, and the node's being free
	hopCommit                 // commit: request, decision, intent
	hopSend                   // send: the ticket leaves
	hopGuard                  // the device judges
	hopRun                    // the handler runs there, and its answer comes
	hopRecord                 // record: how it ended
	hopAnswer                 // the caller has the result
)

// hopTimes are when the hops of a call ended, in µs since it came in; 0 for what it did not
// reach.
type hopTimes [hopAnswer]int64

// list returns them from hopResolve on, up to the last that was reached.
func (h *hopTimes) list() []int64 {
	last := len(h)
	for last > int(hopResolve) && h[last-1] == 0 {
		last--
	}
	return h[hopResolve:last]
}

// passed notes the end of a hop.
func (t *trail) passed(h hop) { t.hops[h] = max(1, time.Since(t.began).Microseconds()) }

// answered notes the ends of what happened on the node: it was told at hopSend, and says
// itself how long it had the call.
func (t *trail) answered(took time.Duration) {
	t.passed(hopRun)
	t.hops[hopGuard] = max(t.hops[hopSend], t.hops[hopRun]-took.Microseconds())
}
