package dispatch

import (
	"context"
	"errors"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// airborne is the executions that run, for the stop switch to end.
type airborne struct {
	mu  sync.Mutex
	all map[*flight]capabilities.CallID
}

// start counts f in; the caller calls the function it gives at its end.
func (a *airborne) start(f *flight, call capabilities.CallID) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*flight]capabilities.CallID)
	}
	a.all[f] = call
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, f)
	}
}

// StopAll ends every running call with CodeStopped and tells how many there were.
// With the switch on before it is called, no call escapes both: one that is not
// counted in yet looks at the switch after it is.
func (d *Dispatcher) StopAll() int {
	d.airborne.mu.Lock()
	defer d.airborne.mu.Unlock()
	for f := range d.airborne.all {
		f.cancel(&capabilities.Error{Code: capabilities.CodeStopped})
	}
	return len(d.airborne.all)
}

// Cancel ends one running call for whoever waits for it, with CodeCancelled and the
// reason that is told them. It is in effect also when it gives an error of the
// ledger. CodeNotFound if it does not run here.
func (d *Dispatcher) Cancel(ctx context.Context, call capabilities.CallID, by capabilities.PrincipalID, reason string) error {
	if len(reason) > 500 {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most 500 bytes")
	}
	text := "A person ended this call."
	if reason != "" {
		text = "A person ended this call: " + reason
	}
	d.airborne.mu.Lock()
	found := false
	for f, id := range d.airborne.all {
		if id == call {
			f.cancel(&Ended{By: packet.ByPerson, Err: capabilities.Errorf(capabilities.CodeCancelled, "%s", text)})
			found = true
		}
	}
	d.airborne.mu.Unlock()
	if !found {
		return capabilities.Errorf(capabilities.CodeNotFound, "no such call runs now").WithHint("It may have ended meanwhile.")
	}
	d.opts.Log.Info("tools.dispatch.cancelled", "call", call, "by", by)
	return d.opts.Ledger.Append(context.WithoutCancel(ctx), ledger.Draft{Kind: "gateway.call.cancelled", Call: call, Principal: by, Body: map[string]any{"reason": reason}})
}

// CancelRequest ends the running call of a request ID for its own principal, as a caller
// who cancels. CodeNotFound if none runs here.
func (d *Dispatcher) CancelRequest(ctx context.Context, by capabilities.PrincipalID, request capabilities.RequestID) (capabilities.CallID, error) {
	k := d.flights.get(requestKey{by, request})
	if k == nil || !d.airborne.cancel(k.flight, &Ended{By: packet.ByCaller, Err: &capabilities.Error{Code: capabilities.CodeCancelled}}) {
		return "", capabilities.Errorf(capabilities.CodeNotFound, "no call with this request ID runs now").WithHint("It may have ended meanwhile: the same call with the same request ID tells.")
	}
	d.opts.Log.Info("tools.dispatch.cancelled", "call", k.call, "by", by)
	return k.call, d.opts.Ledger.Append(context.WithoutCancel(ctx), ledger.Draft{Kind: "gateway.call.cancelled", Call: k.call, Principal: by, Body: map[string]any{"reason": ""}})
}

// cancel ends one execution, if it runs.
func (a *airborne) cancel(f *flight, cause error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, runs := a.all[f]
	if runs {
		f.cancel(cause)
	}
	return runs
}

// halted refuses everything while the stop switch is on.
func (d *Dispatcher) halted(*call) *capabilities.Error {
	if _, on := d.opts.Stop(); on {
		return capabilities.Errorf(capabilities.CodeStopped, "The gateway's stop switch is on.").WithHint("A person has to run 'handrail resume' at the gateway.")
	}
	return nil
}

// because gives the reason that an execution was ended for, where it has one: e is
// then only what that did to the step it met.
func because(ctx context.Context, e *capabilities.Error) *capabilities.Error {
	var coded *capabilities.Error
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &coded) {
		return coded
	}
	return e
}
