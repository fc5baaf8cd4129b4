package execution

import (
	"context"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Execution is one execution of a call and everyone who waits for it. It is cancelled
// when the last waiter has gone, so that a retry that joined keeps it alive. All methods
// are safe for concurrent use.
type Execution struct {
	done   chan struct{}
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	result   capabilities.Result // set once, before done is closed
	waiters  int
	there    map[int]bool  // the waiters; false: its connection has ended
	news     chan struct{} // closed when another number of waiters is there; nil: nobody asked
	nextID   int
	progress map[int]func(capabilities.Progress)
}

// New makes an execution that nobody waits for yet. cancel ends what carries it out.
func New(cancel context.CancelCauseFunc) *Execution {
	return &Execution{
		done: make(chan struct{}), cancel: cancel, progress: make(map[int]func(capabilities.Progress)), there: make(map[int]bool),
	}
}

// Ended makes an execution that has its result already.
func Ended(r capabilities.Result) *Execution {
	e := New(func(error) {})
	e.End(r)
	return e
}

// Join adds a waiter; the caller must call Wait exactly once for it. progress may be nil.
func (e *Execution) Join(progress func(capabilities.Progress)) (waiter int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiters++
	e.nextID++
	e.there[e.nextID] = true
	e.tellLocked()
	if progress != nil {
		e.progress[e.nextID] = progress
	}
	return e.nextID
}

// Wait returns the result, or ok=false when ctx ended first. Leaving as the last waiter
// cancels the execution with the cause of ctx.
func (e *Execution) Wait(ctx context.Context, waiter int) (result capabilities.Result, ok bool) {
	select {
	case <-e.done:
		e.leave(waiter)
		return e.result, true
	case <-ctx.Done():
	}
	if last := e.leave(waiter); last {
		e.cancel(context.Cause(ctx))
	}
	return capabilities.Result{}, false
}

// Result returns the result once there is one, to who does not wait for it; false when ctx
// ended first.
func (e *Execution) Result(ctx context.Context) (capabilities.Result, bool) {
	select {
	case <-e.done:
		return e.result, true
	case <-ctx.Done():
		return capabilities.Result{}, false
	}
}

func (e *Execution) leave(waiter int) (last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.progress, waiter)
	delete(e.there, waiter)
	e.waiters--
	e.tellLocked()
	return e.waiters == 0
}

// Away says that a waiter's connection has ended: it waits on, for who comes back.
func (e *Execution) Away(waiter int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.there[waiter] {
		e.there[waiter] = false
		e.tellLocked()
	}
}

// Attended reports whether some waiter is there to get the result; changed is closed when
// that may be otherwise.
func (e *Execution) Attended() (there bool, changed <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.news == nil {
		e.news = make(chan struct{})
	}
	for _, is := range e.there {
		there = there || is
	}
	return there, e.news
}

func (e *Execution) tellLocked() {
	if e.news != nil {
		close(e.news)
		e.news = nil
	}
}

// Waiters returns how many wait now.
func (e *Execution) Waiters() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiters
}

// Report passes progress to everyone who waits.
func (e *Execution) Report(p capabilities.Progress) {
	e.mu.Lock()
	fns := make([]func(capabilities.Progress), 0, len(e.progress))
	for _, fn := range e.progress {
		fns = append(fns, fn)
	}
	e.mu.Unlock()
	for _, fn := range fns {
		fn(p)
	}
}

// Cancel ends what carries the execution out.
func (e *Execution) Cancel(cause error) { e.cancel(cause) }

// End sets the result, once, and wakes everyone.
func (e *Execution) End(r capabilities.Result) {
	e.mu.Lock()
	e.result = r
	e.mu.Unlock()
	close(e.done)
}
