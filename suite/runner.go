package suite

import (
	"context"
	"sort"
	"sync"
	"time"
)

// Status is how a behaviour ended.
type Status string

// The ends of a behaviour.
const (
	Passed Status = "passed"
	Failed Status = "failed"
	NotRun Status = "not_run" // the suite was interrupted, or something it needs is not there
)

// Outcome is what came of one behaviour.
type Outcome struct {
	*Behaviour
	Status   Status
	Error    string
	Duration time.Duration
	Calls    int
	Trace    *Trace // of a failure
}

// Attempt is what one try of a behaviour came to.
type Attempt struct {
	Failed string // why it failed; "" if it did not
	Lacks  string // what it needs and is not here: it then was not run
	Calls  int
	// Trace tells of the failure that o is about; it may try the behaviour once
	// more for it. Nil: there is nothing to tell.
	Trace func(o Outcome) *Trace
}

// Try tries a behaviour once.
type Try func(ctx context.Context, b *Behaviour) Attempt

// Each is the runner of every suite: it tries the behaviours in so many lanes side by side and
// returns their outcomes, sorted by ID. A behaviour that ctx's end leaves over, or cuts short, was
// not run. Open returns a lane's own try, and what to call behind its last one. Done is told each
// outcome, one at a time.
func Each(ctx context.Context, behaviours []*Behaviour, lanes int, open func(lane int) (Try, func()), done func(Outcome)) []Outcome {
	var mu sync.Mutex // guards all, and lets done be told one at a time
	var all []Outcome
	ended := func(o Outcome) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, o)
		done(o)
	}
	todo := make(chan *Behaviour)
	var running sync.WaitGroup
	for i := range min(lanes, len(behaviours)) {
		running.Go(func() {
			try, closing := open(i)
			defer closing()
			for b := range todo {
				ended(outcome(ctx, b, try))
			}
		})
	}
	for _, b := range behaviours {
		select {
		case todo <- b:
		case <-ctx.Done():
			ended(interrupted(b))
		}
	}
	close(todo)
	running.Wait()
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}

func interrupted(b *Behaviour) Outcome {
	return Outcome{Behaviour: b, Status: NotRun, Error: "interrupted"}
}

// outcome tries one behaviour, and has a trace made of a failure.
func outcome(ctx context.Context, b *Behaviour, try Try) Outcome {
	if ctx.Err() != nil {
		return interrupted(b)
	}
	began := time.Now()
	a := try(ctx, b)
	o := Outcome{Behaviour: b, Status: Passed, Duration: time.Since(began), Calls: a.Calls}
	switch {
	case a.Lacks != "":
		o.Status, o.Error = NotRun, "needs "+a.Lacks
	case a.Failed == "":
	case ctx.Err() != nil:
		o.Status, o.Error = NotRun, "interrupted"
	default:
		o.Status, o.Error = Failed, a.Failed
		if a.Trace != nil {
			o.Trace = a.Trace(o)
		}
	}
	return o
}
