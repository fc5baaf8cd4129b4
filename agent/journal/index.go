package journal

import (
	"crypto/sha256"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// callKey stands for a call's ID: the beginning of its SHA-256. Were two IDs to have
// the same one, the later call would be refused as a replay.
type callKey [16]byte

func keyOf(call capabilities.CallID) callKey {
	h := sha256.Sum256([]byte(call))
	return callKey(h[:])
}

// index is what the journal knows of each call in its segments. Like the answers it
// holds nothing that the collector would have to look at.
type index struct {
	at       map[callKey]entry
	failures []wire.Answer // the few ways to fail that occurred
}

// entry is a known.
type entry struct {
	segment uint64
	failed  uint32 // place in failures, from 1; 0: none
	state   uint8  // place in states
}

var states = [...]wire.CallState{wire.StateNeverStarted, wire.StateRunning, wire.StateFinished, wire.StateUnknown}

// known is what the journal knows of a call.
type known struct {
	state   wire.CallState
	segment uint64 // the file that says so
	// failed is how a call that did not succeed ended: that needs no kept answer to
	// be told, and the code of a failure is in the record.
	failed *wire.Answer
}

func (x *index) get(call capabilities.CallID) (k known, ok bool) {
	e, ok := x.at[keyOf(call)]
	if !ok {
		return known{}, false
	}
	k = known{state: states[e.state], segment: e.segment}
	if e.failed > 0 {
		failed := x.failures[e.failed-1] // a copy: sending it writes into it
		k.failed = &failed
	}
	return k, true
}

func (x *index) set(call capabilities.CallID, k known) {
	e := entry{segment: k.segment, state: uint8(slices.Index(states[:], k.state))}
	if k.failed != nil {
		at := slices.IndexFunc(x.failures, func(a wire.Answer) bool {
			return a.Status == k.failed.Status && a.Code == k.failed.Code && a.Effect == k.failed.Effect
		})
		if at < 0 {
			at = len(x.failures)
			x.failures = append(x.failures, *k.failed)
		}
		e.failed = uint32(at) + 1
	}
	if x.at == nil {
		x.at = map[callKey]entry{}
	}
	x.at[keyOf(call)] = e
}

// prune forgets what only that segment said.
func (x *index) prune(segment uint64) {
	for call, e := range x.at {
		if e.segment == segment {
			delete(x.at, call)
		}
	}
}
