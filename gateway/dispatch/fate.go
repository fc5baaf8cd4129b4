package dispatch

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

// fateOf says what an end leaves, and makes the result true of a repeat: a failure that
// the request ID keeps does not pass by waiting.
func (c *openCall) fateOf(r *capabilities.Result, e *opencalls.End) opencalls.Fate {
	switch {
	case r.Code == capabilities.CodeUnknownOutcome && e.Err != nil: // else it is its node's own, last word
		return opencalls.FateUnknown
	case neverStarted(e):
		return opencalls.FateFreed
	}
	if c.row.Request != "" {
		keepsAnswer(r)
	}
	if e.Cut && c.row.Node != "" {
		return opencalls.FateCut
	}
	return opencalls.FateEnded
}

// keepsAnswer says of a failure that would pass by waiting that its request ID keeps it.
func keepsAnswer(r *capabilities.Result) {
	if r.Retryable {
		r.Retryable = false
		r.Hint = strings.TrimSpace(sentence(r.Hint) + " " + capabilities.AnswerKept)
	}
}

// neverStarted reports whether an end says that no handler ran, for a reason that may
// pass: the way to the node, or a node that refused before the start. A node states the
// isolation of whatever it ran; its journal has nothing but what started.
func neverStarted(e *opencalls.End) bool {
	if e.Err != nil {
		return e.Err.Code == capabilities.CodeNodeDisconnected
	}
	if e.Started || e.Answer.Status == capabilities.StatusOK || e.Answer.Isolation != "" {
		return false
	}
	switch e.Answer.Code {
	case capabilities.CodeLedgerUnavailable, capabilities.CodeTicketExpired, capabilities.CodeNodeNotReady,
		capabilities.CodeOverloaded, capabilities.CodeSecretHeld, capabilities.CodeApprovalPending:
		return true
	}
	return false
}

// afterStart is why a call ended that was ended here after its ticket had left: a hint
// must not lead to its effect a second time.
func (c *openCall) afterStart(e *capabilities.Error) *capabilities.Error {
	if c.desc != nil && c.desc.SideEffects == catalog.EffectsNone {
		return e
	}
	out := *e
	out.Message = sentence(e.PublicMessage()) + " It had started, so its effect may have happened."
	if e.Code == capabilities.CodeStopped {
		return out.WithAdvice("Then look at what it did before repeating it.")
	}
	return out.WithHint("Look at what it did before repeating it.")
}

// beforeStart is the same of a call whose ticket never left.
func beforeStart(e *capabilities.Error) *capabilities.Error {
	if e.Code != capabilities.CodeCancelled && e.Code != capabilities.CodeUnauthenticated {
		return e
	}
	out := *e
	out.Message = sentence(e.PublicMessage()) + " Nothing of it was carried out."
	if e.Code == capabilities.CodeUnauthenticated {
		return out.WithHint("Call again with another token if it is still wanted.")
	}
	return out.WithHint("Call again if it is still wanted.")
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

// keepEnd does for a row what its fate is, and keeps the result where somebody may ask for
// it; the row was in state from.
func (d *Dispatcher) keepEnd(tx *store.Tx, c *openCall, from opencalls.State, r *capabilities.Result, f opencalls.Fate) error {
	reuses := c.again != (execution.Key{}) && r.Status == capabilities.StatusOK
	// a crash may come before the task has it
	if f != opencalls.FateUnknown && (f != opencalls.FateFreed && c.row.Request != "" || reuses || c.task != "") {
		if err := d.open.KeepIn(tx, c.id, r); err != nil {
			return err
		}
	}
	return d.open.EndIn(tx, &c.row, from, f)
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

// told returns what the ledger knows of an earlier call whose result is no longer kept.
func (d *Dispatcher) told(ctx context.Context, row opencalls.Call) *capabilities.Result {
	c := d.fromRow(row)
	end, found, err := d.recordedEnd(ctx, row.ID)
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
	keepsAnswer(&about)
	return &about
}

// confirms reports whether a node's late word on a call says only what is recorded: that
// it was ended.
func confirms(recorded packet.End, told *capabilities.Result) bool {
	ended := func(code capabilities.Code) bool {
		return code == capabilities.CodeCancelled || code == capabilities.CodeStopped || code == capabilities.CodeUnauthenticated
	}
	return recorded.Code != "" && told.Status != capabilities.StatusOK &&
		(recorded.Code == told.Code || ended(recorded.Code) && ended(told.Code))
}
