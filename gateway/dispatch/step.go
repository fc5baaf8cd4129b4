package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/route"
)

// A step of a running call is a call. Its node asks for it on the parent's stream; here it
// goes the way of every call, with the parent's caller, lane and node, and its packets name
// the parent. It is no request of its own: it has no request ID, no place among the running
// calls and no caller but the parent's handler.

// stepMargin is what a call keeps of its time, while one of its steps waits for a person, to say
// that nobody answered.
const stepMargin = 3 * time.Second

// steps are those of one call.
type steps struct {
	d      *Dispatcher
	parent *order
	began  time.Time
	cancel context.CancelCauseFunc // of the parent's order
	ends   ends                    // not durable yet

	mu    sync.Mutex
	open  map[uint32]*step // durable, and not ended
	taint []string         // what they have read, beside the lane's
	void  bool             // a step did what is critical
}

// step is one of them under way, and what it holds.
type step struct {
	number uint32
	x      *execution.Execution
	held   holds
	call   *openCall // once it is committed
}

// conduct orders a call that takes steps.
func (d *Dispatcher) conduct(ctx context.Context, c *committed,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &steps{d: d, parent: c.Of(), began: time.Now(), cancel: cancel, open: map[uint32]*step{}}
	s.ends.d, s.ends.parent = d, s.parent.id
	t := d.ticket(c)
	t.Steps = true
	answer, blobs, err := d.opts.Nodes.Conduct(ctx, s.parent.node.ID, t, progress, s.order, s.ended)
	s.close()
	if err == nil && answer.Status == capabilities.StatusOK && s.voided() {
		answer, blobs = voided(answer), nil
	}
	return answer, blobs, err
}

// voided makes the end of a call whose step did what is critical. A node ends such a call itself;
// one that lies goes on, and has its result taken away (S1-51).
func voided(a wire.Answer) wire.Answer {
	return wire.Answer{
		Status: capabilities.StatusError, Code: capabilities.CodeDriftCritical,
		Message:   "A step of the call did something that it was never granted. The call's result is void.",
		Isolation: a.Isolation, Observed: a.Observed, Lost: a.Lost, DurationUS: a.DurationUS,
	}
}

// voided reports whether a step did what is critical: the call takes no more steps.
func (s *steps) voided() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.void
}

// order carries one step through the hops, up to its ticket.
func (s *steps) order(ctx context.Context, m *wire.Step) *wire.StepOrder {
	p := s.parent
	r := Request{Caller: p.req.Caller, Tool: m.Tool, Args: m.Args, Surface: p.req.Surface, Token: p.req.Token, Trace: p.traced.onward()}
	t := newTrail(&r, time.Now())
	t.parent, t.own, t.request.Step = p.id, true, m.Number
	if err := s.d.turnedAway(r.Principal, r.Tool, t.began); err != nil {
		return refusedStep(m.Number, err)
	}
	s.d.enters(t)
	ctx, cancel := context.WithCancelCause(ctx)
	one := &step{number: m.Number, x: execution.New(func(cause error) { // a step that runs ends with its call
		cancel(cause)
		if s.ordered(m.Number) {
			s.cancel(cause)
		}
	})}
	ended := s.d.running.Start(one.x, t.id, r.asker())
	one.held.add(func() { ended(); cancel(nil) })
	c, err := s.admit(ctx, t, r, one)
	if err != nil {
		err = because(ctx, err)
		s.d.refuse(ctx, t, err)
		one.held.release()
		return refusedStep(m.Number, err)
	}
	s.d.opts.Log.Debug("tools.dispatch.step", "hop", capabilities.HopSend, "call", t.id, "parent", p.id, "step", m.Number)
	ticket := s.d.ticket(c)
	ticket.Parent, ticket.Step = p.id, m.Number
	return &wire.StepOrder{Number: m.Number, Ticket: ticket}
}

// admit is hops 2 to 7 of a step, without 5. People answer questions about it within the parent's
// time.
func (s *steps) admit(ctx context.Context, t *trail, r Request, one *step) (*committed, *capabilities.Error) {
	q, err := s.d.resolve(ctx, t, r) // hop 2
	if err != nil {
		return nil, err
	}
	if err := s.fits(q); err != nil {
		return nil, err
	}
	n, err := s.place(q) // hop 3: where the parent is
	if err != nil {
		return nil, err
	}
	v, err := s.d.decide(n) // hop 4
	if err != nil {
		return nil, err
	}
	p, err := s.d.permit(ctx, v, one.x, s.within, &one.held) // hop 6
	if err != nil {
		return nil, err
	}
	return s.commit(ctx, p, one) // hop 7
}

// fits is what a step has to be beside a valid call.
func (s *steps) fits(q *resolved) *capabilities.Error {
	p := s.parent
	switch {
	case !p.desc.Takes(q.desc):
		return capabilities.Errorf(capabilities.CodeUnknownTool, "%s takes no step of %s", p.desc.Tool, q.desc.Tool)
	case q.args.NodeID != "":
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "node_id: the steps of a call run where it runs").WithHint("Leave it out.")
	case s.left() <= 0:
		return &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	case s.voided():
		return &capabilities.Error{Code: capabilities.CodeDriftCritical}
	}
	q.args.NodeID = p.args.NodeID // as the parent was asked for
	q.args.Timeout = min(q.args.Timeout, s.left())
	if q.args.Purpose == "" {
		q.args.Purpose = p.args.Purpose
	}
	q.request.Requested, q.request.TimeoutMS = q.args.NodeID, q.args.Timeout.Milliseconds()
	return nil
}

// left is what the parent has of its time.
func (s *steps) left() time.Duration { return s.parent.args.Timeout - time.Since(s.began) }

// place is hop 3: the parent's node, if it is still one for this step, and if the parent is
// still allowed what it was.
func (s *steps) place(q *resolved) (*routed, *capabilities.Error) {
	p := s.parent
	n := &routed{resolved: q, engine: s.d.opts.Policy(), taint: s.tainted(), raised: s.d.opts.Drift.Raised, quota: &s.d.quota}
	q.looksAt(n.engine, n.taint)
	var limits *capabilities.Error
	if n.calls, limits = s.d.lately(context.Background(), n.engine, q); limits != nil {
		return nil, limits
	}
	if err := s.standing(n.engine); err != nil {
		return nil, err
	}
	if n.node = nodeByID(s.d.opts.Nodes.Snapshot(), p.node.ID); n.node == nil {
		return nil, &capabilities.Error{Code: capabilities.CodeNodeNotPaired}
	}
	capability := q.desc.NodeCapability()
	if v := route.Check(n.node, capability, nil); !v.Eligible() {
		q.goesTo(n.node, capabilities.Readiness{}, p.routing)
		return nil, (&capabilities.Error{Code: v.Code}).WithHint(v.Fix).WithDetails(map[string]any{"reason": v.Reason, "fix": v.Fix})
	}
	n.ready = n.node.Readiness[capability]
	q.goesTo(n.node, n.ready, p.routing)
	q.decision.Runner = n.runner(s.d.opts.Program).Fingerprint()
	q.passed(capabilities.HopPlace)
	return n, nil
}

// standing refuses the steps of a call that would not be allowed any more: policy has
// changed, or what a person granted it with was taken back or is over.
func (s *steps) standing(now *policy.Engine) *capabilities.Error {
	p := s.parent
	if p.permit.Grant != "" && !s.d.opts.Consent.Stands(p.permit) {
		return capabilities.Errorf(capabilities.CodeConsentDenied, "The grant of %s was taken back or is over, so the call takes no more steps.",
			p.desc.Tool)
	}
	if now.SnapshotID() == p.engine.SnapshotID() {
		return nil
	}
	request := p.policyRequest(p.node)
	request.Consented, request.Time = p.permit.Grant != "", time.Now()
	if v := now.Decide(request); v.Effect != policy.Allow {
		return capabilities.Errorf(capabilities.CodeDeniedByPolicy, "Policy has changed and no longer allows %s, so it takes no more steps.",
			p.desc.Tool)
	}
	return nil
}

// within is how long a person has to answer about a step.
func (s *steps) within() time.Duration { return max(s.left()-stepMargin, s.left()/2) }

// reads notes that a step has read what is not to be trusted.
func (s *steps) reads(family string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.taint, family) {
		s.taint = append(s.taint, family)
	}
}

// tainted is what the lane has read, with what the steps have read whose ends are not
// durable yet.
func (s *steps) tainted() []string {
	lane := s.d.taints.Of(s.parent.lane, s.parent.principal)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.taint {
		if !slices.Contains(lane, t) {
			lane = slices.Sorted(slices.Values(append(slices.Clone(lane), t)))
		}
	}
	return lane
}

// commit is hop 7: the step's request, decision and intent, with the ends of the steps
// before it.
func (s *steps) commit(ctx context.Context, p *permitted, one *step) (*committed, *capabilities.Error) {
	c, err := s.ends.commit(ctx, p)
	if err != nil {
		return nil, err
	}
	one.call = s.d.openOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[one.number] = one
	return c, nil
}

func (s *steps) ordered(number uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[number] != nil
}

// ended takes the node's word of how a step ended. It becomes durable with the next step's
// commit, or soon.
func (s *steps) ended(m *wire.StepEnd) {
	s.mu.Lock()
	one := s.open[m.Number]
	delete(s.open, m.Number)
	s.mu.Unlock()
	if one == nil {
		return // never ordered, or told twice
	}
	c := one.call
	c.answered(time.Duration(m.Answer.DurationUS) * time.Microsecond)
	e := opencalls.End{Answer: m.Answer}
	r := c.conclude(e)
	if r.Untrusted {
		s.reads(c.tool.Family())
	}
	body := c.endBody(&r, &e)
	one.held.release()
	s.mu.Lock()
	s.void = s.void || r.Code == capabilities.CodeDriftCritical
	s.mu.Unlock()
	s.ends.add(stepEnd{c, r, c.draft(terminalKind(body.Status), body)})
}

// close records what is known when the parent has ended, and has the node's journal tell of
// the steps that it said nothing of.
func (s *steps) close() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	s.ends.close()
	for _, one := range open {
		one.held.release()
		s.settle(one.call)
	}
}

// settle waits for the node's word on a step whose parent has ended.
func (s *steps) settle(c *openCall) {
	d := s.d
	if !d.begin() {
		return // the next process takes it up
	}
	told := d.open.Await(c.row, time.Now().Add(opencalls.SettleGrace))
	go func() {
		defer d.background.Done()
		if e, ok := <-told; ok {
			d.record(context.Background(), c, e)
		}
	}()
}

func refusedStep(number uint32, e *capabilities.Error) *wire.StepOrder {
	o := &wire.StepOrder{Number: number, Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint()}
	if e.Details != nil {
		if text, err := json.Marshal(e.Details); err == nil {
			o.Details = text
		}
	}
	return o
}
