package journal

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// answers keeps what finished calls answered, for a gateway that lost the
// connection or its own memory: not longer than ttl and not more than limit
// bytes, the oldest going first. The bytes of blobs are not kept.
type answers struct {
	limit int
	ttl   time.Duration

	bytes int
	order []kept // oldest first
	at    map[capabilities.CallID]wire.Answer
}

type kept struct {
	call  capabilities.CallID
	size  int
	since time.Time
}

func (a *answers) add(call capabilities.CallID, answer wire.Answer, now time.Time) {
	if _, ok := a.at[call]; ok {
		return // a call ends once
	}
	size := 512 + len(answer.Output) + len(answer.Details) + len(answer.Message) + len(answer.Hint) + len(answer.Evidence)
	if size > a.limit {
		return
	}
	if a.at == nil {
		a.at = map[capabilities.CallID]wire.Answer{}
	}
	a.at[call] = answer
	a.order = append(a.order, kept{call, size, now})
	a.bytes += size
	a.drop(now)
}

func (a *answers) drop(now time.Time) {
	n := 0
	for n < len(a.order) && (a.bytes > a.limit || now.Sub(a.order[n].since) >= a.ttl) {
		a.bytes -= a.order[n].size
		delete(a.at, a.order[n].call)
		n++
	}
	if n > 0 {
		a.order = append(a.order[:0], a.order[n:]...)
	}
}

func (a *answers) get(call capabilities.CallID, now time.Time) *wire.Answer {
	a.drop(now)
	answer, ok := a.at[call]
	if !ok {
		return nil
	}
	return &answer
}
