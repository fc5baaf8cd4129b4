package macro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// undoTime bounds the undoing of a run, whose own time may be over.
const undoTime = 60 * time.Second

// Runner carries a macro out.
type Runner struct {
	*Macro
	// Tools are those that are registered; required.
	Tools Tools
}

var _ registry.Planner = Runner{}

// Taken is one call of a run, for its caller.
type Taken struct {
	Step   string              `json:"step"`
	Tool   capabilities.ToolID `json:"tool_id"`
	Call   capabilities.CallID `json:"call_id"`
	Status capabilities.Status `json:"status"`
	Code   capabilities.Code   `json:"code,omitempty"`
}

// Failed is the Details of a macro that failed: where, and what it has done and undone.
type Failed struct {
	Step    string            `json:"step"`
	Code    capabilities.Code `json:"code"` // of the step
	Details any               `json:"details,omitempty"`
	Steps   []Taken           `json:"steps"`
	Undone  []Taken           `json:"undone,omitempty"`
	// NotUndone are steps that were to be undone and are not: a person should look.
	NotUndone []string `json:"not_undone,omitempty"`
}

// run is one call of a macro.
type run struct {
	Runner
	o         registry.Order
	w         world
	calls     int
	bytes     int
	untrusted bool
	changed   bool   // a call that is not known to read alone was carried out
	did       []deed // in order
	taken     []Taken
	seen      effects
}

// deed is a call that ended well and that something may undo.
type deed struct {
	s    *Step
	item any
	at   int
}

// Execute runs the steps in their order. The arguments of each are made when its turn comes.
func (m Runner) Execute(ctx context.Context, o registry.Order) (capabilities.Output, error) {
	w, err := begin(o.Args)
	if err != nil {
		return capabilities.Output{}, err
	}
	if o.Step == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInternal, "a macro without a way to call")
	}
	r := &run{Runner: m, o: o, w: w}
	for i := range m.Steps {
		s := &m.Steps[i]
		if err := r.step(ctx, s); err != nil {
			return r.fail(ctx, s, err)
		}
		o.Progress(capabilities.Progress{Done: float64(i + 1), Total: float64(len(m.Steps)), Message: s.ID})
	}
	out := capabilities.Output{Untrusted: r.untrusted}
	out.Effect, out.Evidence = r.sum()
	result := map[string]any{}
	if m.Output != nil {
		data, err := m.Output.eval(w)
		if err != nil {
			return r.fail(ctx, &Step{ID: "output"}, err)
		}
		result[tools.FieldData] = data
	}
	out.Result = result
	return out, nil
}

// step takes one step, whose output references find from then on.
func (r *run) step(ctx context.Context, s *Step) error {
	if s.Each == nil {
		if !holdAll(s.If, r.w) {
			r.note(s.ID, "skipped", nil)
			return nil
		}
		out, err := r.call(ctx, s)
		if err != nil {
			return err
		}
		r.note(s.ID, "ok", out)
		return r.expect(s)
	}
	found, err := s.Each.eval(r.w)
	if err != nil {
		return err
	}
	list, ok := found.([]any)
	switch {
	case !ok:
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "what each goes over is no list")
	case len(list) > s.Most:
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "the list has %d items, and the step takes at most %d", len(list), s.Most)
	}
	items := make([]any, len(list))
	defer func() { delete(r.w, "item"); delete(r.w, "index") }()
	for i, item := range list {
		r.w["item"], r.w["index"] = item, float64(i)
		if !holdAll(s.If, r.w) {
			continue
		}
		if items[i], err = r.call(ctx, s); err != nil {
			return err
		}
	}
	r.note(s.ID, "ok", map[string]any{"items": items})
	return r.expect(s)
}

func holdAll(tests []Test, w world) bool {
	return !slices.ContainsFunc(tests, func(t Test) bool { return !t.holds(w) })
}

func (r *run) note(id, status string, out any) {
	step := map[string]any{"status": status}
	if out != nil {
		step["output"] = out
	}
	r.w["steps"].(map[string]any)[id] = step
}

func (r *run) expect(s *Step) error {
	for i := range s.Expect {
		if !s.Expect[i].holds(r.w) {
			return capabilities.Errorf(capabilities.CodeExecutionFailed, "it was expected that %s", s.Expect[i].String())
		}
	}
	return nil
}

// call makes one call of a step and returns its output.
func (r *run) call(ctx context.Context, s *Step) (any, error) {
	if r.calls >= MaxCalls {
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "a macro makes at most %d calls", MaxCalls)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, ended(ctx)
	}
	args, err := s.args(r.w)
	if err != nil {
		return nil, err
	}
	r.calls++
	result := r.o.Step(ctx, registry.Nested{Tool: s.Tool, Args: args})
	r.taken = append(r.taken, takenBy(s.ID, &result))
	r.untrusted = r.untrusted || result.Untrusted
	if result.Status != capabilities.StatusOK {
		return nil, refused(&result)
	}
	r.seen.add(s.ID, result.Effect)
	if d, ok := r.Tools(s.Tool); !ok || d.SideEffects != catalog.EffectsNone {
		r.changed = true
	}
	if s.Undo != nil {
		at, _ := r.w["index"].(float64)
		r.did = append(r.did, deed{s, r.w["item"], int(at)})
	}
	out := map[string]any{}
	if len(result.Output) > 0 {
		if err := json.Unmarshal(result.Output, &out); err != nil {
			return nil, capabilities.AsError(err)
		}
	}
	r.bytes += len(result.Output)
	for _, b := range result.Blobs {
		r.bytes += len(b.Bytes)
		out[b.Field] = captured(b.Bytes)
	}
	if r.bytes > maxOutput {
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "the steps returned more than %d bytes in all", maxOutput)
	}
	return out, nil
}

func takenBy(step string, r *capabilities.Result) Taken {
	return Taken{Step: step, Tool: r.Tool, Call: r.Call, Status: r.Status, Code: r.Code}
}

// refused is a step's result as an error.
func refused(r *capabilities.Result) error {
	return &capabilities.Error{Code: r.Code, Message: r.Message, Hint: r.Hint, Action: r.Action, Details: r.Details, Passing: r.Retryable}
}

// ended is why the run is over before its steps were.
func ended(ctx context.Context) *capabilities.Error {
	var on *capabilities.Error
	if errors.As(context.Cause(ctx), &on) {
		return on
	}
	return &capabilities.Error{Code: capabilities.CodeCancelled}
}

// fail undoes what was done and says where the run failed. While nothing was changed the step's
// error is the macro's: what waits for a person, say, is then called again as it is. After that
// no code may invite to a repetition, which would begin with the first step. The effect is then
// partial: a part of the macro was carried out, and the evidence names it.
func (r *run) fail(ctx context.Context, s *Step, err error) (left capabilities.Output, _ error) {
	cause := capabilities.AsError(err)
	if ctx.Err() != nil {
		cause = ended(ctx)
	}
	f := Failed{Step: s.ID, Code: capabilities.CodeOf(err), Steps: r.taken}
	if own := capabilities.AsError(err); own.Details != nil {
		f.Details = own.Details
	}
	f.Undone, f.NotUndone = r.undo(ctx, cause.Code)
	out := *cause
	out.Message = fmt.Sprintf("The step %s of the macro failed: %s", s.ID, cause.PublicMessage())
	out.Hint, out.Action = cause.PublicHint(), cause.PublicAction()
	if cause.Code == capabilities.CodeApprovalPending && !r.changed {
		return left, &out // with what it waits for
	}
	out.Details = f
	if !r.changed && len(f.NotUndone) == 0 {
		return left, &out
	}
	left.Effect, left.Evidence = capabilities.EffectPartial, partly(&f)
	switch cause.Code {
	case capabilities.CodeUnknownOutcome, capabilities.CodeCancelled, capabilities.CodeStopped, capabilities.CodeUnauthenticated,
		capabilities.CodeDeadlineExceeded:
	default:
		out.Code = capabilities.CodeExecutionFailed
	}
	out.Passing = false
	out.Hint = "Details say which steps were carried out and which of them were undone. Look at that before you call it again: it begins " +
		"with its first step."
	if len(f.NotUndone) > 0 {
		out.Message += " Not undone: " + strings.Join(f.NotUndone, ", ") + "."
	}
	return left, &out
}

// undo makes the calls that undo what was done, the last first. After a stop and for a caller
// who is not let in any more nothing is called.
func (r *run) undo(ctx context.Context, why capabilities.Code) (undone []Taken, left []string) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), undoTime, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	defer cancel()
	for _, d := range slices.Backward(r.did) {
		r.w["item"], r.w["index"] = d.item, float64(d.at)
		args, err := d.s.Undo.args(r.w)
		if err != nil || why == capabilities.CodeStopped || why == capabilities.CodeUnauthenticated {
			left = append(left, d.s.ID)
			continue
		}
		result := r.o.Step(ctx, registry.Nested{Tool: d.s.Undo.Tool, Args: args, Undo: true})
		undone = append(undone, takenBy(d.s.ID, &result))
		if result.Status != capabilities.StatusOK {
			left = append(left, d.s.ID)
		}
	}
	return undone, left
}
