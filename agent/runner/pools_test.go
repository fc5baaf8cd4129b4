package runner

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// queued is a bench whose handler tells of each call that began, and ends it when told.
type queued struct {
	*bench
	began   chan capabilities.CallID
	ends    sync.Map // capabilities.CallID -> chan struct{}
	answers chan wire.Answer
}

func newQueued(t *testing.T, guard guardFunc, places map[capabilities.IsolationClass]Places) *queued {
	t.Helper()
	q := &queued{began: make(chan capabilities.CallID, 16), answers: make(chan wire.Answer, 16)}
	q.bench = newBench(t, guard, func(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
		q.began <- inv.Call
		end, _ := q.ends.Load(inv.Call)
		select {
		case <-end.(chan struct{}):
			return ok(ctx, inv)
		case <-ctx.Done():
			return capabilities.Output{}, ctx.Err()
		}
	})
	q.places = places
	_ = q.journal.Close()
	q.open(guard)
	return q
}

// call serves a ticket whose envelope needs that class.
func (q *queued) call(class capabilities.IsolationClass) *wire.Ticket {
	tk := q.ticket()
	tk.Envelope = []byte(`{"isolation_class":"` + string(class) + `","principal":"a"}`)
	q.ends.Store(tk.Call, make(chan struct{}))
	go func() {
		s := &sink{}
		q.Serve(context.Background(), tk, s)
		q.answers <- s.answers[0]
	}()
	return tk
}

// end ends a call that runs, and returns its answer.
func (q *queued) end(tk *wire.Ticket) wire.Answer {
	end, _ := q.ends.Load(tk.Call)
	close(end.(chan struct{}))
	return <-q.answers
}

// await waits until the class's pool is so.
func (q *queued) await(class capabilities.IsolationClass, running, waiting uint32) wire.Pool {
	q.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		for _, p := range q.Pools() {
			if p.Class == class && p.Running == running && p.Waiting == waiting {
				return p
			}
		}
		if time.Now().After(end) {
			q.t.Fatalf("class %s never had %d running and %d waiting: %+v", class, running, waiting, q.Pools())
		}
	}
}

// S1-39, S1-37: calls of a class wait for its own places, in the order in which they came. Those of
// another class run meanwhile, in theirs, and a free place of theirs is none for the others.
func TestEachClassHasItsQueue(t *testing.T) {
	q := newQueued(t, admit, map[capabilities.IsolationClass]Places{capabilities.ClassT3: {Most: 1, Queue: 2}})
	first := q.call(capabilities.ClassT3)
	if got := <-q.began; got != first.Call {
		t.Fatalf("%s began", got)
	}
	second := q.call(capabilities.ClassT3)
	q.await(capabilities.ClassT3, 1, 1)
	third := q.call(capabilities.ClassT3)
	q.await(capabilities.ClassT3, 1, 2)
	q.call(capabilities.ClassT3)
	want(t, <-q.answers, capabilities.StatusError, capabilities.CodeOverloaded)
	if p := q.await(capabilities.ClassT3, 1, 2); p.Refused != 1 || p.Most != 1 || p.Queue != 2 {
		t.Errorf("%+v", p)
	}
	other := q.call(capabilities.ClassT2)
	if got := <-q.began; got != other.Call {
		t.Errorf("%s began in a place of another class", got)
	}
	q.await(capabilities.ClassT2, 1, 0)
	for _, step := range []struct{ ends, begins *wire.Ticket }{{first, second}, {second, third}} {
		want(t, q.end(step.ends), capabilities.StatusOK, "")
		if got := <-q.began; got != step.begins.Call {
			t.Errorf("%s began before %s", got, step.begins.Call)
		}
	}
	want(t, q.end(third), capabilities.StatusOK, "")
	want(t, q.end(other), capabilities.StatusOK, "")
	q.await(capabilities.ClassT3, 0, 0)
}

// A call that waits ends with the stop switch, and never starts.
func TestStopEndsWhatWaits(t *testing.T) {
	q := newQueued(t, admit, map[capabilities.IsolationClass]Places{capabilities.ClassT1: {Most: 1, Queue: 1}})
	q.call(capabilities.ClassT1)
	<-q.began
	waits := q.call(capabilities.ClassT1)
	q.await(capabilities.ClassT1, 1, 1)
	q.StopAll()
	for range 2 {
		if a := <-q.answers; a.Code != capabilities.CodeStopped {
			t.Errorf("%+v", a)
		}
	}
	q.await(capabilities.ClassT1, 0, 0)
	if st := q.state(waits.Call); st.State != wire.StateNeverStarted || q.h.ran() != 1 {
		t.Errorf("%+v, ran %d times", st, q.h.ran())
	}
}

// The device may forbid after a wait what it allowed before.
func TestTheGuardLooksAgainAfterAWait(t *testing.T) {
	var forbids atomic.Bool
	q := newQueued(t, func(*wire.Ticket, capabilities.Readiness) *capabilities.Error {
		if forbids.Load() {
			return capabilities.Errorf(capabilities.CodeDeniedByNode, "no more")
		}
		return nil
	}, map[capabilities.IsolationClass]Places{capabilities.ClassT1: {Most: 1, Queue: 1}})
	runs := q.call(capabilities.ClassT1)
	<-q.began
	waits := q.call(capabilities.ClassT1)
	q.await(capabilities.ClassT1, 1, 1)
	forbids.Store(true)
	first, second := q.end(runs), <-q.answers
	if first.Code == capabilities.CodeDeniedByNode {
		first, second = second, first
	}
	want(t, first, capabilities.StatusOK, "")
	want(t, second, capabilities.StatusDenied, capabilities.CodeDeniedByNode)
	if q.state(waits.Call).State != wire.StateNeverStarted || q.h.ran() != 1 {
		t.Errorf("it ran %d times", q.h.ran())
	}
	q.await(capabilities.ClassT1, 0, 0)
}
