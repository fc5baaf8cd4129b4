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
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A step of a running call is a call (DESIGN section 15). Its node asks for it on the
// parent's stream; here it goes the way of every call, with the parent's caller, lane and
// node, and its packets name the parent. It is no request of its own: it has no request
// ID, no place in the queue and no caller but the parent's handler.

// Conductor is a transport whose calls can take steps.
type Conductor interface {
	// Conduct is Dispatch; order answers each step that the node asks for, beside
	// others, and ended takes how those that had a ticket ended.
	Conduct(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
		order func(context.Context, *wire.Step) *wire.StepOrder, ended func(*wire.StepEnd)) (wire.Answer, []capabilities.Blob, error)
}

const (
	// stepMargin is what a call keeps of its time, while one of its steps waits for a
	// person, to say that nobody answered.
	stepMargin = 3 * time.Second
	// endsWait is how long the end of a step waits for the next one's commit, which then
	// takes it along.
	endsWait = 20 * time.Millisecond
)

// steps are those of one call.
type steps struct {
	d      *Dispatcher
	parent *call
	began  time.Time
	cancel context.CancelCauseFunc // of the parent's order

	writing sync.Mutex // of ends

	mu    sync.Mutex
	open  map[uint32]*call // durable, and not ended
	taint []string         // what they have read, beside the lane's
	ends  []stepEnd        // not durable yet
	flush *time.Timer
	off   bool // no end is taken any more
}

// stepEnd is how a step ended.
type stepEnd struct {
	c    *call
	r    capabilities.Result
	last ledger.Draft
}

// conduct orders a call that takes steps.
func (d *Dispatcher) conduct(ctx context.Context, c *call, t *wire.Ticket, progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	nodes, ok := d.opts.Nodes.(Conductor)
	if !ok {
		return wire.Answer{}, nil, capabilities.Errorf(capabilities.CodeNotSupported, "this gateway has no way to judge the steps of a call")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &steps{d: d, parent: c, began: time.Now(), cancel: cancel, open: map[uint32]*call{}}
	t.Steps = true
	answer, blobs, err := nodes.Conduct(ctx, c.node.ID, t, progress, s.order, s.ended)
	s.close()
	return answer, blobs, err
}

// order carries one step through the hops, up to its ticket.
func (s *steps) order(ctx context.Context, m *wire.Step) *wire.StepOrder {
	c := s.call(ctx, m)
	ctx, cancel := context.WithCancelCause(ctx)
	c.life = ctx
	f := newFlight(func(cause error) { // a step that runs ends with its call
		cancel(cause)
		if s.ordered(m.Number) {
			s.cancel(cause)
		}
	})
	landed := s.d.airborne.start(f, c.id)
	c.over = func() { landed(); cancel(nil) }
	if err := s.admit(ctx, c, f); err != nil {
		err = because(ctx, err)
		if !c.unrecorded {
			s.d.refuse(c, err)
		}
		c.end()
		return refusedStep(m.Number, err)
	}
	s.d.opts.Log.Debug("tools.dispatch.step", "hop", "dispatch", "call", c.id, "parent", s.parent.id, "step", m.Number)
	t := s.d.ticket(c)
	t.Parent, t.Step = s.parent.id, m.Number
	return &wire.StepOrder{Number: m.Number, Ticket: t}
}

func (s *steps) call(ctx context.Context, m *wire.Step) *call {
	now, p := time.Now(), s.parent
	return &call{
		id: newCallID(now), began: now, ctx: ctx, parent: p.id, step: m.Number,
		req: Request{Caller: p.req.Caller, Tool: m.Tool, Args: m.Args, Surface: p.req.Surface, Token: p.req.Token},
	}
}

// admit is hops 2 to 7 of a step. What a person answers, they answer within the
// parent's time.
func (s *steps) admit(ctx context.Context, c *call, f *flight) *capabilities.Error {
	d := s.d
	if err := d.refusals.over(c.req.Principal, c.began); err != nil {
		c.unrecorded = true // counted, not told one by one
		return err
	}
	for _, hop := range []struct {
		n  int
		do func(*call) *capabilities.Error
	}{{2, d.resolve}, {2, s.fits}, {2, d.halted}, {3, s.place}, {4, d.decide}} {
		if err := hop.do(c); err != nil {
			return err
		}
		c.ended(hop.n)
	}
	if err := d.yield(ctx, c, f); err != nil {
		return err
	}
	if c.within = s.left() - stepMargin; c.within < s.left()/2 {
		c.within = s.left() / 2
	}
	err := d.consent(ctx, c)
	if c.permit.Grant != "" {
		permit, over := c.permit, c.over
		c.over = func() { d.opts.Consent.Ended(permit); over() }
	}
	if err != nil {
		return err
	}
	leave, err := d.occupy(ctx, c, f)
	over := c.over
	c.over = func() { leave(); over() }
	if err != nil {
		return err
	}
	c.ended(6)
	return s.commit(ctx, c)
}

// fits is what a step has to be beside a valid call.
func (s *steps) fits(c *call) *capabilities.Error {
	p := s.parent
	switch {
	case !p.d.Takes(c.d):
		return capabilities.Errorf(capabilities.CodeUnknownTool, "%s takes no step of %s", p.d.Tool, c.d.Tool)
	case c.args.NodeID != "":
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "node_id: the steps of a call run where it runs").WithHint("Leave it out.")
	case s.left() <= 0:
		return &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}
	}
	c.args.NodeID = p.args.NodeID // as the parent was asked for
	c.args.Timeout = min(c.args.Timeout, s.left())
	if c.args.Purpose == "" {
		c.args.Purpose = p.args.Purpose
	}
	return nil
}

// left is what the parent has of its time.
func (s *steps) left() time.Duration { return s.parent.args.Timeout - time.Since(s.began) }

// place is hop 3: the parent's node, if it is still one for this step, and if the parent
// is still allowed what it was.
func (s *steps) place(c *call) *capabilities.Error {
	p := s.parent
	c.engine, c.taint = s.d.opts.Policy(), s.tainted()
	if err := s.standing(c.engine); err != nil {
		return err
	}
	c.node, c.routing = nodeByID(s.d.opts.Nodes.Snapshot(), p.node.ID), p.routing
	if c.node == nil {
		return &capabilities.Error{Code: capabilities.CodeNodeNotPaired}
	}
	capability := c.d.NodeCapability()
	if v := route.Check(c.node, capability, nil); !v.Eligible() {
		return (&capabilities.Error{Code: v.Code}).WithHint(v.Fix).WithDetails(map[string]any{"reason": v.Reason, "fix": v.Fix})
	}
	c.ready = c.node.Readiness[capability]
	return nil
}

// standing refuses the steps of a call that would not be allowed any more: policy has
// changed, or what a person granted it with was taken back or is over.
func (s *steps) standing(now *policy.Engine) *capabilities.Error {
	p := s.parent
	if p.permit.Grant != "" && !s.d.opts.Consent.Stands(p.permit) {
		return capabilities.Errorf(capabilities.CodeConsentDenied, "What a person granted %s with was taken back or is over, so it takes no more steps.", p.d.Tool)
	}
	if now.SnapshotID() == p.engine.SnapshotID() {
		return nil
	}
	request := p.policyRequest(p.node)
	request.Consented, request.Time = p.permit.Grant != "", time.Now()
	if v := now.Decide(request); v.Effect != policy.Allow {
		return capabilities.Errorf(capabilities.CodeDeniedByPolicy, "Policy has changed and no longer allows %s, so it takes no more steps.", p.d.Tool)
	}
	return nil
}

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
	lane := s.d.taints.of(s.parent.req.Caller)
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
func (s *steps) commit(ctx context.Context, c *call) *capabilities.Error {
	ends := s.takeEnds()
	c.along = func(tx *store.Tx) error { return s.endIn(tx, ends) }
	if err := s.d.commit(ctx, c); err != nil {
		s.giveBack(ends)
		c.unrecorded = err.Code != capabilities.CodeConsentDenied
		return err
	}
	s.told(ends)
	c.ended(7)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c.step] = c
	return nil
}

func (s *steps) ordered(number uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[number] != nil
}

// ended takes the node's word of how a step ended. It becomes durable with the next
// step's commit, or soon.
func (s *steps) ended(m *wire.StepEnd) {
	s.mu.Lock()
	c := s.open[m.Number]
	delete(s.open, m.Number)
	s.mu.Unlock()
	if c == nil {
		return // never ordered, or told twice
	}
	c.answered(time.Duration(m.Answer.DurationUS) * time.Microsecond)
	e := end{answer: m.Answer}
	r := c.conclude(e)
	if r.Untrusted {
		s.reads(c.req.Tool.Family())
	}
	body := c.endBody(&r, &e)
	c.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, stepEnd{c, r, c.draft(terminalKind(body.Status), body)})
	if s.flush == nil && !s.off {
		s.flush = time.AfterFunc(endsWait, s.writeEnds)
	}
}

func (s *steps) takeEnds() []stepEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := s.ends
	s.ends = nil
	if s.flush != nil {
		s.flush.Stop()
		s.flush = nil
	}
	return ends
}

func (s *steps) giveBack(ends []stepEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(ends, s.ends...)
	if len(s.ends) > 0 && s.flush == nil && !s.off {
		s.flush = time.AfterFunc(endsWait, s.writeEnds)
	}
}

func (s *steps) endIn(tx *store.Tx, ends []stepEnd) error {
	for i := range ends {
		f := fateEnded // no retry asks for a step
		if ends[i].r.Code == capabilities.CodeUnknownOutcome {
			f = fateUnknown
		}
		if err := s.d.endIn(tx, ends[i].c, rowOpen, ends[i].last, &ends[i].r, f); err != nil {
			return err
		}
	}
	return nil
}

func (s *steps) told(ends []stepEnd) {
	for i := range ends {
		s.d.finished(ends[i].c, &ends[i].r)
	}
}

// writeEnds makes durable what no commit has taken along. What cannot be written stays
// open: the node's journal tells it when the store works again.
func (s *steps) writeEnds() {
	s.writing.Lock()
	defer s.writing.Unlock()
	ends := s.takeEnds()
	if len(ends) == 0 {
		return
	}
	err := s.d.opts.Store.WriteTerminal(context.Background(), func(tx *store.Tx) error { return s.endIn(tx, ends) })
	if err != nil {
		s.d.opts.Log.Error("tools.dispatch.unrecorded", "hop", "record", "call", s.parent.id, "steps", len(ends), "err", err)
		for i := range ends {
			s.d.settler.watch(ends[i].c.row)
		}
	}
	s.told(ends)
}

// close records what is known when the parent has ended, and has the node's journal tell
// of the steps that it said nothing of.
func (s *steps) close() {
	s.mu.Lock()
	s.off = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	s.writeEnds()
	for _, c := range open {
		c.end()
		s.settle(c)
	}
}

// settle waits for the node's word on a step whose parent has ended.
func (s *steps) settle(c *call) {
	d := s.d
	if !d.begin() {
		return // the next process takes it up
	}
	told := d.settler.add(c.row, time.Now().Add(settleGrace))
	go func() {
		defer d.background.Done()
		if e, ok := <-told; ok {
			d.record(c, e)
		}
	}()
}

// end frees what a step holds while it is under way; idempotent.
func (c *call) end() {
	if over := c.over; over != nil {
		c.over = nil
		over()
	}
}

// isStep reports whether the call was taken by another.
func (c *call) isStep() bool { return c.parent != "" }

func refusedStep(number uint32, e *capabilities.Error) *wire.StepOrder {
	o := &wire.StepOrder{Number: number, Code: e.Code, Message: e.PublicMessage(), Hint: e.PublicHint()}
	if e.Details != nil {
		if text, err := json.Marshal(e.Details); err == nil {
			o.Details = text
		}
	}
	return o
}
