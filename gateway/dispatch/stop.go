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

// Cancelling says which running call is to end.
type Cancelling struct {
	Call    capabilities.CallID    // empty: the one of Request
	Request capabilities.RequestID // of the caller's own call
	// Others says that the caller may end the calls of others: it ends as by a person, and
	// everybody who waits is told Reason.
	Others bool
	Reason string // at most 500 bytes
}

// Cancel ends a running call, with CodeCancelled for whoever waits for it, and returns its
// ID. It is in effect also when it returns an error of the ledger. CodeNotFound if it does not
// run here, or is not the caller's own where it has to be.
func (d *Dispatcher) Cancel(ctx context.Context, by Caller, c Cancelling) (capabilities.CallID, error) {
	if len(c.Reason) > 500 {
		return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most 500 bytes")
	}
	cause := &Ended{By: packet.ByCaller, Err: &capabilities.Error{Code: capabilities.CodeCancelled}}
	missing := capabilities.Errorf(capabilities.CodeNotFound, "no such call of yours runs now").WithHint("It may have ended meanwhile.")
	found := false
	switch {
	case c.Call == "":
		missing = capabilities.Errorf(capabilities.CodeNotFound, "no call with this request ID runs now").
			WithHint("It may have ended meanwhile: the same call with the same request ID tells.")
		if asked := d.executions.Get(execution.Key{Asker: by.asker(), Request: c.Request}); asked != nil {
			c.Call, found = asked.Call, d.running.Cancel(asked.Execution, cause)
		}
	case c.Others:
		text := "A person ended this call."
		if c.Reason != "" {
			text = "A person ended this call: " + c.Reason
		}
		cause = &Ended{By: packet.ByPerson, Err: capabilities.Errorf(capabilities.CodeCancelled, "%s", text)}
		missing = capabilities.Errorf(capabilities.CodeNotFound, "no such call runs now").WithHint("It may have ended meanwhile.")
		found = d.running.CancelCall(c.Call, execution.Asker{}, cause)
	default:
		found = d.running.CancelCall(c.Call, by.asker(), cause)
	}
	if !found {
		return "", missing
	}
	d.opts.Log.Info("tools.dispatch.cancelled", "call", c.Call, "by", by.Principal)
	return c.Call, d.opts.Ledger.Append(context.WithoutCancel(ctx), ledger.Draft{
		Kind: "gateway.call.cancelled", Call: c.Call, Principal: by.Principal, Body: packet.Cancelled{Reason: c.Reason},
	})
}

// halted refuses everything while the stop switch is on.
func (d *Dispatcher) halted() *capabilities.Error {
	if _, on := d.opts.Stop(); on {
		return capabilities.Errorf(capabilities.CodeStopped, "The gateway's stop switch is on.").
			WithAction(capabilities.Action{Key: capabilities.ActionResumeSite}, "A person has to resume the gateway.")
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
