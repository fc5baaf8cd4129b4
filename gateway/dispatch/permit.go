package dispatch

import (
	"context"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
)

// permitted is a decided call that may go on: policy allows it, by itself or with a person's
// word, and nobody keeps its node. Its decision and envelope are those that go on. Only
// permit makes one.
type permitted struct {
	*decided
	grant
}

// holds is what a call holds while it is under way: a person's grant, its place on the node.
type holds []func()

func (h *holds) add(release func()) { *h = append(*h, release) }

// release frees it all, the last first. Idempotent.
func (h *holds) release() {
	for i := len(*h) - 1; i >= 0; i-- {
		(*h)[i]()
	}
	*h = nil
}

// permit is hop 6: it waits while a person keeps the node, asks a person where policy says so, and
// takes the call's place on its node. Everything that it takes is in held, also when it fails.
// within is how long a step may wait for its answer; nil for a call that is none.
func (d *Dispatcher) permit(ctx context.Context, v *decided, x *execution.Execution, within func() time.Duration,
	held *holds) (*permitted, *capabilities.Error) {
	w := &waiter{d: d, x: x}
	v, err := w.yield(ctx, v)
	if err != nil {
		return nil, err
	}
	p, err := d.ask(ctx, v, x, within, held)
	// Another policy came into force while a person was asked. A step has its parent's policy.
	for within == nil && err != nil && err.Code == capabilities.CodeConflict && d.opts.Policy() != v.engine {
		if v, err = d.decideAnew(v); err != nil {
			return nil, err
		}
		p, err = d.ask(ctx, v, x, within, held)
	}
	if err != nil {
		return nil, err
	}
	if p.permit.Grant == "" && d.opts.Consent != nil && p.node != nil {
		held.add(d.opts.Consent.Uses(p.desc.Tool, p.node.ID, p.principal))
	}
	if p, err = w.occupy(ctx, p, held); err != nil {
		return nil, err
	}
	p.passed(capabilities.HopPermit)
	return p, nil
}

// ask waits for a person's word on what policy asks about. With it policy decides again, and
// the envelope is made again for what goes on; the first decision stays as it was.
func (d *Dispatcher) ask(ctx context.Context, v *decided, x *execution.Execution, within func() time.Duration,
	held *holds) (*permitted, *capabilities.Error) {
	if v.verdict.Effect != policy.Ask {
		return &permitted{decided: v}, nil
	}
	if d.opts.Consent == nil {
		return nil, v.unasked(&capabilities.Error{Code: capabilities.CodeConsentUnavailable})
	}
	asked := time.Now()
	question := v.question()
	question.Look, question.Live = d.meets(v), v.req.Checked != nil
	if d.opts.Through != nil && v.desc.Provider != "" {
		question.Through = func() []string { return d.opts.Through(v.desc.Provider, v.desc.Tool) }
	}
	if hosts := v.hosts(); len(hosts) > 0 {
		question.Through = func() []string { return []string{"the device's proxy, which connects to " + strings.Join(hosts, ", ")} }
	}
	question.Left = func() bool { return d.admitting.Err() == nil && v.req.Task == "" } // so does every call with the gateway
	if within == nil {
		question.Attended = x.Attended
	} else { // the caller of a step is a script: nobody waits who could be seen
		question.Within = within()
	}
	if v.traced.asked == 0 {
		v.traced.asked = asked.Sub(v.began)
	}
	permit, err := d.opts.Consent.Await(ctx, question)
	v.waited += time.Since(asked)
	if err != nil {
		e := capabilities.AsError(err)
		if e.Code == capabilities.CodeApprovalPending {
			return nil, d.keep(ctx, v, &question, e)
		}
		return nil, v.unasked(e)
	}
	held.add(func() {
		if permit.Grant != "" {
			d.opts.Consent.Ended(permit)
		}
	})
	return v.granted(grant{permit: permit})
}

// granted decides again with a person's word.
func (v *decided) granted(g grant) (*permitted, *capabilities.Error) {
	request := v.policyRequest(v.node)
	request.Consented, request.Time = true, v.began.Add(v.waited)
	verdict := v.engine.Decide(request)
	if verdict.Effect != policy.Allow {
		if limits := v.limited(request, policy.Allow); limits != nil {
			return nil, limits
		}
		return nil, capabilities.Errorf(capabilities.CodeDeniedByPolicy, "%s", verdict.Reason)
	}
	if len(verdict.Escalated) > 0 {
		g.from = v.sealed
		v.escalated(&v.verdict)
	}
	v.judged(&verdict)
	v.decision.Grant = g.permit.Grant
	sealed, err := v.seal(&verdict, g)
	if err != nil {
		return nil, err
	}
	return &permitted{decided: &decided{routed: v.routed, verdict: verdict, sealed: sealed, accepts: v.accepts}, grant: g}, nil
}

// defers reports whether this call is kept while nobody answers: policy says so, or its caller
// asks after it by a handle.
func (v *decided) defers() bool {
	if v.req.Task != "" || v.isStep() || v.verdict.Effect != policy.Ask {
		return false
	}
	advice := v.engine.Advice(v.verdict.Determining, v.engine.Profile(v.desc.Tool).Asks)
	return advice.Defer > 0 || v.req.Keep > 0 && !(advice.User && v.req.Elicits)
}

// asked is v as Deferred knows it.
func (v *decided) asked() Asked {
	return Asked{
		Caller: v.req.Caller, Tool: v.req.Tool, RequestID: v.req.RequestID, Surface: v.req.Surface,
		Args: v.req.Args, Canonical: v.args.Canonical, Target: v.args.NodeID, Manifest: v.engine.Profile(v.req.Tool).ManifestHash,
		Handle: v.req.Keep > 0, Trace: v.traced.onward(),
	}
}

// keep defers a call that nobody answered in time. The error that it returns says so to the
// caller; keeping nothing is no reason to say anything else than before.
func (d *Dispatcher) keep(ctx context.Context, v *decided, q *consent.Ask, pending *capabilities.Error) *capabilities.Error {
	approval := pending.Pending().Approval
	if approval == "" || d.opts.Deferred == nil || !v.defers() {
		return pending
	}
	err := d.opts.Deferred.Keep(ctx, v.asked(), approval, max(q.Defer, q.Kept))
	if q.Defer == 0 && err.Code == capabilities.CodeOverloaded { // no rule promised more than the question
		return pending
	}
	return err
}

// earlierTask returns the outcome of the identical call that was deferred: its result, or
// that it still waits. nil: there is none.
func (d *Dispatcher) earlierTask(ctx context.Context, v *decided) (*capabilities.Result, *capabilities.Error) {
	if d.opts.Deferred == nil || !v.defers() {
		return nil, nil
	}
	return d.opts.Deferred.Earlier(ctx, v.asked())
}

// whileServing returns a context that ends with ctx or when the gateway begins to end: what has
// not begun ends with it; what runs goes on at its node, and the next process asks there.
func (d *Dispatcher) whileServing(ctx context.Context) (context.Context, func()) {
	return until(ctx, d.admitting)
}

// whileRunning is the same for the steps of a call that runs: a gateway that is about to end waits
// for that call, and so for its steps.
func (d *Dispatcher) whileRunning(ctx context.Context) (context.Context, func()) {
	return until(ctx, d.serving)
}

func until(ctx, end context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(end, func() {
		cancel(capabilities.Errorf(capabilities.CodeCancelled, "The gateway is ending."))
	})
	return ctx, func() { forget(); cancel(nil) }
}
