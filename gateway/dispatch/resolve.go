package dispatch

import (
	"context"
	"encoding/hex"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/secret"
)

// Bounds of what a caller names.
const (
	maxLane      = 128 // as of gateway/lane
	maxRequestID = 128
)

// resolved is a call whose tool is there and whose arguments fit. Only resolve makes one.
type resolved struct {
	*trail
	req    Request
	desc   *catalog.Descriptor
	args   catalog.Args      // valid, canonical
	key    outcome.DigestKey // of this call alone, sealed and expiring
	mac    [32]byte          // of the canonical arguments, under key
	secret secret.Reference  // of a delivery
}

// asker is whose call it is.
func (q *resolved) asker() execution.Asker { return q.req.Caller.asker() }

// isStep reports whether the call was taken by another.
func (q *resolved) isStep() bool { return q.parent != "" }

// resolve is hop 2: the tool, the arguments against its schema, their digest. Governance is
// never reached with arguments that do not fit (S4-41).
func (d *Dispatcher) resolve(ctx context.Context, t *trail, r Request) (*resolved, *capabilities.Error) {
	if err := capabilities.ValidateName("lane", string(r.Lane), maxLane); err != nil {
		return nil, capabilities.AsError(err)
	}
	if r.RequestID != "" {
		if err := capabilities.ValidateName("request_id", string(r.RequestID), maxRequestID); err != nil {
			t.request.RequestID = "" // not fit to be recorded either
			return nil, capabilities.AsError(err)
		}
	}
	desc, ok := d.opts.Registry.Get(r.Tool)
	if !ok || !desc.ModelFacing && !r.Inside || !d.delivers(r.Principal, desc) {
		if r.Tool.Validate() != nil {
			t.tool = "" // not fit to be recorded
		}
		return nil, d.unknown(&r)
	}
	t.known = true
	q := &resolved{trail: t, req: r, desc: desc}
	if err := r.inside.admits(desc); err != nil {
		return nil, err
	}
	var violations []catalog.Violation
	var err error
	if q.args, violations, err = desc.SplitArgs(r.Args); err != nil {
		return nil, capabilities.AsError(err)
	}
	if len(violations) > 0 {
		return nil, (&capabilities.Error{Code: capabilities.CodeInvalidArguments, Message: firstViolation(violations)}).WithDetails(violations)
	}
	if err := d.name(q); err != nil {
		return nil, err
	}
	if q.key, err = d.opts.Outcomes.DigestKey(ctx, t.id, t.began); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
	}
	q.mac = q.key.MAC(q.args.Canonical)
	t.asks(desc, &q.args, hex.EncodeToString(q.mac[:]))
	t.passed(capabilities.HopResolve)
	return q, d.halted()
}

// unknown is the refusal of a tool that is not registered. That a provider has it, and why it is
// withheld, is told to those who may see providers; nobody else learns of it.
func (d *Dispatcher) unknown(r *Request) *capabilities.Error {
	if d.opts.Withheld != nil && r.Caller.may(d.opts.Policy(), principal.ActReadProviders) {
		if e := d.opts.Withheld(r.Tool); e != nil {
			return e
		}
	}
	return capabilities.Errorf(capabilities.CodeUnknownTool, "there is no tool %.128q", r.Tool)
}

func firstViolation(list []catalog.Violation) string {
	text := "The arguments do not fit the tool's schema: "
	if list[0].Path != "" {
		text += list[0].Path + ": "
	}
	return text + list[0].Message + "."
}
