package dispatch

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/store"
)

// refuse ends a call that did not run: request, decision(deny, code) and failed in one
// commit. A refusal stands even if it could not be recorded; nothing ran. One for the
// ledger's sake is not the caller's fault: it takes nothing from the allowance.
func (d *Dispatcher) refuse(ctx context.Context, t *trail, e *capabilities.Error) capabilities.Result {
	e = beforeStart(e)
	r := t.failure(e)
	unrecorded := e.Code == capabilities.CodeLedgerUnavailable // as the log says already
	if !unrecorded {
		d.refusals.Count(t.principal, time.Now())
	}
	log := d.opts.Log.With("call", t.id, "tool", t.tool, "principal", t.principal, "lane", t.lane)
	log.Info("tools.dispatch.decision", "hop", capabilities.HopDecide, "effect", "deny", "code", e.Code)
	if cause := e.Unwrap(); cause != nil {
		log.Warn("tools.dispatch.refused", "code", e.Code, "cause", cause)
	}
	end := &packet.End{Status: r.Status, Code: e.Code, EndedBy: d.endedBy(ctx, t, e.Code), DurationMS: r.DurationMS, Hops: t.hops.list()}
	effect, last := policy.Deny, ledger.KindCallFailed
	if e.Code == capabilities.CodeApprovalPending {
		effect, last = policy.Ask, ledger.KindCallPending // the identical call goes on with it
		waits := e.Pending()
		end.Approval, end.Task = waits.Approval, waits.Task
	}
	err := d.opts.Ledger.Append(context.WithoutCancel(ctx), t.requestDraft(), t.decisionDraft(effect, e.Code), t.draft(last, end))
	if err != nil && !unrecorded {
		log.Error("tools.dispatch.unrecorded", "code", e.Code, "err", err)
	}
	d.finished(t, &r)
	return r
}

// repeated records that a call is the repetition of another, whose outcome it gets (S4-43).
// packet.Repeated says what how may be.
func (d *Dispatcher) repeated(ctx context.Context, v *decided, of capabilities.CallID, how string) {
	err := d.opts.Ledger.Append(context.WithoutCancel(ctx), v.draft(ledger.KindCallRepeated, &packet.Repeated{
		Of: of, How: how, Surface: v.req.Surface, RequestID: v.req.RequestID,
	}))
	if err != nil {
		d.opts.Log.Error("tools.dispatch.unrecorded", "hop", capabilities.HopDedupe, "call", v.id, "repeats", of, "err", err)
	}
}

// openCall is a call whose intent is durable, as far as its end needs to know it. Of a call
// of an earlier process the row is all there is.
type openCall struct {
	*trail
	row    opencalls.Call
	desc   *catalog.Descriptor // nil: no longer in the catalog
	key    outcome.DigestKey   // zero: gone, so nothing is digested
	secret secret.Reference    // of a delivery of this process
	task   string              // the deferred call that it carries out, of this process
	drift  events.Ended        // what drifted
	runner func() drift.Runner // nil: of a call of an earlier process
	again  execution.Key       // what its result may be used again for; zero: nothing
	ends   *ends               // of the calls inside its parent; nil: it is inside none, or a step of a node
}

func (d *Dispatcher) openOf(c *committed) *openCall {
	o := c.Of()
	open := &openCall{trail: o.trail, row: o.row, desc: o.desc, key: o.key, secret: o.secret, task: o.req.Task}
	open.runner = func() drift.Runner { return o.runner(d.opts.Program) }
	if key, keyed := o.repeatKey(); keyed && key.Request == "" && o.permit.Grant == "" {
		open.again = key
	}
	if in := o.req.inside; in != nil {
		open.ends = in.ends
	}
	return open
}

// fromRow makes what record needs of a call of an earlier process.
func (d *Dispatcher) fromRow(row opencalls.Call) *openCall {
	c := &openCall{trail: trailOf(&row), row: row}
	c.desc, c.known = d.opts.Registry.Get(row.Tool)
	c.key, _ = d.opts.Outcomes.DigestKey(context.Background(), row.ID, row.Created)
	return c
}

func (c *openCall) isStep() bool { return c.parent != "" }

// record is hop 11: it makes the end of an executed call durable and turns it into the result.
func (d *Dispatcher) record(ctx context.Context, c *openCall, e opencalls.End) capabilities.Result {
	r := c.conclude(e)
	if e.LeaveOpen {
		return r
	}
	masked := c.masked(&r, &e)
	f := c.fateOf(&r, &e)
	body := c.endBody(&r, &e)
	body.Masked = masked
	body.EndedBy = d.endedBy(ctx, c.trail, r.Code)
	last := c.draft(terminalKind(body.Status), body)
	if c.waits(&r, f) {
		c.ends.add(stepEnd{c, r, last})
		d.frames.Keep(c.node, &r, time.Now())
		return r
	}
	reserved := false
	err := d.opts.Store.WriteTerminal(context.Background(), func(tx *store.Tx) error {
		reserved = tx.Reserved()
		return d.endIn(tx, c, opencalls.Open, last, &r, f)
	})
	one := &lateCall{c: c, result: r, fate: f, last: last, unsaid: err != nil}
	switch {
	case err != nil:
		// It ran, and the caller must know; the call stays open, and its end is recorded
		// when the store works again.
		d.opts.Log.Error("tools.dispatch.unrecorded", "hop", capabilities.HopRecord, "call", c.id, "tool", c.tool, "err", err)
		d.keepLate(one)
	case reserved && one.keeps():
		d.keepLate(one)
	}
	if err == nil {
		d.watched(c, f)
		d.reusable(c, &r)
	}
	d.frames.Keep(c.node, &r, time.Now())
	d.finished(c.trail, &r)
	return r
}

// watched has the node asked about a recorded call on which it may still have a word.
func (d *Dispatcher) watched(c *openCall, f opencalls.Fate) {
	if c.row.Node != "" && (f == opencalls.FateUnknown || f == opencalls.FateCut) {
		d.open.Watch(c.row)
	}
}

func terminalKind(s capabilities.Status) ledger.Kind {
	if s == capabilities.StatusOK {
		return ledger.KindCallResult
	}
	return ledger.KindCallFailed
}

// endIn writes the end of c, which was in state from, and what its fate leaves of it.
func (d *Dispatcher) endIn(tx *store.Tx, c *openCall, from opencalls.State, last ledger.Draft, r *capabilities.Result,
	f opencalls.Fate) error {
	packets, err := d.opts.Ledger.AppendIn(tx, last)
	if err != nil {
		return err
	}
	if err := d.driftIn(tx, c, &packets[0]); err != nil {
		return err
	}
	if r.Untrusted {
		if err := d.taints.MarkIn(tx, c.lane, c.principal, c.tool, time.Now()); err != nil {
			return err
		}
	}
	return d.keepEnd(tx, c, from, r, f)
}

// conclude turns an end into a result, trusting nothing a node says about shape
// or size.
func (c *openCall) conclude(e opencalls.End) (r capabilities.Result) {
	defer func() {
		// Bytes that a hostile node sent must not end the gateway, nor leave the call open.
		if p := recover(); p != nil {
			r = c.failure(capabilities.Wrap(capabilities.CodeInternal, fmt.Errorf("panic: %v", p), ""))
		}
	}()
	if e.Err != nil {
		if len(c.brokered) > 0 { // it is known without a word of the node's
			c.drifted(&wire.Answer{Observed: c.brokered})
		}
		if e.Cut {
			return c.failure(c.afterStart(e.Err))
		}
		r = c.failure(e.Err)
		r.Effect, r.Evidence = e.Answer.Effect, e.Answer.Evidence
		return r
	}
	a := &e.Answer
	if voided := c.drifted(a); voided != nil {
		r = c.failure(voided)
		r.Effect, r.Evidence = a.Effect, a.Evidence
		return r
	}
	// The result of a tool that is no longer in the catalog cannot be checked, so it is
	// not given out.
	if a.Status == capabilities.StatusOK && (e.Gone || c.desc == nil) {
		r = c.failure(gone())
		r.Effect, r.Evidence = a.Effect, a.Evidence
		return r
	}
	r = c.result(a.Status)
	r.Effect, r.Evidence = a.Effect, a.Evidence
	if a.Status != capabilities.StatusOK {
		r.Untrusted = a.Untrusted
		code := a.Code
		if !code.Known() {
			code = capabilities.CodeInternal
		}
		said := capabilities.Error{Code: code, Message: a.Message, Hint: a.Hint, Action: a.Action}
		if a.Hint == code.Info().Hint {
			said.Hint = "" // the code's own, and with it its action, which an older node does not send
		}
		r.Status, r.Code, r.Retryable = code.Info().Status, code, code.Info().Retryable
		r.Message, r.Hint, r.Action = said.PublicMessage(), said.PublicHint(), said.PublicAction()
		if len(a.Details) > 0 {
			if details, err := canonical.Parse(a.Details, canonical.Limits{}); err == nil {
				r.Details = json.RawMessage(details)
			}
		}
		return r
	}
	if c.isStep() && len(a.Output) == 0 { // its node has the output; that of a composed call comes here
		if len(a.OutputSum) == 0 {
			return c.failure(capabilities.Errorf(capabilities.CodeInternal, "The node sent no checksum of the step's output."))
		}
		r.Untrusted = a.Untrusted
		return r
	}
	size := 0
	for _, b := range e.Blobs {
		size += len(b.Bytes)
	}
	if size > c.desc.Limits.MaxBlobBytes || len(a.Output) > c.desc.Limits.MaxResultBytes {
		return c.failure(&capabilities.Error{Code: capabilities.CodeResultTooLarge})
	}
	if bad := c.desc.ValidateResult(a.Output); len(bad) > 0 {
		return c.failure(capabilities.Errorf(capabilities.CodeInternal, "the node's result does not fit the tool's schema").WithDetails(bad))
	}
	if lost := missing(e.Artifacts); lost != nil {
		r = c.failure(lost)
		r.Effect, r.Evidence, r.Artifacts = a.Effect, a.Evidence, e.Artifacts
		return r
	}
	r.Hint, r.Action = capabilities.Printable(a.Hint), a.Action.Printable()
	r.Output, r.Blobs, r.Artifacts, r.Untrusted, r.Ack = a.Output, e.Blobs, e.Artifacts, a.Untrusted, c.desc.Ack
	if c.desc.Delivery != nil {
		r.Output = c.acknowledge(a.Output)
	}
	return r
}

func (c *openCall) endBody(r *capabilities.Result, e *opencalls.End) *packet.End {
	c.passed(capabilities.HopRecord)
	body := &packet.End{
		Status: r.Status, Code: r.Code, Effect: r.Effect, Isolation: e.Answer.Isolation, DurationMS: r.DurationMS, Hops: c.hops.list(),
	}
	if r.Code == capabilities.CodeResultExpired && e.Err == nil {
		body.Status = e.Answer.Status // it ended well, and only the result is gone
	}
	// A digest without a key could be guessed from; the key of a call of long ago is
	// gone.
	if r.Status == capabilities.StatusOK && c.key != (outcome.DigestKey{}) {
		given := []byte(r.Output)
		if c.isStep() && len(e.Answer.Output) == 0 {
			given = e.Answer.OutputSum // all that the gateway has of it
		}
		mac := c.key.MAC(given)
		body.Digest = hex.EncodeToString(mac[:])
		for _, b := range r.Blobs {
			mac := c.key.MAC(b.Bytes)
			body.Blobs = append(body.Blobs, packet.Blob{Field: b.Field, MIME: b.MIME, Size: len(b.Bytes), Digest: hex.EncodeToString(mac[:])})
		}
	}
	if c.isStep() && len(r.Blobs) == 0 {
		for _, b := range e.Answer.Blobs {
			body.Blobs = append(body.Blobs, packet.Blob{Field: b.Field, MIME: b.MIME, Size: int(b.Size)})
		}
	}
	body.Did = c.did(r, e.Answer.Did)
	body.Artifacts = artifactRecords(r.Artifacts, c.has(capabilities.KeyRetained))
	body.Observed, body.Runners = observations(e.Answer.Observed), c.runners(e.Answer.Ran)
	return body
}

// did is what is recorded of what a call did: only of one that ended well and handed out no
// secret, and no count of what was typed where commands, and with them passwords, are taken.
func (c *openCall) did(r *capabilities.Result, told *wire.Did) *packet.Did {
	if told == nil || r.Status != capabilities.StatusOK || c.desc.Delivery != nil {
		return nil
	}
	d := packet.Did{App: consent.Plain(told.App), Fields: told.Fields, Typed: told.Typed}
	if consent.IsTerminal(told.App) {
		d.Typed = 0
	}
	if d == (packet.Did{}) {
		return nil
	}
	return &d
}

// maxObservedRecorded bounds what one call's observations add to the ledger.
const maxObservedRecorded = 32

func observations(list []wire.Observation) []packet.Observed {
	out := make([]packet.Observed, 0, min(len(list), maxObservedRecorded))
	for _, o := range list {
		if o.Refused || len(out) == maxObservedRecorded { // what did not happen is drift's alone
			continue
		}
		out = append(out, packet.Observed{Key: o.Key, Detail: o.Detail, Count: o.Count, Of: among(o.Among)})
	}
	return out
}

func (d *Dispatcher) finished(t *trail, r *capabilities.Result) {
	d.traces(t, r, "")
	var grants []string
	if t.sealed != nil && r.Status == capabilities.StatusOK {
		grants = t.sealed.Grants
	}
	if !t.known { // a name out of the air must not become a label
		counted := *r
		counted.Tool = ""
		d.opts.Metrics.ended(&counted, grants)
	} else {
		d.opts.Metrics.ended(r, grants)
	}
	event := "tools.dispatch.completed"
	if r.Status != capabilities.StatusOK {
		event = "tools.dispatch.failed"
	}
	d.opts.Log.Info(event, "call", t.id, "tool", t.tool, "principal", t.principal, "lane", t.lane,
		"node", t.node, "status", r.Status, "code", r.Code, "duration_ms", r.DurationMS)
}
