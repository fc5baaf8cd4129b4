package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

// Follow takes a task along a pipeline of a file: it declares what the router would find, and what
// the executor does. All else is as in Run (S3-33, S3-35).
func (e *Engine) Follow(ctx context.Context, p *pipeline.Pipeline, task string) (Outcome, error) {
	return e.turn(ctx, router.Found{Route: intent.To(p.Intent, 1), By: router.ByFile, Text: task}, p)
}

// only narrows a decision to what a pipeline calls. CodeUnknownTool for a tool that is not offered:
// nothing of it is begun then.
func only(d gate.Decision, p *pipeline.Pipeline, tools []Tool) (gate.Decision, error) {
	for _, id := range p.Tools() {
		if !slices.ContainsFunc(tools, func(t Tool) bool { return t.ID == id }) {
			return d, capabilities.Errorf(capabilities.CodeUnknownTool, "the pipeline needs %s, which this worker is not offered", id)
		}
	}
	return d.Only(p.Tools()), nil
}

// follow takes the steps in their order; the first that fails ends the run, and so does one that is
// kept back, unless the file says that the run goes on without it.
func (x *execution) follow(ctx context.Context, p *pipeline.Pipeline) (string, error) {
	w := &pipeline.World{Task: x.turn.Messages[0].Text, Steps: map[string]any{}}
	seen := map[string]Message{}
	var without []string
	for i := range p.Steps {
		s := &p.Steps[i]
		x.kept = nil
		out, err := x.step(ctx, s, w, seen)
		switch {
		case ctx.Err() != nil && err != nil:
			return "", err
		case x.kept != nil && s.Goes:
			if out, err = withReason(out, x.kept); err != nil {
				return "", err
			}
			without, x.last = append(without, keptBack(s.ID, x.kept)), nil
		case x.kept != nil:
			x.undone, x.last = true, x.kept
			return keptBack(s.ID, x.kept) + notBegun(p.Steps[i+1:]), nil
		case err != nil && capabilities.CodeOf(err) == capabilities.CodeInternal:
			return "", err
		case err != nil:
			x.undone, x.last = true, err
			return fmt.Sprintf("The step %s failed: %s%s", s.ID, capabilities.AsError(err).PublicMessage(), notBegun(p.Steps[i+1:])), nil
		case x.stopped != "":
			return "", nil
		}
		if err := w.Note(s.ID, out); err != nil {
			return "", err
		}
	}
	text, err := p.Output.Eval(w)
	if err != nil {
		x.undone, x.last = true, err
		return strings.Join(append(without, "The output failed: "+capabilities.AsError(err).PublicMessage()), "\n"), nil
	}
	return strings.Join(append([]string{pipeline.Text(text)}, without...), "\n"), nil
}

// keptBack says which step was kept back, and why.
func keptBack(step string, why *capabilities.Error) string {
	return fmt.Sprintf("The step %s was kept back: %s", step, why.PublicMessage())
}

// notBegun says which steps a run that ended did not come to.
func notBegun(steps []pipeline.Step) string {
	if len(steps) == 0 {
		return ""
	}
	names := make([]string, 0, len(steps))
	for _, s := range steps {
		names = append(names, s.ID)
	}
	return "\nNot begun: " + strings.Join(names, ", ")
}

// withReason is a step's result with why something of it was kept back.
func withReason(out json.RawMessage, why *capabilities.Error) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(out) > 0 {
		if err := json.Unmarshal(out, &all); err != nil {
			return nil, err
		}
	}
	reason, err := json.Marshal(why.PublicMessage())
	if err != nil {
		return nil, err
	}
	all["kept_back"] = reason
	return json.Marshal(all)
}

// step takes one step and returns what it returned.
func (x *execution) step(ctx context.Context, s *pipeline.Step, w *pipeline.World, seen map[string]Message) (json.RawMessage, error) {
	if s.Harness != nil {
		text, err := x.ask(ctx, s.Harness, w, seen)
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]string{"text": text})
	}
	args, err := s.With.Eval(w)
	if err != nil {
		return nil, err
	}
	if s.Code != "" {
		out, err := pipeline.Compute(s.Code, args)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if len(x.calls) == MaxCalls {
		x.stopped = fmt.Sprintf("%d calls are enough for one turn", MaxCalls)
		return nil, nil
	}
	x.rounds++
	x.together = nil // code chose the steps, and knows what comes before each
	if err := x.call(ctx, ToolCall{s.Tool, data}); err != nil {
		return nil, err
	}
	done := x.turn.Messages[len(x.turn.Messages)-1]
	seen[s.ID] = done
	if x.last != nil {
		return nil, x.last
	}
	return done.Result.Output, nil
}

// ask has the harness take one turn of its own: it sees its task and the results that the step
// names, and is offered the tools that the step names.
func (x *execution) ask(ctx context.Context, h *pipeline.Harness, w *pipeline.World, seen map[string]Message) (string, error) {
	task, err := h.Task.Eval(w)
	if err != nil {
		return "", err
	}
	decision := x.decision.Only(h.Tools)
	t := x.turn
	t.Messages = []Message{{Text: pipeline.Text(task)}}
	for _, id := range h.Sees {
		m := seen[id]
		m.Round = 0
		t.Messages = append(t.Messages, m)
	}
	t.Tools = gate.Filter(decision, x.turn.Tools, func(t Tool) capabilities.ToolID { return t.ID })
	own := execution{engine: x.engine, decision: decision, leases: x.leases, turn: t, calls: x.calls, before: x.before}
	text, err := own.run(ctx)
	x.calls, x.before, x.last, x.kept = own.calls, own.before, nil, own.kept
	x.rounds, x.tokens = x.rounds+own.rounds, x.tokens+own.tokens
	x.stopped = own.stopped
	switch {
	case err != nil:
		return "", err
	case own.undone:
		return "", capabilities.Errorf(capabilities.CodeExecutionFailed, "%s", text)
	case x.tokens > MaxTokens && x.stopped == "":
		x.stopped = fmt.Sprintf("%d tokens are enough for one turn", MaxTokens)
	}
	return text, nil
}
