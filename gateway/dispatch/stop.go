package dispatch

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// StopAll ends every running call with CodeStopped and tells how many there were.
// With the switch on before it is called, no call escapes both: one that is not
// counted in yet looks at the switch after it is.
func (d *Dispatcher) StopAll() int {
	return d.running.CancelAll(&capabilities.Error{Code: capabilities.CodeStopped})
}

// Cancel ends one running call for whoever waits for it, with CodeCancelled and the
// reason that is told them. It is in effect also when it returns an error of the
// ledger. CodeNotFound if it does not run here.
func (d *Dispatcher) Cancel(ctx context.Context, call capabilities.CallID, by capabilities.PrincipalID, reason string) error {
	if len(reason) > 500 {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most 500 bytes")
	}
	text := "A person ended this call."
	if reason != "" {
		text = "A person ended this call: " + reason
	}
	if !d.running.CancelCall(call, "", &Ended{By: packet.ByPerson, Err: capabilities.Errorf(capabilities.CodeCancelled, "%s", text)}) {
		return capabilities.Errorf(capabilities.CodeNotFound, "no such call runs now").WithHint("It may have ended meanwhile.")
	}
	d.opts.Log.Info("tools.dispatch.cancelled", "call", call, "by", by)
	return d.opts.Ledger.Append(context.WithoutCancel(ctx), ledger.Draft{Kind: "gateway.call.cancelled", Call: call, Principal: by, Body: map[string]any{"reason": reason}})
}

// CancelOwn ends one running call of by's, as a caller who cancels. CodeNotFound if none of
// theirs with that ID runs here.
func (d *Dispatcher) CancelOwn(ctx context.Context, call capabilities.CallID, by capabilities.PrincipalID, reason string) error {
	if len(reason) > 500 {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most 500 bytes")
	}
	if !d.running.CancelCall(call, by, &Ended{By: packet.ByCaller, Err: &capabilities.Error{Code: capabilities.CodeCancelled}}) {
		return capabilities.Errorf(capabilities.CodeNotFound, "no such call of yours runs now").WithHint("It may have ended meanwhile.")
	}
	d.opts.Log.Info("tools.dispatch.cancelled", "call", call, "by", by)
	return d.opts.Ledger.Append(context.WithoutCancel(ctx), ledger.Draft{Kind: "gateway.call.cancelled", Call: call, Principal: by, Body: map[string]any{"reason": reason}})
}

// CancelRequest ends the running call of a request ID for its own principal, as a caller
// who cancels. CodeNotFound if none runs here.
func (d *Dispatcher) CancelRequest(ctx context.Context, by capabilities.PrincipalID, request capabilities.RequestID) (capabilities.CallID, error) {
	k := d.executions.Get(execution.Key{Principal: by, Request: request})
	if k == nil || !d.running.Cancel(k.Execution, &Ended{By: packet.ByCaller, Err: &capabilities.Error{Code: capabilities.CodeCancelled}}) {
		return "", capabilities.Errorf(capabilities.CodeNotFound, "no call with this request ID runs now").WithHint("It may have ended meanwhile: the same call with the same request ID tells.")
	}
	d.opts.Log.Info("tools.dispatch.cancelled", "call", k.Call, "by", by)
	return k.Call, d.opts.Ledger.Append(context.WithoutCancel(ctx), ledger.Draft{Kind: "gateway.call.cancelled", Call: k.Call, Principal: by, Body: map[string]any{"reason": ""}})
}

// halted refuses everything while the stop switch is on.
func (d *Dispatcher) halted() *capabilities.Error {
	if _, on := d.opts.Stop(); on {
		return capabilities.Errorf(capabilities.CodeStopped, "The gateway's stop switch is on.").WithHint("A person has to run 'handrail resume' at the gateway.")
	}
	return nil
}

// because returns the reason that an execution was ended for, where it has one: e is
// then only what that did to the step it met.
func because(ctx context.Context, e *capabilities.Error) *capabilities.Error {
	var coded *capabilities.Error
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &coded) {
		return coded
	}
	return e
}
