package execution

import (
	"context"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Running is the executions that run now. The zero value is empty. All methods are safe
// for concurrent use.
type Running struct {
	mu   sync.Mutex
	all  map[*Execution]owned
	none []chan struct{} // closed once nothing runs
}

// owned is a call and whose it is.
type owned struct {
	call capabilities.CallID
	by   Asker
}

// Start counts e in, which is a call of by's; the caller calls ended at its end.
func (r *Running) Start(e *Execution, call capabilities.CallID, by Asker) (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = make(map[*Execution]owned)
	}
	r.all[e] = owned{call, by}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, e)
		if len(r.all) == 0 {
			for _, c := range r.none {
				close(c)
			}
			r.none = nil
		}
	}
}

// Await waits until nothing runs, or ctx ends, and returns how many run then.
func (r *Running) Await(ctx context.Context) int {
	r.mu.Lock()
	none := make(chan struct{})
	if len(r.all) == 0 {
		close(none)
	} else {
		r.none = append(r.none, none)
	}
	r.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// Count returns how many run.
func (r *Running) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// CancelAll ends every running execution and returns how many there were.
func (r *Running) CancelAll(cause error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.all {
		e.cancel(cause)
	}
	return len(r.all)
}

// CancelCall ends the executions of one call, of by's alone unless that is zero; false if
// none runs.
func (r *Running) CancelCall(call capabilities.CallID, by Asker, cause error) (found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e, one := range r.all {
		if one.call == call && (by == Asker{} || one.by == by) {
			e.cancel(cause)
			found = true
		}
	}
	return found
}

// Cancel ends one execution, if it runs.
func (r *Running) Cancel(e *Execution, cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, runs := r.all[e]
	if runs {
		e.cancel(cause)
	}
	return runs
}
