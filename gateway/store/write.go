package store

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/handrail-dev/handrail/capabilities"
)

// job is one Write on its way through the writer.
type job struct {
	fn       func(*Tx) error
	terminal bool
	onCommit []func()
	err      error
	barred   error // of a table that is not written while several gateways serve
	panicked any
	state    jobState      // guarded by Store.mu
	wake     chan struct{} // buffered 1: done, or lead
}

type jobState uint8

const (
	jobQueued jobState = iota
	jobLeader          // at the head of the queue; its caller runs the next group
	jobDone
)

// Write runs fn in a transaction and returns once it is durable. Functions of
// callers that arrive together share one commit, in order of arrival.
//
// fn may run more than once: when another function of the group fails, the
// group is rolled back and run again. So fn touches nothing but tx, and acts on
// the outside only through Tx.OnCommit. An error of fn rolls back what fn wrote
// and is returned as it is. Trouble with the disk is CodeLedgerUnavailable. ctx
// ends the wait for a turn only: once fn may have run, Write waits for the truth.
func (s *Store) Write(ctx context.Context, fn func(tx *Tx) error) error {
	return s.write(ctx, fn, false)
}

// WriteTerminal is Write for what must be recorded although the disk is full: the
// ends of calls that are running already, a start, a stop, a person's answer, and what
// takes rights away. It may use the reserve. Keep it small: packets, no results.
func (s *Store) WriteTerminal(ctx context.Context, fn func(tx *Tx) error) error {
	return s.write(ctx, fn, true)
}

// Tidy is Write for what can be put off, such as forgetting what is over: while the disk
// is full it does nothing, and a later start does it.
func (s *Store) Tidy(ctx context.Context, fn func(tx *Tx) error) error {
	err := s.Write(ctx, fn)
	if err != nil && s.Full() && capabilities.CodeOf(err) == capabilities.CodeLedgerUnavailable && s.poison.Load() == nil {
		return nil
	}
	return err
}

func (s *Store) write(ctx context.Context, fn func(tx *Tx) error, terminal bool) error {
	if err := ctx.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeCancelled, err, "")
	}
	j := &job{fn: fn, terminal: terminal}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return capabilities.Errorf(capabilities.CodeLedgerUnavailable, "the store is closed")
	}
	s.queue = append(s.queue, j)
	if !s.busy {
		s.busy = true
		s.mu.Unlock()
		s.lead()
		return j.result()
	}
	j.wake = make(chan struct{}, 1)
	s.mu.Unlock()

	select {
	case <-j.wake:
	case <-ctx.Done():
		if s.withdraw(j) {
			return capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		}
		<-j.wake
	}
	if s.leads(j) {
		s.lead()
	}
	return j.result()
}

func (j *job) result() error {
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.err
}

// withdraw takes j out of the queue if nobody has taken it up yet.
func (s *Store) withdraw(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.state != jobQueued {
		return false
	}
	for i, q := range s.queue {
		if q == j {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false // in the running group
}

func (s *Store) leads(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return j.state == jobLeader
}

// lead runs one group, its own job among it, and hands the lead to the first
// that came meanwhile. There is no writer goroutine: a single caller pays for no
// switch, and the caller who waits does the work.
func (s *Store) lead() {
	s.mu.Lock()
	if s.last > 1 {
		// There is a crowd. A commit costs much the same for one and for many: let
		// everybody who can run now come first, as long as that brings anybody.
		for waiting := 0; waiting < len(s.queue) && len(s.queue) < s.maxGroup; {
			waiting = len(s.queue)
			s.mu.Unlock()
			runtime.Gosched()
			s.mu.Lock()
		}
	}
	n := min(len(s.queue), s.maxGroup)
	group := append(s.batch[:0], s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.mu.Unlock()

	s.runGroup(group)

	s.mu.Lock()
	for _, j := range group {
		j.state = jobDone
		if j.wake != nil {
			j.wake <- struct{}{}
		}
	}
	s.last = n
	clear(group)
	s.batch = group
	if len(s.queue) == 0 {
		s.busy = false
	} else {
		next := s.queue[0]
		next.state = jobLeader
		next.wake <- struct{}{}
	}
	s.mu.Unlock()
}

// awaitIdle returns when no group runs; called once closed is set.
func (s *Store) awaitIdle() {
	j := &job{fn: func(*Tx) error { return nil }}
	s.mu.Lock()
	if !s.busy {
		s.busy = true // nobody leads any more
		s.mu.Unlock()
		return
	}
	j.wake = make(chan struct{}, 1)
	s.queue = append(s.queue, j)
	s.mu.Unlock()
	<-j.wake
	if s.leads(j) {
		s.lead()
	}
}

// runGroup returns every job of the group its result.
func (s *Store) runGroup(group []*job) {
	if s.poison.Load() == nil {
		group = s.engine.admit(group)
	}
	if p := s.poison.Load(); p != nil {
		fail(group, p)
		return
	}
	if len(group) == 0 {
		return
	}
	group, err := s.engine.settle(group, s.commit(group))
	if len(group) == 0 {
		return
	}
	if err != nil {
		fail(group, s.judge(err))
		return
	}
	s.groups.Add(1)
	for _, j := range group {
		if !j.terminal && j.err == nil {
			s.refused.Store(false)
		}
		s.announce(j)
	}
}

// announce runs what waited for the commit. A panic there must not stop the
// writer: the others' work is durable already.
func (s *Store) announce(j *job) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("store.oncommit.panic", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	for _, f := range j.onCommit {
		f()
	}
}

// commit runs the group in one transaction. Jobs whose function failed have
// their error and wrote nothing; a returned error means that none of the group
// is recorded.
func (s *Store) commit(group []*job) error {
	err, again := s.attempt(group, false)
	if again {
		// Somebody's function failed. Run the group once more with a savepoint
		// around each, so that it fails alone and the others still share a commit.
		err, _ = s.attempt(group, true)
	}
	return err
}

// attempt reports again if, without savepoints, a function failed: nothing is
// written then.
func (s *Store) attempt(group []*job, savepoints bool) (err error, again bool) {
	if err := s.engine.begin(); err != nil {
		s.epoch++
		return err, false
	}
	wrote := false
	for _, j := range group {
		j.onCommit, j.err, j.barred, j.panicked = j.onCommit[:0], nil, nil, nil
		if savepoints {
			if err := s.exec("SAVEPOINT one"); err != nil {
				return s.rollback(err), false
			}
		}
		s.tx.job = j
		s.runOne(j)
		s.tx.job = nil
		s.engine.ran(j)
		if s.tx.fault != nil {
			return s.rollback(s.tx.fault), false
		}
		if j.err == nil && j.panicked == nil {
			wrote = true
		} else if !savepoints && len(group) > 1 {
			s.rollback(nil)
			return nil, true
		} else if savepoints {
			if err := s.exec("ROLLBACK TO one"); err != nil {
				return s.rollback(err), false
			}
			s.epoch++
			j.onCommit = nil
		}
		if savepoints {
			if err := s.exec("RELEASE one"); err != nil {
				return s.rollback(err), false
			}
		}
	}
	if !wrote {
		s.rollback(nil)
		for _, j := range group {
			j.onCommit = nil
		}
		return nil, false
	}
	if err := s.engine.finish(); err != nil {
		return s.rollback(err), false
	}
	return nil, false
}

// runOne keeps a panic of fn for its own caller.
func (s *Store) runOne(j *job) {
	defer func() {
		if p := recover(); p != nil {
			j.panicked = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		}
	}()
	if j.err = j.fn(&s.tx); j.barred != nil {
		j.err = j.barred
	}
}

// rollback ends the transaction and hands back err. SQLite may have rolled back
// by itself, so its own answer says nothing.
func (s *Store) rollback(err error) error {
	s.exec("ROLLBACK")
	s.tx.fault = nil
	s.epoch++
	return err
}

func fail(group []*job, err error) {
	for _, j := range group {
		j.err = err
	}
}

// judge turns a database's answer into what callers get, and poisons the store when nobody can know
// any more what the database holds.
func (s *Store) judge(err error) error {
	if why := s.engine.ruined(err); why != "" &&
		s.poison.CompareAndSwap(nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, why)) {
		s.log.Error("store.poisoned", "err", err)
		close(s.fault)
	}
	if p := s.poison.Load(); p != nil {
		return p
	}
	return unavailable(err)
}

func unavailable(err error) error {
	return capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "")
}
