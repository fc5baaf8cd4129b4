package runner

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Calls wait in the queue of their own class, and run in places of their own class: those of one
// class neither hold up those of another nor run in their places (S1-37, S1-39).

// Places bound the calls of one class.
type Places struct {
	Most  int // that run at once
	Queue int // that wait for a place; more are refused
}

// places are the bounds of each class. Privileged calls run alone. The handlers of a person's
// session order their calls themselves, and the link bounds them (1,024 streams).
var places = map[capabilities.IsolationClass]Places{
	capabilities.ClassT0:      {Most: 256, Queue: 256},
	capabilities.ClassT1:      {Most: 64, Queue: 256},
	capabilities.ClassT2:      {Most: 256, Queue: 256},
	capabilities.ClassT3:      {Most: 1, Queue: 64},
	capabilities.ClassSession: {Most: 1024, Queue: 256},
}

// classes are those that have a pool, in the order of their strength.
var classes = []capabilities.IsolationClass{
	capabilities.ClassT0, capabilities.ClassT1, capabilities.ClassT2, capabilities.ClassT3, capabilities.ClassSession,
}

// pool holds the places of one class.
type pool struct {
	class   capabilities.IsolationClass
	places  chan struct{} // one for each call that runs
	queue   int64
	waiting atomic.Int64
	refused atomic.Uint64
}

func newPools(own map[capabilities.IsolationClass]Places) map[capabilities.IsolationClass]*pool {
	bounds := maps.Clone(places)
	maps.Copy(bounds, own)
	pools := make(map[capabilities.IsolationClass]*pool, len(bounds))
	for class, b := range bounds {
		pools[class] = &pool{class: class, places: make(chan struct{}, b.Most), queue: int64(b.Queue)}
	}
	return pools
}

// enter waits for a place, first come, first served, and says whether it had to. CodeOverloaded if
// too many wait already; the context's cause if the call ends meanwhile.
func (p *pool) enter(ctx context.Context) (waited bool, err error) {
	select {
	case p.places <- struct{}{}:
		return false, nil
	default:
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > p.queue {
		p.refused.Add(1)
		return true, capabilities.Errorf(capabilities.CodeOverloaded, "the device runs %d calls of class %s, and %d wait already", cap(p.places),
			p.class, p.queue)
	}
	select {
	case p.places <- struct{}{}:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// pool is where a call of this ticket runs: with what lives in the person's session, or with those
// of the class that its envelope needs.
func (a *admitted) pool() *pool {
	class := a.ready.Isolation
	if class != capabilities.ClassSession {
		class = policy.IsolationIn(a.t.Envelope)
	}
	for _, c := range []capabilities.IsolationClass{class, a.ready.Isolation} {
		if p := a.r.pools[c]; p != nil {
			return p
		}
	}
	return a.r.pools[capabilities.ClassT3]
}

// placed is a call that has its place. Only place makes one; its caller calls free at its end.
type placed struct {
	*admitted
	in   *pool
	free func()
}

// place waits for a place in the class's pool. A step of its parent's class runs in the parent's.
func (a *admitted) place(ctx context.Context, parent *pool) (*placed, *capabilities.Error) {
	p := &placed{admitted: a, in: a.pool(), free: func() {}}
	if p.in == parent {
		return p, nil
	}
	since := time.Now()
	waited, err := p.in.enter(ctx)
	if err == nil {
		p.free = func() { <-p.in.places }
	}
	if waited && err == nil {
		// The wait belongs to the call, and what was allowed before it may be forbidden by now.
		a.waited += time.Since(since)
		if err = a.r.ended(ctx); err == nil {
			if no := a.r.opts.Guard.Still(a.t, a.ready); no != nil {
				err = no
			}
		}
	}
	if err != nil {
		p.free()
		answer := answerOf(ctx, capabilities.Output{}, err)
		a.log.Info("call.refused", "hop", capabilities.HopRun, "code", answer.Code, "class", p.in.class)
		return nil, &capabilities.Error{Code: answer.Code, Message: answer.Message, Hint: answer.Hint}
	}
	return p, nil
}

// Pools says how the calls of each class fare, in the order of the classes' strength.
func (r *Runner) Pools() []wire.Pool {
	list := make([]wire.Pool, 0, len(classes))
	for _, class := range classes {
		p := r.pools[class]
		says := wire.Pool{
			Class: class, Running: uint32(len(p.places)), Most: uint32(cap(p.places)), Waiting: uint32(max(0, p.waiting.Load())),
			Queue: uint32(p.queue), Refused: p.refused.Load(),
		}
		if r.opts.Ready != nil {
			says.Ready, says.Warm, says.Cold = r.opts.Ready(class)
		}
		list = append(list, says)
	}
	return list
}
