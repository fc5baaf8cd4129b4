package dispatch

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

// draft encodes the body here, so that the one writer does not spend its time on
// it.
func (c *call) draft(kind ledger.Kind, b packet.Body) ledger.Draft {
	if u, ok := b.(interface{ SetParent(capabilities.CallID) }); ok {
		u.SetParent(c.parent)
	}
	return ledger.Draft{
		Kind: kind, Call: c.id, Tool: c.req.Tool, Principal: c.req.Principal, Lane: c.req.Lane,
		Node: c.selected(), Body: encode(b),
	}
}

func (c *call) selected() capabilities.NodeID {
	if c.node == nil {
		return c.row.node // of a call taken over from an earlier process
	}
	return c.node.ID
}

func (c *call) requestDraft() ledger.Draft {
	body := packet.Request{
		Step: c.step, Surface: c.req.Surface, RequestID: c.req.RequestID, Requested: c.args.NodeID, TimeoutMS: c.args.Timeout.Milliseconds(),
	}
	if c.d != nil && c.args.Canonical != nil {
		body.Digest = c.digest
		body.Evidence = c.d.EvidenceArgs(c.args.Canonical)
	}
	return c.draft(ledger.KindCallRequest, &body)
}

func (c *call) decisionDraft(effect policy.Effect, code capabilities.Code) ledger.Draft {
	body := packet.Decision{Effect: effect, Code: code, Routing: c.routing}
	if c.decided {
		v := &c.verdict
		body.Policies, body.LogOnly, body.Errors = v.Determining, v.LogOnly, v.Errors
	}
	if c.engine != nil {
		body.Snapshot = c.engine.SnapshotID()
	}
	if c.sealed != nil {
		body.EnvelopeHash, body.Envelope, body.Snapshot = c.sealed.HashHex(), c.sealed.Bytes, c.sealed.Snapshot
	}
	c.judgedOn(&body)
	body.Withheld = c.verdict.Withheld
	if c.accepts {
		body.Degraded = c.ready.Degraded
	}
	body.Grant = c.permit.Grant
	return c.draft(ledger.KindCallDecision, &body)
}

// refuse ends a call that did not run: request, decision(deny, code) and failed
// in one commit. A refusal stands even if it could not be recorded; nothing ran.
func (d *Dispatcher) refuse(c *call, e *capabilities.Error) capabilities.Result {
	e = beforeStart(e)
	r := c.failure(e)
	d.refusals.count(c.req.Principal, time.Now())
	log := d.opts.Log.With("call", c.id, "tool", c.req.Tool, "principal", c.req.Principal, "lane", c.req.Lane)
	log.Info("tools.dispatch.decision", "hop", "policy", "effect", "deny", "code", e.Code)
	if cause := e.Unwrap(); cause != nil {
		log.Warn("tools.dispatch.refused", "code", e.Code, "cause", cause)
	}
	effect, last, end := policy.Deny, ledger.KindCallFailed, &packet.End{Status: r.Status, Code: e.Code, EndedBy: d.endedBy(c, e.Code), DurationMS: r.DurationMS, Hops: c.hops.list()}
	if e.Code == capabilities.CodeApprovalPending {
		effect, last = policy.Ask, ledger.KindCallPending // the identical call goes on with it
		about, _ := e.Details.(map[string]any)
		end.Approval, _ = about["approval"].(string)
		end.Task, _ = about["task"].(string)
	}
	err := d.opts.Ledger.Append(context.WithoutCancel(c.ctx),
		c.requestDraft(),
		c.decisionDraft(effect, e.Code),
		c.draft(last, end),
	)
	if err != nil {
		log.Error("tools.dispatch.unrecorded", "code", e.Code, "err", err)
	}
	d.finished(c, &r)
	return r
}

// commit makes request, decision and intent durable in one commit (hop 7). Only
// then may anything run.
func (d *Dispatcher) commit(ctx context.Context, c *call) *capabilities.Error {
	target := "gateway"
	if c.node != nil {
		target = "node"
	}
	intent := packet.Dispatch{
		Target: target, Grants: c.grants(), Isolation: c.sealed.Isolation, Given: c.ready.Isolation,
		DeadlineMS: c.args.Timeout.Milliseconds(),
	}
	c.row = row{
		call: c.id, principal: c.req.Principal, request: c.req.RequestID, lane: c.req.Lane, tool: c.req.Tool,
		requested: c.args.NodeID, node: c.selected(), argsMAC: c.argsMAC[:], state: rowOpen, created: c.began,
		parent: c.parent,
	}
	drafts := []ledger.Draft{
		c.requestDraft(),
		c.decisionDraft(c.verdict.Effect, ""),
		c.draft(ledger.KindCallDispatch, &intent),
	}
	if c.first != nil {
		drafts = slices.Insert(drafts, 1, c.firstDecision())
	}
	err := d.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if c.permit.Grant != "" {
			if err := d.opts.Consent.SpendIn(tx, c.permit); err != nil {
				return err
			}
		}
		if c.req.task != "" {
			if err := d.startTaskIn(tx, c.req.task, c.id); err != nil {
				return err
			}
		}
		if c.along != nil {
			if err := c.along(tx); err != nil {
				return err
			}
		}
		if _, err := d.opts.Ledger.AppendIn(tx, drafts...); err != nil {
			return err
		}
		if c.row.request == "" {
			tx.OnCommit(func() { d.open.add(&c.row) })
			return nil
		}
		return insertRow(tx, &c.row)
	})
	if err != nil {
		d.opts.Log.Error("tools.dispatch.unrecorded", "hop", "commit", "call", c.id, "tool", c.req.Tool, "err", err)
		e := capabilities.AsError(err)
		if e.Code == capabilities.CodeInternal {
			e = capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
		}
		return e
	}
	d.opts.Log.Info("tools.dispatch.decision", "hop", "policy", "call", c.id, "tool", c.req.Tool, "principal", c.req.Principal,
		"lane", c.req.Lane, "node", c.selected(), "effect", c.verdict.Effect, "policies", c.verdict.Determining)
	return nil
}

// record makes the end of an executed call durable and turns it into the result.
func (d *Dispatcher) record(c *call, e end) capabilities.Result {
	r := c.conclude(e)
	if e.leaveOpen {
		return r
	}
	f := c.fateOf(&r, &e)
	body := c.endBody(&r, &e)
	body.EndedBy = d.endedBy(c, r.Code)
	last := c.draft(terminalKind(body.Status), body)
	reserved := false
	err := d.opts.Store.WriteTerminal(context.Background(), func(tx *store.Tx) error {
		reserved = tx.Reserved()
		return d.endIn(tx, c, rowOpen, last, &r, f)
	})
	one := &lateCall{c: c, result: r, fate: f, last: last, unsaid: err != nil}
	switch {
	case err != nil:
		// It ran, and the caller must know; the call stays open, and its end is recorded
		// when the store works again.
		d.opts.Log.Error("tools.dispatch.unrecorded", "hop", "record", "call", c.id, "tool", c.req.Tool, "err", err)
		d.keepLate(one)
	case reserved && one.keeps():
		d.keepLate(one)
	}
	if err == nil {
		d.watched(c, f)
	}
	d.frames.keep(c.selected(), &r, time.Now())
	d.finished(c, &r)
	return r
}

// watched has the node asked about a recorded call on which it may still have a word.
func (d *Dispatcher) watched(c *call, f fate) {
	if c.row.node != "" && (f == fateUnknown || f == fateCut) {
		d.settler.watch(c.row)
	}
}

func terminalKind(s capabilities.Status) ledger.Kind {
	if s == capabilities.StatusOK {
		return ledger.KindCallResult
	}
	return ledger.KindCallFailed
}

// endIn writes the end of c, which was in state from, and what its fate leaves of it.
func (d *Dispatcher) endIn(tx *store.Tx, c *call, from string, last ledger.Draft, r *capabilities.Result, f fate) error {
	if _, err := d.opts.Ledger.AppendIn(tx, last); err != nil {
		return err
	}
	if r.Untrusted {
		if err := d.taints.markIn(tx, c.req.Caller, c.req.Tool, time.Now()); err != nil {
			return err
		}
	}
	return d.keepEnd(tx, c, from, r, f)
}

// conclude turns an end into a result, trusting nothing a node says about shape
// or size.
func (c *call) conclude(e end) (r capabilities.Result) {
	defer func() {
		// What a hostile node sent must not end the gateway, nor leave the call open.
		if p := recover(); p != nil {
			r = c.failure(capabilities.Wrap(capabilities.CodeInternal, fmt.Errorf("panic: %v", p), ""))
		}
	}()
	if e.err != nil {
		if e.cut {
			return c.failure(c.afterStart(e.err))
		}
		return c.failure(e.err)
	}
	a := &e.answer
	// The result of a tool that is no longer in the catalog cannot be checked, so it is
	// not given out.
	if a.Status == capabilities.StatusOK && (e.gone || c.d == nil) {
		r = c.failure(gone())
		r.Effect, r.Evidence = a.Effect, a.Evidence
		return r
	}
	r = c.result(a.Status)
	r.Effect, r.Evidence = a.Effect, a.Evidence
	if a.Status != capabilities.StatusOK {
		code := a.Code
		if !code.Known() {
			code = capabilities.CodeInternal
		}
		said := capabilities.Error{Code: code, Message: a.Message, Hint: a.Hint}
		r.Status, r.Code, r.Message, r.Hint, r.Retryable = statusOf(code), code, said.PublicMessage(), said.PublicHint(), code.Info().Retryable
		if len(a.Details) > 0 {
			if details, err := canonical.Parse(a.Details, canonical.Limits{}); err == nil {
				r.Details = json.RawMessage(details)
			}
		}
		return r
	}
	if c.isStep() {
		if len(a.OutputSum) == 0 {
			return c.failure(capabilities.Errorf(capabilities.CodeInternal, "the node did not sum up what the step gave"))
		}
		r.Untrusted = a.Untrusted
		return r
	}
	size := 0
	for _, b := range e.blobs {
		size += len(b.Bytes)
	}
	if size > c.d.Limits.MaxBlobBytes || len(a.Output) > c.d.Limits.MaxResultBytes {
		return c.failure(&capabilities.Error{Code: capabilities.CodeResultTooLarge})
	}
	if bad := c.d.ValidateResult(a.Output); len(bad) > 0 {
		return c.failure(capabilities.Errorf(capabilities.CodeInternal, "the node's result does not fit the tool's schema").WithDetails(bad))
	}
	if gone := missing(e.artifacts); gone != nil {
		r = c.failure(gone)
		r.Effect, r.Evidence, r.Artifacts = a.Effect, a.Evidence, e.artifacts
		return r
	}
	r.Output, r.Blobs, r.Artifacts, r.Untrusted, r.Ack = a.Output, e.blobs, e.artifacts, a.Untrusted, c.d.Ack
	if c.d.Delivery != nil {
		r.Output = c.acknowledge(a.Output)
	}
	return r
}

func (c *call) endBody(r *capabilities.Result, e *end) *packet.End {
	c.ended(11)
	body := &packet.End{Status: r.Status, Code: r.Code, Effect: r.Effect, Isolation: e.answer.Isolation, DurationMS: r.DurationMS, Hops: c.hops.list()}
	if r.Code == capabilities.CodeResultExpired && e.err == nil {
		body.Status = e.answer.Status // it ended well, and only the result is gone
	}
	// A digest without a key could be guessed from; the key of a call of long ago is
	// gone.
	if r.Status == capabilities.StatusOK && c.key != (outcome.DigestKey{}) {
		given := []byte(r.Output)
		if c.isStep() {
			given = e.answer.OutputSum // all that the gateway has of it
		}
		mac := c.key.MAC(given)
		body.Digest = hex.EncodeToString(mac[:])
		for _, b := range r.Blobs {
			mac := c.key.MAC(b.Bytes)
			body.Blobs = append(body.Blobs, packet.Blob{Field: b.Field, MIME: b.MIME, Size: len(b.Bytes), Digest: hex.EncodeToString(mac[:])})
		}
	}
	if c.isStep() {
		for _, b := range e.answer.Blobs {
			body.Blobs = append(body.Blobs, packet.Blob{Field: b.Field, MIME: b.MIME, Size: int(b.Size)})
		}
	}
	body.Did = c.did(r, e.answer.Did)
	body.Artifacts = artifactRecords(r.Artifacts)
	body.Observed = observations(e.answer.Observed)
	return body
}

// did is what is recorded of what a call did: only of one that ended well and handed out no
// secret, and no count of what was typed where commands, and with them passwords, are taken.
func (c *call) did(r *capabilities.Result, told *wire.Did) *packet.Did {
	if told == nil || r.Status != capabilities.StatusOK || c.d.Delivery != nil {
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
	if len(list) > maxObservedRecorded {
		list = list[:maxObservedRecorded]
	}
	out := make([]packet.Observed, 0, len(list))
	for _, o := range list {
		out = append(out, packet.Observed{Key: o.Key, Detail: o.Detail, Count: o.Count})
	}
	return out
}

func (d *Dispatcher) finished(c *call, r *capabilities.Result) {
	var grants []string
	if c.sealed != nil && r.Status == capabilities.StatusOK {
		grants = c.sealed.Grants
	}
	if c.d == nil { // a name out of the air must not become a label
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
	d.opts.Log.Info(event, "call", c.id, "tool", c.req.Tool, "principal", c.req.Principal, "lane", c.req.Lane,
		"node", c.selected(), "status", r.Status, "code", r.Code, "duration_ms", r.DurationMS)
}
