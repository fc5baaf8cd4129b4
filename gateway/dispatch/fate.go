package dispatch

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// fate is what the end of a call leaves of its request ID.
type fate int

const (
	// fateEnded: the ID keeps this end.
	fateEnded fate = iota
	// fateUnknown: nobody knows the end; the node may still tell.
	fateUnknown
	// fateCut: it was ended here after its ticket had left. The ID keeps that, and the
	// node may still tell what became of it.
	fateCut
	// fateFreed: it never started, so the same ID may run.
	fateFreed
)

// fateOf says what an end leaves, and makes the result true of a repeat: a failure that
// the request ID keeps does not pass by waiting.
func (c *call) fateOf(r *capabilities.Result, e *end) fate {
	switch {
	case r.Code == capabilities.CodeUnknownOutcome:
		return fateUnknown
	case neverStarted(e):
		return fateFreed
	}
	if r.Retryable && c.row.request != "" {
		r.Retryable = false
		r.Hint = sentence(r.Hint) + " This request ID keeps this answer: to try again, use a new one."
	}
	if e.cut && c.row.node != "" {
		return fateCut
	}
	return fateEnded
}

// neverStarted reports whether an end says that no handler ran, for a reason that may
// pass: the way to the node, or a node that refused before the start. A node states the
// isolation of whatever it ran; its journal has nothing but what started.
func neverStarted(e *end) bool {
	if e.err != nil {
		return e.err.Code == capabilities.CodeNodeDisconnected
	}
	if e.started || e.answer.Status == capabilities.StatusOK || e.answer.Isolation != "" {
		return false
	}
	switch e.answer.Code {
	case capabilities.CodeLedgerUnavailable, capabilities.CodeTicketExpired, capabilities.CodeNodeNotReady,
		capabilities.CodeOverloaded, capabilities.CodeSecretHeld, capabilities.CodeApprovalPending:
		return true
	}
	return false
}

// afterStart is why a call ended that was ended here after its ticket had left: a hint
// must not lead to its effect a second time.
func (c *call) afterStart(e *capabilities.Error) *capabilities.Error {
	if c.d != nil && c.d.SideEffects == catalog.EffectsNone {
		return e
	}
	out := *e
	out.Message = sentence(e.PublicMessage()) + " It had started, so its effect may have happened."
	out.Hint = "Look at what it did before repeating it."
	if e.Code == capabilities.CodeStopped {
		out.Hint = sentence(e.PublicHint()) + " Then look at what it did before repeating it."
	}
	return &out
}

// beforeStart is the same of a call whose ticket never left.
func beforeStart(e *capabilities.Error) *capabilities.Error {
	if e.Code != capabilities.CodeCancelled {
		return e
	}
	out := *e
	out.Message = sentence(e.PublicMessage()) + " Nothing of it was carried out."
	out.Hint = "Call again if it is still wanted."
	return &out
}

// sentence ends text as a sentence does.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// gone is the result of a call that ended well and whose output nobody has any more.
func gone() *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeResultExpired, "The call was carried out and ended well, but its result is no longer kept.")
}

// keepEnd does for a row what its fate is; the row was in state from.
func (d *Dispatcher) keepEnd(tx *store.Tx, c *call, from string, r *capabilities.Result, f fate) error {
	if f != fateUnknown && (f != fateFreed && c.row.request != "" || c.req.task != "") { // a crash may come before the task has it
		if err := d.keepResult(tx, c.id, r); err != nil {
			return err
		}
	}
	switch f {
	case fateUnknown, fateCut:
		return d.markUnknown(tx, &c.row)
	case fateFreed:
		return d.freeRow(tx, &c.row, from)
	}
	return d.endRow(tx, &c.row, from, time.Now())
}

// recordedEnd is the last end of a call in the ledger, with the output gone.
func (d *Dispatcher) recordedEnd(ctx context.Context, call capabilities.CallID) (end packet.End, found bool, err error) {
	packets, err := d.opts.Ledger.Packets(ctx, ledger.Query{Call: call, Kind: "tool.call.", Limit: 100})
	if err != nil {
		return packet.End{}, false, err
	}
	for i := range packets {
		if !packets[i].Kind.Terminal() {
			continue
		}
		end, found = packet.End{}, true
		if err := json.Unmarshal(packets[i].Body, &end); err != nil {
			return packet.End{}, false, err
		}
	}
	return end, found, nil
}

// told gives what the ledger knows of an earlier call whose result is no longer kept.
func (d *Dispatcher) told(ctx context.Context, r row) *capabilities.Result {
	c := d.reborn(r)
	end, found, err := d.recordedEnd(ctx, r.call)
	if err != nil || !found {
		about := c.failure(&capabilities.Error{Code: capabilities.CodeResultExpired})
		return &about
	}
	e := gone()
	if end.Status != capabilities.StatusOK && end.Code.Known() {
		e = &capabilities.Error{Code: end.Code}
	}
	about := c.failure(e)
	about.Effect = end.Effect
	if about.Retryable {
		about.Retryable = false
		about.Hint = sentence(about.Hint) + " This request ID keeps this answer: to try again, use a new one."
	}
	return &about
}

// confirms reports whether a node's late word on a call says only what is recorded: that
// it was ended.
func confirms(recorded packet.End, told *capabilities.Result) bool {
	ended := func(code capabilities.Code) bool {
		return code == capabilities.CodeCancelled || code == capabilities.CodeStopped
	}
	return recorded.Code != "" && told.Status != capabilities.StatusOK && (recorded.Code == told.Code || ended(recorded.Code) && ended(told.Code))
}
