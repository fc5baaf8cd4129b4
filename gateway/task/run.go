package task

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// runner carries kept calls out.
type runner struct {
	*Tasks
	calls  Calls
	asks   map[string]*retries
	seeing sync.WaitGroup // to tasks
}

// Run carries kept calls out by calls, as people answer, until ctx ends, and then waits
// for those under way.
func (t *Tasks) Run(ctx context.Context, calls Calls) error {
	if t.opts.Consent == nil {
		return nil
	}
	r := &runner{Tasks: t, calls: calls, asks: map[string]*retries{}}
	defer r.seeing.Wait()
	if err := r.recover(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		changed, answered, roster := t.notice.wait(), t.opts.Consent.Changed(), t.opts.Nodes()
		busy := t.notice.seenTo() // before the rows: what is free here is in them as it ended
		all, err := t.Tasks(ctx, "")
		if err != nil && ctx.Err() == nil {
			t.opts.Log.Warn("task.list", "err", err)
		}
		for i := range all {
			if all[i].State == Waiting && !busy[all[i].ID] && r.mine(&all[i]) {
				r.check(ctx, &all[i], roster)
			}
		}
		if ids := r.taken.all(); len(ids) > 0 {
			r.settle(ctx, all, func(one *Task) bool { return slices.Contains(ids, one.ID) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-answered:
		case <-roster:
		case now := <-tick.C:
			t.sweep(ctx, now)
		}
	}
}

func (t *Tasks) sweep(ctx context.Context, now time.Time) {
	err := t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM tasks WHERE expires_ms <= $1`, now.UnixMilli())
		return err
	})
	if err != nil && ctx.Err() == nil {
		t.opts.Log.Warn("task.sweep", "err", err)
	}
}

// recover settles what an earlier process was carrying out: nobody runs it a second time.
func (r *runner) recover(ctx context.Context) error {
	if r.opts.Store.Member() != "" { // what was kept while one gateway served is the first one's
		return r.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error { return r.GoneIn(tx, "") })
	}
	if all, err := r.Tasks.Tasks(ctx, ""); err == nil {
		r.settle(ctx, all, func(*Task) bool { return true })
	}
	return nil
}

// settle notes the ends of calls that this process did not make.
func (r *runner) settle(ctx context.Context, all []Task, which func(*Task) bool) {
	recovered := r.calls.TakeRecovered()
	for i := range all {
		one := &all[i]
		if one.State != Running || !which(one) {
			continue
		}
		r.seeing.Go(func() {
			if result := r.outcomeOf(ctx, one, recovered[one.Call]); result != nil {
				r.recordEnd(context.WithoutCancel(ctx), one.ID, result, false)
			}
		})
	}
}

// outcomeOf returns what became of the call of a task of an earlier process: what its node
// tells, while that is not settled, or the result that was kept. nil: ctx ended.
func (r *runner) outcomeOf(ctx context.Context, one *Task, await dispatch.Await) *capabilities.Result {
	if await != nil {
		if result, ok := await(ctx); ok {
			return &result
		}
		return nil
	}
	result, err := opencalls.KeptBy(ctx, r.opts.Outcomes, one.Call)
	if err == nil {
		return result
	}
	if ctx.Err() != nil {
		return nil
	}
	e := capabilities.AsError(err)
	if one.Call == "" { // by a version that did not note it
		e = &capabilities.Error{Code: capabilities.CodeUnknownOutcome}
	}
	failed := dispatch.Failed(one.Tool, one.Call, e)
	return &failed
}

// retries is how a task fares whose question an earlier process has forgotten. Its node may
// not be back yet, so asking anew is tried when the roster changes; and now and then
// without that, because too many questions may have been in the way.
type retries struct {
	roster <-chan struct{}
	tries  int
	next   time.Time // not before, though the roster changes
	late   time.Time // then, though it does not
}

// The first tries follow the roster closely, as after a start; later ones are rare, because
// each is a call in the ledger.
const (
	quickTries = 8
	slowTry    = time.Minute
)

// due reports whether it is time to ask anew, and notes that it is done.
func (a *retries) due(roster <-chan struct{}, now time.Time) bool {
	if now.Before(a.next) || a.roster == roster && now.Before(a.late) {
		return false
	}
	a.roster, a.late = roster, now.Add(slowTry)
	if a.tries++; a.tries > quickTries {
		a.next = now.Add(slowTry)
	}
	return true
}

// check finds out whether a waiting task can go on.
func (r *runner) check(ctx context.Context, one *Task, roster <-chan struct{}) {
	a, err := r.opts.Consent.Approval(one.Approval)
	var refusal *capabilities.Error
	anew := false
	switch {
	case err != nil || a.Closed == consent.ClosedRestarted || a.Closed == consent.ClosedPolicy:
		// Gone with an earlier process, or with an earlier policy: it is asked again.
		if r.asks[one.ID] == nil {
			r.asks[one.ID] = &retries{}
		}
		if !r.asks[one.ID].due(roster, time.Now()) {
			return
		}
		anew = true
	case a.State == consent.StatePending:
		return
	case a.State == consent.StateDenied:
		refusal = capabilities.Errorf(capabilities.CodeConsentDenied, "A person denied this call.")
	case a.State == consent.StateClosed:
		refusal = capabilities.Errorf(capabilities.CodeConsentDenied, "the question was closed before anybody answered it")
	case a.State == consent.StateExpired:
		refusal = capabilities.Errorf(capabilities.CodeConsentDenied, "nobody answered in time")
	}
	r.notice.begin(one.ID)
	r.seeing.Go(func() {
		defer r.notice.end(one.ID)
		call, cancel := context.WithCancelCause(ctx)
		defer r.running.add(one.ID, cancel)()
		result := r.resume(call, one, refusal)
		if ctx.Err() != nil && neverBegan(result.Code) {
			return // the next process goes on with it, or settles what ran
		}
		// The obstacle between it and the question may pass; a call that a person allowed is tried
		// once.
		r.recordEnd(context.WithoutCancel(ctx), one.ID, &result, anew && passes(result.Code))
	})
}

// neverBegan reports whether the end of the gateway is all that a code tells of.
func neverBegan(code capabilities.Code) bool {
	return code == capabilities.CodeCancelled || code == capabilities.CodeOverloaded
}

// passes reports whether what refused a call may be over by itself.
func passes(code capabilities.Code) bool {
	return code.Info().Retryable || code == capabilities.CodeAmbiguousNode || code == capabilities.CodeCapabilityNotAdvertised
}

// resume carries a kept call out as if it were made now.
func (r *runner) resume(ctx context.Context, one *Task, refusal *capabilities.Error) capabilities.Result {
	kept, err := r.args(ctx, one)
	desc, ok := r.opts.Registry.Get(one.Tool)
	switch {
	case refusal != nil:
	case err != nil:
		refusal = capabilities.AsError(err)
	case !r.opts.Known(one.Principal, one.Role):
		refusal = capabilities.Errorf(capabilities.CodeForbidden, "The caller has no valid token any more.")
	case !ok || policy.NewProfile(desc).ManifestHash != one.Manifest:
		refusal = capabilities.Errorf(capabilities.CodeConflict, "the tool is not what it was when the call was made").WithHint("Call again.")
	}
	if refusal != nil {
		return dispatch.Failed(one.Tool, "", refusal)
	}
	again := dispatch.Request{
		Caller: dispatch.Caller{Principal: one.Principal, Role: one.Role, Lane: one.Lane}, Tool: one.Tool, Args: kept.Args,
		RequestID: one.RequestID, Surface: one.Surface, Task: one.ID, Trace: trace.Parse(kept.Trace),
	}
	if one.Handle { // it is asked about for as long as its caller may ask after it
		again.Keep = max(time.Until(one.Expires)-resultLife, time.Second)
	}
	return r.calls.Call(ctx, again)
}
