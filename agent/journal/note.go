package journal

import (
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Refused records that the guard did not let a call run. It does not wait for the
// disk, and a flood of refusals is cut off: it must not push out what did run.
func (j *Journal) Refused(t *wire.Ticket, code capabilities.Code) {
	principal := ""
	if code != capabilities.CodeTicketInvalid { // else the envelope is not to be believed
		principal = string(policy.PrincipalIn(t.Envelope))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.notes.spend(j.opts.Now()) {
		return
	}
	j.noteLocked(KindRefused, string(t.Call), string(t.Tool), string(t.Lane), principal, string(code))
}

// Answered records what a person said about a call on the device. It is with the
// kernel on return, ahead of the call's own record.
func (j *Journal) Answered(t capabilities.CallID, tool capabilities.ToolID, lane capabilities.LaneID, principal capabilities.PrincipalID,
	approved bool, by string, holds time.Duration) error {
	word := "deny"
	if approved {
		word = "approve"
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.noteLocked(KindAnswered, string(t), string(tool), string(lane), string(principal), word, by, strconv.Itoa(int(holds/time.Second)))
}

// Ruled records which rules of the owner's hold from now on; nothing, if the last
// record of that kind says the same.
func (j *Journal) Ruled(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ruled == id {
		return nil
	}
	if err := j.noteLocked(KindOwner, id); err != nil {
		return err
	}
	j.ruled = id
	return nil
}

// Turned records that a stop switch was turned; whose is "device" or "gateway".
func (j *Journal) Turned(stopped bool, whose string) error {
	kind := KindResumed
	if stopped {
		kind = KindStopped
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.noteLocked(kind, whose)
}

// maxNote bounds one field of a note.
const maxNote = 256

func (j *Journal) noteLocked(kind string, fields ...string) error {
	if err := j.usableLocked(); err != nil {
		return err
	}
	err := j.appendLocked(spare, kind, func(b []byte) []byte {
		for _, f := range fields {
			b = chain.AppendField(b, capabilities.Clip(f, maxNote))
		}
		return b
	})
	if err != nil {
		j.opts.Log.Error("journal.note", "kind", kind, "err", err)
	}
	return err
}

// budget lets 120 notes through, and two more each second.
type budget struct {
	left float64
	last time.Time
}

const (
	notesAtOnce = 120
	notesEach   = 2 // second
)

func (b *budget) spend(now time.Time) bool {
	if b.last.IsZero() {
		b.left = notesAtOnce
	} else if passed := now.Sub(b.last).Seconds(); passed > 0 {
		b.left = min(notesAtOnce, b.left+notesEach*passed)
	}
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func grantIn(grants []string) string {
	for _, g := range grants {
		if id, ok := strings.CutPrefix(g, policy.GrantPrefix); ok {
			return id
		}
	}
	return ""
}
