package runner

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/agent/observe"
	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// run is one ticket that may be carried out: a call's or a step's. Only admit makes one.
type run struct {
	r       *Runner
	t       *wire.Ticket
	tool    *catalog.Descriptor
	handler capabilities.Handler
	ready   capabilities.Readiness
	seen    *withhold.Call
	shown   func(capabilities.Place) bool // what it can look at
	screen  bool                          // it says what is on the screen
	log     func() *slog.Logger
	ctx     context.Context         // has the deadline
	cancel  context.CancelCauseFunc // of all that belongs to it
	stop    func()

	recorder *observe.Recorder
	drift    atomic.Pointer[capabilities.Error]
}

// admit asks everybody on the device who has a say in a ticket, and records that it
// starts. The caller calls leave at its end. cancel ends what critical drift ends.
func (r *Runner) admit(ctx context.Context, t *wire.Ticket, arrived time.Time, log func() *slog.Logger, cancel context.CancelCauseFunc) (*run, *capabilities.Error) {
	handler, ok := r.handlers[t.Capability]
	if !ok {
		return nil, capabilities.Errorf(capabilities.CodeCapabilityNotAdvertised, "this node does not offer %s", t.Capability)
	}
	ready := r.readyFor.of(ctx, handler, t.Capability)
	asked := time.Now()
	no := r.opts.Guard.Check(ctx, t, ready)
	waited := time.Since(asked) // for a person: that is no time lost on the way, but the call's own
	arrived = arrived.Add(waited)
	if no != nil {
		log().Warn("call.refused", "hop", "guard", "code", no.Code, "err", no)
		if r.opts.Refused != nil {
			r.opts.Refused(t, no)
		}
		return nil, no
	}
	// A mirrored tool has the capability itself; a composed one is carried out by it.
	tool, ok := r.opts.Catalog.Get(t.Tool)
	if !ok || tool.NodeCapability() != t.Capability {
		return nil, capabilities.Errorf(capabilities.CodeTicketInvalid, "tool and capability do not belong together")
	}
	// Args came canonical and validated; the node trusts its own reading only.
	if _, violations, err := tool.SplitArgs(t.Args); err != nil || len(violations) > 0 {
		return nil, capabilities.Wrap(capabilities.CodeTicketInvalid, err, "The arguments do not fit this node's schema.")
	}

	seen, shown := r.withhold.Enter(t.Lane, principalOf(t)), shownBy(handler, tool, t.Lane)
	screen := showsScreen(handler, tool)
	if err := withheld(seen, tool, shown, screen); err != nil {
		seen.Leave()
		log().Info("call.refused", "hop", "runner", "code", err.Code)
		return nil, err
	}
	ctx, stopTimer := context.WithTimeoutCause(ctx, time.Duration(t.DeadlineMS)*time.Millisecond-waited, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	w := &run{r: r, t: t, tool: tool, handler: handler, ready: ready, seen: seen, shown: shown, screen: screen, log: log, ctx: ctx, cancel: cancel, stop: stopTimer}
	if err := r.opts.Journal.Started(ctx, t); err != nil {
		w.leave()
		log().Error("call.refused", "hop", "journal", "err", err)
		return nil, capabilities.AsError(err)
	}
	// A slow disk or probe may have used the ticket's life up: what the gateway may
	// have given up by now must not begin.
	if time.Since(arrived) > time.Duration(t.LifetimeMS)*time.Millisecond {
		w.leave()
		late := &capabilities.Error{Code: capabilities.CodeTicketExpired}
		log().Warn("call.refused", "hop", "runner", "code", late.Code)
		answer := refusal(late)
		r.finished(log, t.Call, &answer)
		return nil, late
	}
	w.recorder = observe.NewRecorder(t.Grants, func(key string) {
		e := capabilities.Errorf(capabilities.CodeDeniedByNode, "the call did something it was never granted (%s) and was ended", key)
		w.drift.CompareAndSwap(nil, e)
		cancel(e)
	})
	return w, nil
}

func (w *run) leave() {
	w.stop()
	w.seen.Leave()
}

// invocation is the ticket as its handler sees it.
func (w *run) invocation(sink Sink) capabilities.Invocation {
	return capabilities.Invocation{
		Call: w.t.Call, Capability: w.t.Capability, Lane: w.t.Lane, Principal: policy.PrincipalIn(w.t.Envelope), Args: w.t.Args, Grants: w.t.Grants,
		Progress: func(p capabilities.Progress) {
			wp := wire.Progress{Done: p.Done, Total: p.Total, Message: w.seen.Text(p.Message), Data: p.Data}
			wp.Clip()
			sink.Progress(wp)
		},
		Observe: w.recorder.Observe,
		Pasting: func(where func() capabilities.Place) error { return coded(w.seen.Pasting(where)) },
		Looking: func() error { return coded(w.seen.Refuses(w.shown)) },
	}
}

// carryOut has the handler do it, and takes out of what it gives what may not leave.
func (w *run) carryOut(handle func(context.Context, capabilities.Invocation) (capabilities.Output, error), inv capabilities.Invocation) (capabilities.Output, wire.Answer, [][]byte) {
	output, failed := w.handle(handle, inv)
	if failed == nil && w.tool.Delivery != nil {
		output = acknowledged(w.tool, w.t, output)
	}
	if failed == nil {
		failed = coded(withheld(w.seen, w.tool, w.shown, w.screen)) // it may have been pasted meanwhile
	}
	if clean, refused := w.seen.Blobs(output.Blobs, w.shown); failed == nil && refused != nil {
		failed = refused
	} else {
		output.Blobs = clean
	}
	if failed == nil && len(output.Artifacts) > 0 {
		failed = heldBack(w.seen, w.tool, w.shown)
	}
	answer, blobs := conclude(w.ctx, output, failed)
	if e := w.drift.Load(); e != nil { // whatever the handler makes of it
		answer, blobs = refusal(e), nil
		if answer.Effect = output.Effect; answer.Effect == "" {
			answer.Effect = capabilities.EffectUnverifiable
		}
	}
	answer.Isolation = w.ready.Isolation
	observations, _ := w.recorder.Observations()
	for _, o := range observations {
		answer.Observed = append(answer.Observed, wire.Observation{Key: o.Key, Detail: o.Detail, Count: o.Count})
	}
	if original := answer.Output; w.seen.Answer(&answer) {
		refit(w.tool, &answer, w.seen, original)
		if answer.Status != capabilities.StatusOK {
			blobs = nil
		}
	}
	return output, answer, blobs
}

// handle runs the handler; a panic becomes an internal error of this call alone.
func (w *run) handle(do func(context.Context, capabilities.Invocation) (capabilities.Output, error), inv capabilities.Invocation) (out capabilities.Output, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.r.opts.Log.Error("call.panic", "call", inv.Call, "panic", w.seen.Text(fmt.Sprint(p)), "stack", string(debug.Stack()))
			out, err = capabilities.Output{}, capabilities.Errorf(capabilities.CodeInternal, "the tool crashed")
		}
	}()
	return do(w.ctx, inv)
}

// fits makes an error of an answer that its caller may not get as it is: too large, or
// not what the tool's schema promises.
func (w *run) fits(answer *wire.Answer) bool {
	answer.Clip()
	if len(answer.Output) > w.tool.Limits.MaxResultBytes {
		answer.Status, answer.Code, answer.Output, answer.Blobs = capabilities.StatusError, capabilities.CodeResultTooLarge, nil, nil
	}
	if answer.Status != capabilities.StatusOK {
		return false
	}
	if bad := w.tool.ValidateResult(answer.Output); len(bad) > 0 {
		w.log().Error("call.result_invalid", "violations", bad)
		answer.Status, answer.Code = capabilities.StatusError, capabilities.CodeInternal
		answer.Message = "The tool gave a result that does not fit its own schema."
		answer.Output, answer.Blobs = nil, nil
		return false
	}
	return true
}
