package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/registry"
)

const (
	awaited = 2 * time.Minute // for a worker to take a task
	looks   = time.Second     // a lease ends without a change
	tidying = 10 * time.Second
)

// Jobs is the queue of workers; gateway/job implements it.
type Jobs interface {
	PutInside(ctx context.Context, p capabilities.PrincipalID, in job.Inside) (api.Job, error)
	Get(ctx context.Context, p capabilities.PrincipalID, id string) (api.Job, error)
	Held(ctx context.Context, p capabilities.PrincipalID, id, claim string) (api.Job, error)
	Cancel(ctx context.Context, p, by capabilities.PrincipalID, id string) (api.Job, error)
	Changed() <-chan struct{}
	Attended(p capabilities.PrincipalID, under capabilities.LaneID) bool
}

// Desk knows the calls of sub-agents that are under way. Its methods are safe for concurrent use.
type Desk struct {
	mu   sync.Mutex
	jobs Jobs
	runs map[string]*run // by job
}

// NewDesk makes one. Until Serve it carries nothing out.
func NewDesk() *Desk { return &Desk{runs: map[string]*run{}} }

// Serve hands it the queue.
func (d *Desk) Serve(jobs Jobs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs = jobs
}

// Runner carries a sub-agent out.
type Runner struct {
	*Agent
	Desk *Desk // required
}

var _ registry.Provider = Runner{}

// run is one call of a sub-agent.
type run struct {
	//lint:ignore containedctx the life of the call
	ctx  context.Context
	step func(context.Context, registry.Nested) capabilities.Result

	mu     sync.Mutex
	over   bool
	calls  sync.WaitGroup // those of its worker
	effect capabilities.Effect
}

// Execute has a worker do the task, and returns its summary.
func (r Runner) Execute(ctx context.Context, o registry.Order) (capabilities.Output, error) {
	var args struct {
		Task string `json:"task"`
	}
	if err := json.Unmarshal(o.Args, &args); err != nil {
		return capabilities.Output{}, err
	}
	if o.Step == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInternal, "a sub-agent without a way to call")
	}
	task := args.Task
	if r.Prefix != "" {
		task = r.Prefix + " " + task
	}
	return r.Desk.carryOut(ctx, o, job.Inside{Parent: o.Call, Under: o.Caller.Lane, Tool: r.ID(), Uses: r.Tools, Text: task})
}

func (d *Desk) carryOut(ctx context.Context, o registry.Order, in job.Inside) (out capabilities.Output, err error) {
	ctx, end := context.WithCancelCause(ctx)
	one := &run{ctx: ctx, step: o.Step}
	d.mu.Lock()
	jobs := d.jobs
	if jobs == nil {
		d.mu.Unlock()
		end(nil)
		return out, capabilities.Errorf(capabilities.CodeNotSupported, "this gateway has no jobs for workers")
	}
	put, err := jobs.PutInside(ctx, o.Caller.Principal, in)
	if err == nil {
		d.runs[put.ID] = one
	}
	d.mu.Unlock()
	defer end(nil)
	if err != nil {
		return out, err
	}
	defer func() {
		d.mu.Lock()
		delete(d.runs, put.ID)
		d.mu.Unlock()
		end(&capabilities.Error{Code: capabilities.CodeCancelled})
		one.finish()
		out.Effect = one.effect
		if out.Effect != "" {
			out.Evidence = "the calls inside it"
		}
	}()
	ended, err := d.await(ctx, jobs, o, put.ID)
	out.Untrusted = true
	if err != nil {
		tidy, over := context.WithTimeout(context.WithoutCancel(ctx), tidying)
		defer over()
		if _, left := jobs.Cancel(tidy, o.Caller.Principal, o.Caller.Principal, put.ID); left != nil {
			err = errors.Join(err, left)
		}
		return out, err
	}
	switch ended.State {
	case job.Done:
		out.Result = map[string]any{tools.FieldText: ended.Result}
		return out, nil
	case job.Cancelled:
		return out, capabilities.Errorf(capabilities.CodeCancelled, "the sub-agent's job was cancelled")
	}
	return out, capabilities.Errorf(capabilities.CodeExecutionFailed, "the sub-agent did not do it: %s", capabilities.Clip(ended.Result, 500)).
		WithHint("The calls inside this one say what it did. Give it another task, or do it without it.")
}

// await returns the job at its end.
func (d *Desk) await(ctx context.Context, jobs Jobs, o registry.Order, id string) (api.Job, error) {
	tick := time.NewTicker(looks)
	defer tick.Stop()
	began, calls := time.Now(), 0
	for {
		changed := jobs.Changed()
		one, err := jobs.Get(ctx, o.Caller.Principal, id)
		switch {
		case ctx.Err() != nil:
			return one, causeOf(ctx)
		case err != nil:
			return one, err
		case !one.Ended.IsZero():
			return one, nil
		case one.State == job.Running && !one.Until.After(time.Now()):
			return one, capabilities.Errorf(capabilities.CodeUnknownOutcome, "the sub-agent's worker is gone").
				WithHint("The calls inside this one say what it did.")
		case one.State == job.Queued && !jobs.Attended(o.Caller.Principal, o.Caller.Lane):
			return one, capabilities.Errorf(capabilities.CodeExecutionFailed, "no worker of %s takes jobs, so nobody does the task",
				capabilities.Printable(string(o.Caller.Principal))).
				WithAction(capabilities.Action{Key: capabilities.ActionRunWorker}, "Start a worker of the principal that makes the call.")
		case one.State == job.Queued && time.Since(began) > awaited:
			return one, capabilities.Errorf(capabilities.CodeExecutionFailed, "no worker took the task within %s", awaited).
				WithAction(capabilities.Action{Key: capabilities.ActionRunWorker}, "Its workers are at other jobs: wait, or start one more.")
		}
		if one.Calls != calls {
			calls = one.Calls
			o.Progress(capabilities.Progress{Done: float64(calls), Message: one.Stage})
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func causeOf(ctx context.Context) error {
	var known *capabilities.Error
	if errors.As(context.Cause(ctx), &known) {
		return known
	}
	return &capabilities.Error{Code: capabilities.CodeCancelled}
}

// Call makes a call of the worker that has a job, inside the call that the job is of.
// CodeForbidden for a claim that is not the job's, CodeNotFound for a job of no call.
func (d *Desk) Call(ctx context.Context, p capabilities.PrincipalID, id, claim string, n registry.Nested) (capabilities.Result, error) {
	d.mu.Lock()
	jobs, one := d.jobs, d.runs[id]
	d.mu.Unlock()
	if jobs == nil || one == nil {
		return capabilities.Result{}, capabilities.Errorf(capabilities.CodeNotFound, "no call of a sub-agent with that job is under way")
	}
	held, err := jobs.Held(ctx, p, id, claim)
	if err != nil {
		return capabilities.Result{}, err
	}
	if !one.begin() {
		return capabilities.Result{}, capabilities.Errorf(capabilities.CodeNotFound, "the call of the sub-agent is over")
	}
	defer one.calls.Done()
	inner, cancel := context.WithCancelCause(one.ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(causeOf(ctx)) })()
	n.Lane = held.Lane
	r := one.step(inner, n)
	one.saw(r.Effect)
	return r, nil
}

// begin reports whether a call may still be made.
func (r *run) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.calls.Add(1)
	}
	return !r.over
}

// finish returns when no call runs any more; none begins after it.
func (r *run) finish() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.calls.Wait()
}

// worst orders effects: a sum says no more than its worst part.
var worst = map[capabilities.Effect]int{
	capabilities.EffectConfirmed: 1, capabilities.EffectUnverifiable: 2, capabilities.EffectSuspectNoop: 3, capabilities.EffectPartial: 3,
}

func (r *run) saw(e capabilities.Effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if worst[e] > worst[r.effect] {
		r.effect = e
	}
	if worst[r.effect] == 3 {
		r.effect = capabilities.EffectPartial
	}
}
