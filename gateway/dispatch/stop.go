package dispatch

import (
	"context"
	"errors"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// airborne is the executions that run, for the stop switch to end.
type airborne struct {
	mu  sync.Mutex
	all map[*flight]struct{}
}

// start counts f in; the caller calls the function it gives at its end.
func (a *airborne) start(f *flight) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[*flight]struct{})
	}
	a.all[f] = struct{}{}
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
