package runner

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/agent/observe"
	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/mask"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// arrived is a ticket that this node has been given: a call's or a step's.
type arrived struct {
	r      *Runner
	t      *wire.Ticket
	sink   Sink
	log    *slog.Logger
	at     time.Time               // its lifetime and the call's own time count from here
	cancel context.CancelCauseFunc // ends the call and all that belongs to it
}

// Serve carries out one ticket and answers through sink exactly once. ctx ends
// when the gateway gives the call up.
func (r *Runner) Serve(ctx context.Context, t *wire.Ticket, sink Sink) {
	c := &arrived{r: r, t: t, sink: sink, at: time.Now(), log: r.opts.Log.With("call", t.Call, "tool", t.Tool, "lane", t.Lane)}
	answer, blobs := c.serve(ctx)
	answer.DurationUS = uint64(time.Since(c.at).Microseconds())
	answer.Clip()
	if answer.Code == capabilities.CodeResultTooLarge {
		blobs = nil
	}
	sink.Answer(answer, blobs)
}

// serve takes the ticket through every phase, in the order that the package promises.
func (c *arrived) serve(ctx context.Context) (wire.Answer, [][]byte) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.cancel = cancel
	// From here on the call counts as running, so that the gateway, asking over a
	// new connection, is never told "never started" about a call on its way in.
	if !c.r.enter(c.t.Call, cancel) {
		return refusal(&capabilities.Error{Code: capabilities.CodeTicketReplayed}), nil
	}
	defer c.r.leave(c.t.Call)
	if c.t.Parent != "" {
		return refusal(capabilities.Errorf(capabilities.CodeTicketInvalid, "no call of this node asked for that step")), nil
	}
	a, no := c.admit(ctx)
	if no != nil {
		return refusal(no), nil
	}
	defer a.leave()
	ctx, stop := a.bound(ctx)
	defer stop()
	p, no := a.place(ctx, nil)
	if no != nil {
		return refusal(no), nil
	}
	defer p.free()
	s, no := p.start(ctx)
	if no != nil {
		return refusal(no), nil
	}
	inv := s.invocation()
	if c.r.opts.Spool != nil {
		s.spool = c.r.opts.Spool.For(c.t.Call, s.tool.Limits.MaxArtifactBytes)
		inv.Spool = s.spool
		if s.masks() {
			inv.Spool = maskedSpool{s.spool}
		}
	}
	if c.t.Steps {
		inv.Step, inv.StepTools = (&steps{parent: s, spool: inv.Spool}).carryOut, c.r.stepTools(s.tool)
	}
	if c.t.Elicits {
		inv.Elicit = s.elicit
	}
	if c.t.AsksHosts {
		ask, over := s.reaching(ctx)
		defer over()
		inv.Reach = ask
	}
	return s.answer(ctx, s.run(ctx, inv, s.handler.Handle))
}

// admitted is a ticket that nothing and nobody on the device is against. Only admit makes one.
type admitted struct {
	*arrived
	tool    *catalog.Descriptor
	handler capabilities.Handler
	ready   capabilities.Readiness
	seen    *withhold.Call
	screen  bool                  // it says what is on the screen
	waited  time.Duration         // for a person, and for a place
	clock   *capabilities.Timeout // of a call that may ask people; nil for others
}

// admit asks everything and everybody on the device that has a say in a ticket. The caller
// calls leave at the call's end.
func (c *arrived) admit(ctx context.Context) (*admitted, *capabilities.Error) {
	r, t := c.r, c.t
	handler, ok := r.handler(t.Capability)
	if !ok {
		return nil, capabilities.Errorf(capabilities.CodeCapabilityNotAdvertised, "this node does not offer %s", t.Capability)
	}
	ready := r.readyFor.of(ctx, handler, t.Capability)
	asked := time.Now()
	no := r.opts.Guard.Check(ctx, t, ready)
	waited := time.Since(asked)
	if no != nil {
		c.log.Warn("call.refused", "hop", capabilities.HopGuard, "code", no.Code, "err", no)
		if r.opts.Refused != nil {
			r.opts.Refused(t, no)
		}
		return nil, no
	}
	// A mirrored tool has the capability itself; a composed one is carried out by it.
	tool, ok := r.tool(t.Tool)
	if !ok || tool.NodeCapability() != t.Capability {
		return nil, capabilities.Errorf(capabilities.CodeTicketInvalid, "tool and capability do not belong together")
	}
	// Args came canonical and validated; the node trusts its own reading only.
	if _, violations, err := tool.SplitArgs(t.Args); err != nil || len(violations) > 0 {
		return nil, capabilities.Wrap(capabilities.CodeTicketInvalid, err, "The arguments do not fit this node's schema.")
	}
	a := &admitted{
		arrived: c, tool: tool, handler: handler, ready: ready, waited: waited,
		seen: r.withhold.Enter(t.Lane, shownBy(handler, tool, t.Lane), principalOf(t)), screen: showsScreen(handler, tool),
	}
	if no := a.withheld(); no != nil {
		a.leave()
		c.log.Info("call.refused", "hop", capabilities.HopRun, "code", no.Code)
		return nil, no
	}
	return a, nil
}

func (a *admitted) leave() { a.seen.Leave() }

// bound bounds the call by its deadline. The time that a person took to answer, or that it waited
// for a place, belongs to the call, as it was no time lost on the way.
func (a *admitted) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	left := time.Duration(a.t.DeadlineMS)*time.Millisecond - a.waited
	late := &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	if a.t.Elicits {
		ctx, clock, stop := capabilities.WithTimeout(ctx, left, late)
		a.clock = clock
		return ctx, stop
	}
	return context.WithTimeoutCause(ctx, left, late)
}

// started is a call whose start the journal has. Only start makes one.
type started struct {
	*placed
	spool    *spool.Call // nil: its artifacts are another call's, or there is no spool
	recorder *observe.Recorder
	drift    atomic.Pointer[capabilities.Error]
}

// start has the journal record the start, and returns once no end of this process can lose it.
func (a *placed) start(ctx context.Context) (*started, *capabilities.Error) {
	if err := a.r.opts.Journal.Started(ctx, a.t); err != nil {
		a.log.Error("call.refused", "hop", capabilities.HopRun, "err", err)
		return nil, capabilities.AsError(err)
	}
	// A slow disk or probe may have used the ticket's life up: what the gateway may
	// have given up by now must not begin.
	if time.Since(a.at)-a.waited > time.Duration(a.t.LifetimeMS)*time.Millisecond {
		late := &capabilities.Error{Code: capabilities.CodeTicketExpired}
		a.log.Warn("call.refused", "hop", capabilities.HopRun, "code", late.Code)
		answer := refusal(late)
		a.finished(&answer)
		return nil, late
	}
	s := &started{placed: a}
	s.recorder = observe.NewRecorder(a.t.Grants, func(key string) {
		e := capabilities.Errorf(capabilities.CodeDriftCritical,
			"The call did something that it was never granted (%s). It was ended, and its result is void.", key)
		s.drift.CompareAndSwap(nil, e)
		a.cancel(e)
	})
	return s, nil
}

// finished has the journal record the end, as the answer will leave.
func (a *admitted) finished(answer *wire.Answer) {
	answer.Clip()
	if err := a.r.opts.Journal.Finished(a.t.Call, answer); err != nil {
		a.log.Error("call.journal", "err", err)
	}
}

// invocation is the ticket as its handler sees it.
func (s *started) invocation() capabilities.Invocation {
	return capabilities.Invocation{
		Call: s.t.Call, Capability: s.t.Capability, Lane: s.t.Lane, Principal: policy.PrincipalIn(s.t.Envelope),
		Args: s.t.Args, Grants: s.t.Grants, Trace: s.t.Trace,
		Progress: func(p capabilities.Progress) {
			wp := wire.Progress{Done: p.Done, Total: p.Total, Message: s.seen.Text(p.Message), Data: p.Data}
			if s.masks() {
				wp.Message, _ = mask.Text(wp.Message)
				wp.Data = nil
			}
			wp.Clip()
			s.sink.Progress(wp)
		},
		Observe: s.recorder.Observe, Refused: s.recorder.Refused, Earlier: s.recorder.Earlier, Among: s.recorder.Among, Ran: s.recorder.Ran,
		Pasting: func(where func() capabilities.Place) error { return coded(s.seen.Pasting(where)) },
		Looking: func() error { return coded(s.seen.Refuses()) },
	}
}

// handle carries out an invocation: a handler's Handle, or one with a wrapper round it.
type handle func(context.Context, capabilities.Invocation) (capabilities.Output, error)

// output is a call's result: as its handler returned it, freed of what is withheld, and as
// the answer says it, without what answer adds.
type output struct {
	given  capabilities.Output
	answer wire.Answer
}

// run has do carry the call out, and takes out of what it returns what must not leave.
func (s *started) run(ctx context.Context, inv capabilities.Invocation, do handle) output {
	do = s.catching(do)
	if s.tool.Delivery != nil {
		do = s.delivering(do)
	}
	do = s.withholding(do)
	given, err := do(ctx, inv)
	o := output{given: given, answer: answerOf(ctx, given, err)}
	if e := s.drift.Load(); e != nil { // whatever the handler makes of it
		o.answer = refusal(e)
		if o.answer.Effect = given.Effect; o.answer.Effect == "" {
			o.answer.Effect = capabilities.EffectUnverifiable
		}
	}
	o.answer.Isolation = s.ready.Isolation
	observations, _ := s.recorder.Observations()
	for _, seen := range observations {
		o.answer.Observed = append(o.answer.Observed,
			wire.Observation{Key: seen.Key, Detail: seen.Detail, Count: seen.Count, Refused: seen.Refused, Among: seen.Among, Granted: seen.Granted})
	}
	o.answer.Lost, o.answer.Ran = s.recorder.Lost(), s.recorder.Programs()
	s.redact(&o.answer)
	if s.masks() {
		s.masked(&o)
	}
	return o
}

// catching makes an internal error of this call alone out of a handler's panic.
func (s *started) catching(do handle) handle {
	return func(ctx context.Context, inv capabilities.Invocation) (out capabilities.Output, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("call.panic", "panic", s.seen.Text(fmt.Sprint(p)), "stack", string(debug.Stack()))
				out, err = capabilities.Output{}, capabilities.Errorf(capabilities.CodeInternal, "the tool crashed")
			}
		}()
		return do(ctx, inv)
	}
}
