package runner

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// A step of a call is a call (DESIGN section 15): the gateway judges and records it before
// its ticket comes, and here it goes the way of every ticket. Only what it gives goes
// elsewhere, to the handler that took it, and its bytes leave with the parent's answer.

// steps are those of one call.
type steps struct {
	parent *run
	sink   Sink
	spool  capabilities.ArtifactSpool
}

func (r *Runner) stepsOf(parent *run, sink Sink, inv *capabilities.Invocation) *steps {
	return &steps{parent: parent, sink: sink, spool: inv.Spool}
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

// take is Invocation.Step.
func (s *steps) take(ctx context.Context, c capabilities.StepCall) (capabilities.Output, error) {
	r := s.parent.r
	tool, known := r.opts.Catalog.Get(c.Tool)
	if !known || !s.parent.tool.Takes(tool) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeUnknownTool, "%s takes no step of %s", s.parent.t.Tool, c.Tool)
	}
	order, err := s.sink.Step(ctx, wire.Step{Tool: c.Tool, Args: c.Args})
	if err != nil {
		return capabilities.Output{}, err
	}
	if order.Ticket == nil {
		return capabilities.Output{}, stepError(order.Code, order.Message, order.Hint, order.Details)
	}
	arrived := time.Now()
	out, answer := s.carryOut(ctx, order, tool, c, arrived)
	answer.DurationUS = uint64(time.Since(arrived).Microseconds())
	s.sink.StepEnded(wire.StepEnd{Number: order.Number, Answer: answer})
	if answer.Status != capabilities.StatusOK {
		return capabilities.Output{}, stepError(answer.Code, answer.Message, answer.Hint, answer.Details)
	}
	return out, nil
}

// carryOut gives what the parent's handler gets, and what both ledgers get.
func (s *steps) carryOut(ctx context.Context, order *wire.StepOrder, tool *catalog.Descriptor, c capabilities.StepCall, arrived time.Time) (capabilities.Output, wire.Answer) {
	r, t := s.parent.r, order.Ticket
	log := func() *slog.Logger {
		return r.opts.Log.With("call", t.Call, "tool", t.Tool, "lane", t.Lane, "parent", t.Parent)
	}
	if !s.fits(t, tool) {
		log().Error("call.refused", "hop", "runner", "code", capabilities.CodeTicketInvalid)
		return capabilities.Output{}, refusal(capabilities.Errorf(capabilities.CodeTicketInvalid, "the order is not for the step that was asked for"))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !r.enter(t.Call, cancel) {
		return capabilities.Output{}, refusal(&capabilities.Error{Code: capabilities.CodeTicketReplayed})
	}
	defer r.leave(t.Call)
	// What goes beyond a step's grants goes beyond its parent's, too.
	run, no := r.admit(ctx, t, arrived, log, func(cause error) { cancel(cause); s.parent.cancel(cause) })
	if no != nil {
		return capabilities.Output{}, refusal(no)
	}
	defer run.leave()
	inv := run.invocation(s.sink)
	inv.Spool = s.spool
	inv.Progress = func(capabilities.Progress) {} // how far the parent is, it says itself
	if c.Run == nil {
		c.Run = run.handler.Handle
	}
	out, answer, blobs := run.carryOut(c.Run, inv)
	out.Result, out.Effect, out.Evidence, out.Untrusted = json.RawMessage(answer.Output), answer.Effect, answer.Evidence, answer.Untrusted
	if len(blobs) == 0 {
		out.Blobs = nil
	}
	sum := sha256.Sum256(answer.Output)
	if answer.Output = nil; answer.Status == capabilities.StatusOK {
		answer.OutputSum = sum[:]
	}
	heads := answer.Blobs
	answer.Blobs = nil // the gateway could not fetch them of this call
	r.finished(log, t.Call, &answer)
	answer.Blobs = heads
	return out, answer
}

// fits reports whether a ticket is for a step that this call asked for.
func (s *steps) fits(t *wire.Ticket, tool *catalog.Descriptor) bool {
	p := s.parent.t
	return t.Parent == p.Call && t.Tool == tool.Tool && t.Capability == tool.NodeCapability() && t.Lane == p.Lane && t.Node == p.Node && !t.Held && !t.Steps
}

// stepError makes a refusal or failure of a step an error again.
func stepError(code capabilities.Code, message, hint string, details []byte) *capabilities.Error {
	e := &capabilities.Error{Code: code, Message: message, Hint: hint}
	if len(details) > 0 {
		e.Details = json.RawMessage(details)
	}
	return e
}
