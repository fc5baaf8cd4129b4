package dispatch

import (
	"context"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// flight is one execution and everyone who waits for it. The execution belongs to
// nobody in particular: it is cancelled when the last waiter has gone, so that a
// retry that joined keeps it alive.
type flight struct {
	done   chan struct{}
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	result   capabilities.Result // set once, before done is closed
	waiters  int
	nextID   int
	progress map[int]func(capabilities.Progress)
}

func newFlight(cancel context.CancelCauseFunc) *flight {
	return &flight{done: make(chan struct{}), cancel: cancel, progress: make(map[int]func(capabilities.Progress))}
}

// join adds a waiter; the caller must call wait exactly once for it. progress may
// be nil.
func (f *flight) join(progress func(capabilities.Progress)) (id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters++
	f.nextID++
	if progress != nil {
		f.progress[f.nextID] = progress
	}
	return f.nextID
}

// wait gives the result, or ok=false when ctx ended first. Leaving as the last
// waiter cancels the execution; wait then still waits for it to end, because the
// end is what gets recorded, unless ctx says otherwise.
func (f *flight) wait(ctx context.Context, id int) (result capabilities.Result, ok bool) {
	select {
	case <-f.done:
		f.leave(id)
		return f.result, true
	case <-ctx.Done():
	}
	if last := f.leave(id); last {
		f.cancel(context.Cause(ctx))
	}
	return capabilities.Result{}, false
}

// carryOut runs the execution on the goroutine of the waiter who began it and gives what
// wait does, once it has ended.
func (f *flight) carryOut(ctx context.Context, id int, run func()) (result capabilities.Result, ok bool) {
	stays := context.AfterFunc(ctx, func() {
		if last := f.leave(id); last {
			f.cancel(context.Cause(ctx))
		}
	})
	run()
	if !stays() {
		return capabilities.Result{}, false
	}
	f.leave(id)
	return f.result, true
}

func (f *flight) leave(id int) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.progress, id)
	f.waiters--
	return f.waiters == 0
}

// report passes progress to everyone who waits.
func (f *flight) report(p capabilities.Progress) {
	f.mu.Lock()
	fns := make([]func(capabilities.Progress), 0, len(f.progress))
	for _, fn := range f.progress {
		fns = append(fns, fn)
	}
	f.mu.Unlock()
	for _, fn := range fns {
		fn(p)
	}
}

// land sets the result and wakes everyone.
func (f *flight) land(r capabilities.Result) {
	f.mu.Lock()
	f.result = r
	f.mu.Unlock()
	close(f.done)
}

// requestKey is what a retry is recognised by (S4-28's fallback request_uuid,
// scoped to its principal so that nobody can meet another's calls).
type requestKey struct {
	principal capabilities.PrincipalID
	request   capabilities.RequestID
}

// flights is the running executions that a retry can join.
type flights struct {
	mu    sync.Mutex
	byKey map[requestKey]*keyed
}

// keyed is the flight of one request key with what identifies its arguments.
type keyed struct {
	flight *flight
	call   capabilities.CallID
	tool   capabilities.ToolID
	lane   capabilities.LaneID
	node   capabilities.NodeID // where it goes
	args   [32]byte            // SHA-256 of the canonical arguments: memory only, never stored
	target capabilities.NodeID // requested node: part of what was asked
	// recovered compares by the keyed digest, for a flight taken over from an
	// earlier process that knows no plain digest. nil for flights of this one.
	recovered func(other *keyed) bool
	canonical []byte // the arguments, for recovered; nil on recovered flights
}

func newFlights() *flights { return &flights{byKey: make(map[requestKey]*keyed)} }

// claim registers k under key if nobody holds it. It gives the holder and whether
// that is k itself.
func (fs *flights) claim(key requestKey, k *keyed) (holder *keyed, mine bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if h, ok := fs.byKey[key]; ok {
		return h, false
	}
	fs.byKey[key] = k
	return k, true
}

// hold has k stand under key, whoever did before: what waits for the disk is known here.
func (fs *flights) hold(key requestKey, k *keyed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.byKey[key] = k
}

// get gives the flight under key.
func (fs *flights) get(key requestKey) *keyed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byKey[key]
}

// node gives where the flight under key goes.
func (fs *flights) node(key requestKey) (id capabilities.NodeID, found bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if k := fs.byKey[key]; k != nil {
		return k.node, true
	}
	return "", false
}

// release forgets key if k still holds it.
func (fs *flights) release(key requestKey, k *keyed) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byKey[key] == k {
		delete(fs.byKey, key)
	}
}
