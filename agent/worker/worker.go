package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/agent/worker/gate"
	"github.com/handrail-dev/handrail/agent/worker/hook"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/memory"
	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/turn"
)

// Bounds of a turn.
const (
	MaxRounds = 12
	MaxCalls  = 32
	MaxTime   = 10 * time.Minute
	MaxResult = 256 << 10 // bytes of a result that a harness sees
	MaxTokens = 500_000   // that a model may read and write, all rounds together
	maxBefore = 64 << 10  // bytes of the conversation before a turn that a harness sees
)

// Tool is what a harness may call.
type Tool struct {
	ID          capabilities.ToolID
	Description string
	Input       json.RawMessage // JSON schema
	// Uses are the tools that a macro or a sub-agent may call; a turn may call one that calls nothing
	// which the turn itself may not call.
	Uses []capabilities.ToolID
	// From is the provider that it is imported from; empty: it is built in. A turn may call an
	// imported one whose keys its intent opens (S3-13).
	From  string
	Keys  []string
	Reads bool // its provider says that it only reads
}

// Gateway is the way to tools: the public face of a gateway, as this worker's principal.
type Gateway interface {
	Tools(ctx context.Context) ([]Tool, error)
	// Covers says what covers any call of a tool. It carries nothing out.
	Covers(ctx context.Context, tool capabilities.ToolID) (Cover, error)
	// CallCovered makes one call if a live grant or a rule covers it, and says which. Where neither
	// does, the cover asks: there was no call, and nobody was asked. A call that policy denies is
	// refused by the gateway, in its own words and record. The result has what came of the call, an
	// error says that there is none.
	CallCovered(ctx context.Context, tool capabilities.ToolID, args json.RawMessage) (capabilities.Result, Cover, error)
	// Call makes one call, about which a person may be asked.
	Call(ctx context.Context, tool capabilities.ToolID, args json.RawMessage) (capabilities.Result, error)
}

// A Bound is a gateway that is told which tools a turn was offered, and refuses others (S2-20).
type Bound interface {
	Opens(tools []capabilities.ToolID)
}

// Message is one of a conversation: the person's, or what a call returned.
type Message struct {
	Text   string               // the person's words
	Call   *ToolCall            // a call of the harness …
	Result *capabilities.Result // … and what it returned: data, never instructions
	Round  int                  // the round in which the call was made, from 1; 0: in no round of this turn
}

// Said is one line of the conversation before a turn.
type Said struct {
	Person bool // else the worker's answer
	Text   string
}

// ToolCall is a call that a harness wants made.
type ToolCall struct {
	Tool capabilities.ToolID
	Args json.RawMessage // an object
}

// Turn is what a harness gets.
type Turn struct {
	Intent   intent.Name
	Before   []Said // the end of the conversation before this turn, in order; no results of calls
	Messages []Message
	Tools    []Tool // all that it may call
	Memory   []Fact // what is remembered that has words of the message; data, never instructions
	Keeps    bool   // there is a memory: what the person asks to remember is kept after the turn
}

// Made returns what the turn's own calls returned, in order: not the results of earlier steps that
// a step of a pipeline is shown.
func Made(t Turn) []Message {
	return slices.DeleteFunc(slices.Clone(t.Messages), func(m Message) bool { return m.Round == 0 })
}

// Withheld reports whether a call was made well, and its result is kept from the harness: by a hook
// of the person's own, or because it is too long. Its message says why.
func Withheld(r *capabilities.Result) bool {
	return r.Status == capabilities.StatusOK && len(r.Output) == 0 && r.Message != ""
}

// Answer is what a harness returns: calls to make, or else the text that ends the turn.
type Answer struct {
	Text   string
	Calls  []ToolCall
	Undone bool // Text says why nothing was done, or what was left
	Tokens int  // that a model read and wrote for it; 0 if it does not say
	Cut    bool // the model reached its own bound: Text may lack its end
}

// Harness is one agentic turn, a round at a time: messages and tools in, text or calls out. It
// decides nothing about what it may call (S2-02).
type Harness interface {
	Next(ctx context.Context, t Turn) (Answer, error)
}

// Options of New.
type Options struct {
	Gateway Gateway        // required
	Router  *router.Router // required
	Harness Harness        // required
	Memory  Memory         // default: nothing is remembered
	Record  Record         // default: no turn is recorded
	Hooks   *hook.Hooks    // the person's own; default: none
	Permits Permits        // default: nobody is asked before the executor
	// Waits says that a call which nothing covers is made all the same, where the gateway then asks a
	// person about it; default: such a call is skipped (S2-27, S2-32).
	Waits bool
	// Agree asks the person whether a fact is kept that is private or that the answer proposed;
	// default: nobody can be asked, and it is not.
	Agree   func(ctx context.Context, fact string, private bool) (bool, error)
	Session string // names the conversation in events
	// Within is how long one turn may take; default MaxTime.
	Within time.Duration
	// Tell is told each event, in order, by the goroutine that runs the turn; default: none.
	Tell func(Event)
	// Done is told how each turn of a message ended that asks for several things; default: nobody.
	Done func(Outcome)
	Now  func() time.Time // default time.Now
}

// Engine runs the turns of one conversation, one at a time.
type Engine struct {
	opts   Options
	lines  []memory.Line // what was said, the newest last
	talk   []Said        // the same for the harness, without results
	stages []turn.Stage  // of the turn that runs, as they are recorded
	turnID string        // of the turn that runs, by which it is recorded; "": it is not
	began  time.Time     // the turn that runs
	deaf   bool          // the gateway is one of before, which knows no turns that run
	// telling has the gateway know the turn that runs; nil: it does not.
	telling *telling
	last    string // ID of the fact that was kept last
}

// New makes an engine.
func New(o Options) (*Engine, error) {
	if o.Gateway == nil || o.Router == nil || o.Harness == nil {
		return nil, errors.New("worker: Options.Gateway, Router and Harness are required")
	}
	if o.Tell == nil {
		o.Tell = func(Event) {}
	}
	if o.Within == 0 {
		o.Within = MaxTime
	}
	if o.Done == nil {
		o.Done = func(Outcome) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Engine{opts: o}, nil
}

// Outcome is how a turn ended.
type Outcome struct {
	Unrecorded error       `json:"-"` // why the gateway has no record of the turn
	Text       string      `json:"text"`
	Intent     intent.Name `json:"intent"`
	Ask        string      `json:"ask,omitempty"`     // what the person should say more clearly; nothing was done
	Stopped    string      `json:"stopped,omitempty"` // why the turn was cut off
	Last       error       `json:"-"`                 // why the last call that failed did, if the text is about that
	Undone     bool        `json:"undone,omitempty"`  // Text says why nothing was done, or what was left
	Calls      []Called    `json:"calls,omitempty"`   // in order
	Memory     []Noted     `json:"memory,omitempty"`  // what came of each wish to remember or to forget
	// Steps are the turns of a message that asks for several things, one after the other; the rest
	// of an Outcome is then of all of them, and its Intent and what went wrong of the last that was
	// begun.
	Steps []Outcome `json:"steps,omitempty"`
	Left  []string  `json:"left,omitempty"` // what was not begun, because a turn before it did not come to its end
}

// Run takes one message through the pipeline; one that asks for several things turn by turn, each
// with the tools and permissions of its own intent alone. The first that goes wrong is the last.
func (e *Engine) Run(ctx context.Context, message string) (Outcome, error) {
	steps := e.opts.Router.Steps(ctx, message)
	if len(steps) == 1 {
		return e.turn(ctx, steps[0], nil)
	}
	var all Outcome
	for i, found := range steps {
		out, err := e.turn(ctx, found, nil)
		all.add(out)
		if err == nil && i+1 < len(steps) && (out.Undone || out.Stopped != "" || out.Last != nil) {
			for _, left := range steps[i+1:] {
				all.Left = append(all.Left, left.Text)
			}
		}
		if err == nil {
			e.opts.Done(out)
		}
		if err != nil || len(all.Left) > 0 {
			return all, err
		}
	}
	return all, nil
}

// add puts a turn behind those before it.
func (o *Outcome) add(next Outcome) {
	steps := append(o.Steps, next)
	text := strings.Trim(o.Text+"\n\n"+next.Text, "\n")
	next.Text, next.Calls, next.Memory = text, slices.Concat(o.Calls, next.Calls), slices.Concat(o.Memory, next.Memory)
	next.Unrecorded = errors.Join(o.Unrecorded, next.Unrecorded)
	*o = next
	o.Steps = steps
}

// errTime is why the context of a turn ended whose time is over.
var errTime = errors.New("the time of the turn is over")

// turn takes a route through the stages after the router; along a pipeline, if there is one.
func (e *Engine) turn(ctx context.Context, found router.Found, along *pipeline.Pipeline) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.opts.Within, errTime)
	defer cancel()
	p := Pipeline{Timestamp: e.opts.Now(), Session: e.opts.Session}
	e.stages, e.turnID = nil, e.newTurnID()
	defer e.hush()
	e.announces(ctx, p.Timestamp)
	e.tell(StageRouter, found)
	p.Pipeline.Router.Intent, p.Pipeline.Router.Confidence = found.Intent, found.Confidence
	if found.Ask != "" {
		// Unclear: the person says it more clearly. Nothing is opened meanwhile.
		e.end(&p)
		return Outcome{Intent: found.Intent, Ask: found.Ask, Unrecorded: e.record(ctx, p.Timestamp)}, nil
	}

	fails := func(err error) (Outcome, error) { // before the executor
		e.end(&p)
		return Outcome{Intent: found.Intent, Unrecorded: e.record(ctx, p.Timestamp)}, err
	}
	remembered, err := e.prefetch(ctx, found)
	if err != nil {
		return fails(fmt.Errorf("what is remembered: %w", err))
	}
	tools, err := e.opts.Gateway.Tools(ctx)
	if err != nil {
		return fails(fmt.Errorf("the gateway's tools: %w", err))
	}
	decision := gate.Decide(found.Route, asGated(tools)...)
	if along != nil {
		if decision, err = only(decision, along, tools); err != nil {
			return fails(err)
		}
	}
	permitted := gate.Filter(decision, tools, toolID)
	tools = nearest(found.Text, permitted)
	offered := make([]capabilities.ToolID, 0, len(tools))
	for _, t := range tools {
		offered = append(offered, t.ID)
	}
	decision = decision.Without(leftOut(permitted, offered)) // of many imported tools a turn has the nearest
	if b, ok := e.opts.Gateway.(Bound); ok {
		b.Opens(offered)
	}
	e.tell(StagePolicy, Decided{decision, offered, idsOf(remembered)})
	p.Pipeline.Policy.Allowed, p.Pipeline.Policy.Permissions = decision.Allowed, decision.Required

	t := Turn{
		Intent: found.Intent, Before: e.talk, Messages: []Message{{Text: found.Text}}, Tools: tools, Memory: remembered,
		Keeps: e.opts.Memory != nil,
	}
	leases, err := e.permit(ctx, t, along)
	if err != nil {
		return fails(fmt.Errorf("permissions: %w", err))
	}
	defer func() { _ = e.revoke(ctx, leases) }() // again, if the turn did not come to its end
	x := execution{engine: e, decision: decision, leases: leases, turn: t}
	text, err := "", error(nil)
	if along != nil {
		text, err = x.follow(ctx, along)
	} else {
		text, err = x.run(ctx)
	}
	after := ctx
	if err != nil && errors.Is(context.Cause(ctx), errTime) {
		x.stopped, err = fmt.Sprintf("%s are enough for one turn", capabilities.Spoken(e.opts.Within)), nil
		late, over := context.WithTimeout(context.WithoutCancel(ctx), maxRecording)
		defer over()
		after = late
	}
	p.Pipeline.Executor.ToolCalls, p.Pipeline.Executor.RoundTrips = x.calls, x.rounds
	e.tell(StageResponse, Responded{text, x.rounds, x.tokens, x.stopped})
	out := Outcome{Text: text, Intent: found.Intent, Stopped: x.stopped, Last: x.last, Undone: x.undone, Calls: x.calls}
	if err == nil {
		e.say(found, &x, text)
		out.Memory, err = e.remember(after)
		p.Pipeline.PostHooks.MemoryWrites = writes(out.Memory)
	}
	if found.Intent == intent.MemoryWrite && e.opts.Memory != nil && len(out.Memory) == 0 && text == "" && err == nil {
		out.Text, out.Undone = "There is nothing that I could remember in that. Say: remember that …", true
	}
	p.Pipeline.PostHooks.PermissionsRevoked = e.revoke(ctx, leases)
	e.tell(StageCleanup, Cleaned{p.Pipeline.PostHooks.PermissionsRevoked})
	e.end(&p)
	out.Unrecorded = e.record(ctx, p.Timestamp)
	return out, err
}

func (e *Engine) tell(s Stage, body any) { e.tellAt(e.opts.Now(), s, body) }

// tellAt tells of what was at a time before.
func (e *Engine) tellAt(at time.Time, s Stage, body any) {
	event := Event{s, at, body}
	e.stages = append(e.stages, stageOf(event))
	if s != StagePipeline {
		e.announce()
	}
	e.opts.Tell(event)
}

func (e *Engine) end(p *Pipeline) {
	if p.Pipeline.Executor.ToolCalls == nil {
		p.Pipeline.Executor.ToolCalls = []Called{}
	}
	if p.Pipeline.Policy.Allowed == nil {
		p.Pipeline.Policy.Allowed, p.Pipeline.Policy.Permissions = []capabilities.ToolID{}, []gate.Capability{}
	}
	e.tell(StagePipeline, *p)
}

// execution is the third stage of one turn.
type execution struct {
	engine   *Engine
	decision gate.Decision
	turn     Turn
	rounds   int
	tokens   int
	calls    []Called
	stopped  string
	undone   bool
	leases   *Leases // what the person said before the executor
	last     error
	kept     *capabilities.Error // why the last call that was kept back was, or what it returned
	before   string              // the call that was made last: tool and canonical arguments
	together []made              // calls of the answer that is carried out
}

// made is a call that reached the gateway.
type made struct {
	tool capabilities.ToolID
	args any // decoded
}

func (x *execution) run(ctx context.Context) (string, error) {
	for x.rounds < MaxRounds {
		x.rounds++
		answer, err := x.engine.opts.Harness.Next(ctx, x.turn)
		if err != nil {
			return "", err
		}
		x.tokens += answer.Tokens
		if answer.Cut {
			x.stopped = "the model reached its own bound"
		}
		if len(answer.Calls) == 0 {
			x.undone = answer.Undone
			return answer.Text, nil
		}
		if x.tokens > MaxTokens {
			x.stopped = fmt.Sprintf("%d tokens are enough for one turn", MaxTokens)
			return answer.Text, nil
		}
		x.together = nil
		for _, call := range answer.Calls {
			if len(x.calls) == MaxCalls {
				x.stopped = fmt.Sprintf("%d calls are enough for one turn", MaxCalls)
				return answer.Text, nil
			}
			if err := x.call(ctx, call); err != nil {
				return answer.Text, err
			}
		}
	}
	x.stopped = fmt.Sprintf("%d rounds are enough for one turn", MaxRounds)
	return "", nil
}

// call makes one call and shows the harness what came of it.
func (x *execution) call(ctx context.Context, call ToolCall) error {
	began := x.engine.opts.Now()
	done := Called{Tool: call.Tool, Args: call.Args}
	result, err := x.carryOut(ctx, call)
	if err != nil && ctx.Err() != nil && result.Tool != "" { // what it did so far is done
		done.Status = StatusCancelled
		done.DurationMS = float64(x.engine.opts.Now().Sub(began).Microseconds()) / 1000
		x.calls = append(x.calls, done)
		x.engine.tell(StageToolCall, done)
	}
	if err != nil {
		return err
	}
	done.Call, done.Status, done.Code, done.Why = result.Call, string(result.Status), result.Code, result.Message
	done.Effect, done.Evidence, done.Result = result.Effect, result.Evidence, result
	if result.Call == "" {
		done.Status = "refused"
	}
	x.last = nil
	if result.Status != capabilities.StatusOK {
		x.last = capabilities.Errorf(result.Code, "%s", result.Message).WithHint(result.Hint)
	}
	done.DurationMS = float64(x.engine.opts.Now().Sub(began).Microseconds()) / 1000
	x.calls = append(x.calls, done)
	x.engine.tell(StageToolCall, done)
	if len(result.Output) > MaxResult {
		result.Output = nil
		result.Message = fmt.Sprintf("the result has more than %d bytes", MaxResult)
		x.kept = capabilities.Errorf(capabilities.CodeResultTooLarge, "%s", result.Message)
	}
	x.turn.Messages = append(x.turn.Messages, Message{Call: &call, Result: &result, Round: x.rounds})
	return nil
}

// carryOut asks the gateway, unless the call is none that this turn may make.
func (x *execution) carryOut(ctx context.Context, call ToolCall) (capabilities.Result, error) {
	if !x.decision.Allows(call.Tool) {
		return refuse(call.Tool, capabilities.CodeDeniedByPolicy, "this turn may not use that tool"), nil
	}
	args, err := canonical.Decode(call.Args, canonical.Limits{})
	if err != nil {
		return refuse(call.Tool, capabilities.CodeInvalidArguments, "the arguments are no JSON object"), nil
	}
	for _, earlier := range x.together {
		if why := gate.Conflict(earlier.tool, call.Tool, earlier.args, args.Interface()); why != "" {
			refusal := refuse(call.Tool, capabilities.CodeConflict, fmt.Sprintf("it conflicts with %s of the same answer: %s", earlier.tool, why))
			refusal.Hint = "Look at that call's result first, then make this one."
			return refusal, nil
		}
	}
	canon := args.Append(nil)
	same := string(call.Tool) + " " + string(canon)
	if same == x.before {
		return refuse(call.Tool, capabilities.CodeInvalidRequest, "the same call was made just before"), nil
	}
	x.before = same
	if why, err := x.hook(ctx, hook.Event{When: hook.Before, ID: call.Tool, Input: canon}); why != "" || err != nil {
		refusal := refuse(call.Tool, capabilities.CodeDeniedByPolicy, "a hook refuses it: "+why)
		refusal.Hint = "Change the hook, or do it another way."
		x.keepsBack(&refusal)
		return refusal, err
	}
	result, skipped, err := x.covered(ctx, call.Tool, canon)
	if err != nil {
		return capabilities.Result{Tool: call.Tool}, err
	}
	if skipped {
		x.keepsBack(&result)
		return result, nil
	}
	x.together = append(x.together, made{call.Tool, args.Interface()})
	why, err := x.hook(ctx, hook.Event{When: hook.After, ID: call.Tool, Input: canon, Output: result.Output})
	if why != "" { // the call was made: its record and its status stay
		result.Output, result.Blobs, result.Message = nil, nil, "a hook keeps the result back: "+why
	}
	if result.Status == capabilities.StatusDenied || Withheld(&result) {
		x.keepsBack(&result)
	}
	return result, err
}

// keepsBack notes a call that was not permitted, or whose result the harness does not get.
func (x *execution) keepsBack(r *capabilities.Result) {
	code := r.Code
	if code == "" {
		code = capabilities.CodeDeniedByPolicy
	}
	x.kept = capabilities.Errorf(code, "%s", r.Message).WithHint(r.Hint)
}

func (x *execution) hook(ctx context.Context, e hook.Event) (refused string, err error) {
	e.Session = x.engine.opts.Session
	return x.engine.opts.Hooks.Run(ctx, e)
}

func refuse(tool capabilities.ToolID, code capabilities.Code, why string) capabilities.Result {
	return capabilities.Result{Tool: tool, Status: capabilities.StatusDenied, Code: code, Message: why}
}
