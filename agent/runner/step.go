package runner

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// A step of a call is a call: the gateway judges and records it before its ticket comes, and
// here it goes the way of every ticket. Only what it returns goes elsewhere, to the handler
// that took it, and its bytes leave with the parent's answer.

// steps are those of one call.
type steps struct {
	parent *started
	spool  capabilities.ArtifactSpool
}

// stepTools lists what calls of tool may take as steps on this node.
func (r *Runner) stepTools(tool *catalog.Descriptor) (list []capabilities.ToolID) {
	for _, d := range r.opts.Catalog.All() {
		if r.handlers[d.NodeCapability()] != nil && tool.Takes(d) {
			list = append(list, d.Tool)
		}
	}
	return list
}

// carryOut is Invocation.Step.
func (s *steps) carryOut(ctx context.Context, c capabilities.StepCall) (capabilities.Output, error) {
	p := s.parent
	tool, known := p.r.tool(c.Tool)
	if !known || !p.tool.Takes(tool) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeUnknownTool, "%s takes no step of %s", p.t.Tool, c.Tool)
	}
	order, err := p.sink.Step(ctx, wire.Step{Tool: c.Tool, Args: c.Args})
	if err != nil {
		return capabilities.Output{}, err
	}
	t := order.Ticket
	if t == nil {
		return capabilities.Output{}, stepError(order.Code, order.Message, order.Hint, order.Details)
	}
	step := &arrived{
		r: p.r, t: t, sink: p.sink, at: time.Now(),
		log: p.r.opts.Log.With("call", t.Call, "tool", t.Tool, "lane", t.Lane, "parent", t.Parent),
	}
	out, answer := s.serve(ctx, step, tool, c.Run)
	answer.DurationUS = uint64(time.Since(step.at).Microseconds())
	p.sink.StepEnded(wire.StepEnd{Number: order.Number, Answer: answer})
	if answer.Status != capabilities.StatusOK {
		e := stepError(answer.Code, answer.Message, answer.Hint, answer.Details)
		e.Action = answer.Action
		return capabilities.Output{}, e
	}
	return out, nil
}

// serve takes a step's ticket through the phases of every ticket from admit on, and returns
// what the parent's handler gets and what both ledgers get. do is nil for the handler's own.
func (s *steps) serve(ctx context.Context, step *arrived, tool *catalog.Descriptor, do handle) (capabilities.Output, wire.Answer) {
	refused := func(e *capabilities.Error) (capabilities.Output, wire.Answer) {
		return capabilities.Output{}, refusal(e)
	}
	if !s.ordered(step.t, tool) {
		step.log.Error("call.refused", "hop", capabilities.HopRun, "code", capabilities.CodeTicketInvalid)
		return refused(capabilities.Errorf(capabilities.CodeTicketInvalid, "the order is not for the step that was asked for"))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A step that goes beyond its grants goes beyond its parent's, too: the parent ends with it,
	// whatever its handler makes of that (S1-51).
	step.cancel = func(cause error) {
		cancel(cause)
		if e := capabilities.AsError(cause); e.Code == capabilities.CodeDriftCritical {
			s.parent.drift.CompareAndSwap(nil, e)
		}
		s.parent.cancel(cause)
	}
	if !step.r.enter(step.t.Call, cancel) {
		return refused(&capabilities.Error{Code: capabilities.CodeTicketReplayed})
	}
	defer step.r.leave(step.t.Call)
	a, no := step.admit(ctx)
	if no != nil {
		return refused(no)
	}
	defer a.leave()
	ctx, stop := a.bound(ctx)
	defer stop()
	p, no := a.place(ctx, s.parent.in)
	if no != nil {
		return refused(no)
	}
	defer p.free()
	started, no := p.start(ctx)
	if no != nil {
		return refused(no)
	}
	inv := started.invocation()
	inv.Spool = s.spool
	if started.masks() && s.spool != nil {
		inv.Spool = maskedSpool{s.spool}
	}
	inv.Progress = func(capabilities.Progress) {} // how far the parent is, it says itself
	if do == nil {
		do = started.handler.Handle
	}
	return started.answerStep(started.run(ctx, inv, do))
}

// answerStep makes what a step leaves: its output stays with the parent's handler, and the
// answer has the output's sum in its place.
func (s *started) answerStep(o output) (capabilities.Output, wire.Answer) {
	out, a := o.given, o.answer
	if len(announce(&a, out.Blobs)) == 0 {
		out.Blobs = nil
	}
	heads := a.Blobs
	a.Blobs = nil // the gateway could not fetch them of this call
	out.Result, out.Effect, out.Evidence, out.Untrusted = json.RawMessage(a.Output), a.Effect, a.Evidence, a.Untrusted
	sum := sha256.Sum256(a.Output)
	if a.Output = nil; a.Status == capabilities.StatusOK {
		a.OutputSum = sum[:]
	}
	s.finished(&a)
	a.Blobs = heads
	return out, a
}

// ordered reports whether a ticket is for a step that this call asked for.
func (s *steps) ordered(t *wire.Ticket, tool *catalog.Descriptor) bool {
	p := s.parent.t
	return t.Parent == p.Call && t.Tool == tool.Tool && t.Capability == tool.NodeCapability() && t.Lane == p.Lane && t.Node == p.Node &&
		!t.Steps
}

// stepError makes a refusal or failure of a step an error again.
func stepError(code capabilities.Code, message, hint string, details []byte) *capabilities.Error {
	e := &capabilities.Error{Code: code, Message: message, Hint: hint}
	if len(details) > 0 {
		e.Details = json.RawMessage(details)
	}
	return e
}
