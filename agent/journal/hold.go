package journal

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// What a held ticket is, agent/runner/hold.go says. Here are its two records.

// Held records a ticket that may run later, and returns once that is on disk. Errors
// as of Started. Of those that never run it records 120 at once and two more each
// second: a flood of them must not push out what did run. What is past that it takes
// without a record, and Started waits for the disk as it does for every other.
func (j *Journal) Held(ctx context.Context, t *wire.Ticket) error {
	return j.begin(ctx, t, KindHeld)
}

// Withdrawn records that a held call will never run; of one that is not held it says
// nothing. It does not wait for the disk.
func (j *Journal) Withdrawn(call capabilities.CallID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if k, _ := j.index.get(call); !k.held {
		return nil
	}
	err := j.usableLocked()
	if err == nil {
		err = j.appendLocked(0, KindWithdrawn, func(b []byte) []byte { return chain.AppendField(b, call) })
	}
	j.index.set(call, known{state: wire.StateNeverStarted, segment: j.files[len(j.files)-1].first})
	return err
}
