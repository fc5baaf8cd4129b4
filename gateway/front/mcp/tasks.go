package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/task"
)

// Tasks keeps calls whose clients ask after them; gateway/task implements it.
type Tasks interface {
	// Adopt makes a task of a call that runs, and End says how it ended; ending: with the gateway.
	Adopt(context.Context, task.Underway) (task.Task, error)
	End(ctx context.Context, id string, r *capabilities.Result, ending bool)
	// Task returns a task of a principal's; Await waits for its next state, with patience.
	Task(ctx context.Context, principal capabilities.PrincipalID, id string) (task.Task, error)
	Await(ctx context.Context, principal capabilities.PrincipalID, id string, patience time.Duration) (task.Task, error)
	// Result returns the result of one that is over.
	Result(ctx context.Context, t *task.Task) (*capabilities.Result, error)
	// Cancel ends one at its client's wish.
	Cancel(ctx context.Context, principal capabilities.PrincipalID, id string) error
}

// taskExtension is the extension of MCP 2026-07-28 by which a server answers a tools/call with a
// handle, and the client asks after the result.
const taskExtension = "io.modelcontextprotocol/tasks"

const (
	defaultTaskAfter = 10 * time.Second
	// taskLife is how long a task is there: the call waits so long for a person.
	taskLife = time.Hour
	// taskHold is how long tasks/get waits for news, and taskPoll when clients ask again: an answer
	// reaches one that waits at once, and one that is about to ask within a twentieth of a second.
	taskHold = 2 * time.Second
	taskPoll = 50 * time.Millisecond
)

// taskState is a task as the extension has it (its schema: Task).
type taskState struct {
	sdk.ResultBase
	ResultType string      `json:"resultType"` // "task" for a new one in place of a result
	ID         string      `json:"taskId"`
	Status     string      `json:"status"`
	Message    string      `json:"statusMessage,omitempty"`
	Created    time.Time   `json:"createdAt"`
	Updated    time.Time   `json:"lastUpdatedAt"`
	TTL        int64       `json:"ttlMs"`
	Poll       int64       `json:"pollIntervalMs"`
	Result     *taskResult `json:"result,omitempty"`
}

// taskResult is the result of a call inside its task. It says that it is complete, as each result
// of the revision does; the SDK says so only of what it sends itself.
type taskResult struct{ *sdk.CallToolResult }

// MarshalJSON returns the result as the SDK has it, with its type.
func (r *taskResult) MarshalJSON() ([]byte, error) {
	body, err := r.CallToolResult.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"resultType":"complete",`), body[1:]...), nil // content is always there
}

// taskAck acknowledges a request about a task.
type taskAck struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// taskParams are those of tasks/get, tasks/update and tasks/cancel. No task of ours asks its
// client for input, so that the input that comes with an update is for none.
type taskParams struct {
	sdk.ParamsBase
	ID string `json:"taskId"`
}

func stateOf(one *task.Task, kind string) *taskState {
	s := &taskState{
		ResultType: kind, ID: one.ID, Status: "working", Created: one.Created.UTC(), Updated: one.Created.UTC(),
		TTL: one.Expires.Sub(one.Created).Milliseconds(), Poll: taskPoll.Milliseconds(),
	}
	if !one.Changed.IsZero() {
		s.Updated = one.Changed.UTC()
	}
	switch {
	case one.Cancelled():
		s.Status, s.Message = "cancelled", "The call was cancelled."
	case one.State.Over():
		s.Status = "completed"
	case one.State == task.Running:
		s.Message = "The call runs."
	default:
		s.Message = "A person has to approve this call"
		if one.Approval != "" {
			s.Message += " (" + one.Approval + ")"
		}
		s.Message += "."
	}
	return s
}

// mayTask is where a call leaves the task that goes out in place of its result.
type mayTask struct{ task *taskState }

type mayTaskKey struct{}

func takesTask(ctx context.Context) *mayTask {
	to, _ := ctx.Value(mayTaskKey{}).(*mayTask)
	return to
}

// declares reports whether a request's client takes tasks: it says so in each request, and only
// from the revision on in which a request stands alone.
func (v *view) declares(req sdk.Request) bool {
	one, ok := req.(interface {
		ClientCapabilities() *sdk.ClientCapabilities
	})
	if post := v.s.postedOf(req.GetExtra()); !ok || v.s.opts.Tasks == nil || post == nil || !post.alone {
		return false
	}
	able := one.ClientCapabilities()
	if able == nil {
		return false
	}
	_, declared := able.Extensions[taskExtension]
	return declared
}

// offerTasks has the server answer for tasks.
func (v *view) offerTasks() {
	for method, serve := range map[string]func(context.Context, *sdk.ServerSession, *taskParams) (sdk.Result, error){
		"tasks/get": v.getTask, "tasks/update": v.updateTask, "tasks/cancel": v.cancelTask,
	} {
		// An error says that the method is one of the standard's, which these are not.
		if err := sdk.AddReceivingCustomMethod(v.server, method, serve); err != nil {
			v.s.opts.Log.Error("mcp.tasks", "method", method, "err", err)
		}
	}
	v.server.AddReceivingMiddleware(v.tasked)
}

// tasked returns the middleware that gives calls of clients that take tasks a place to leave one,
// and keeps requests about tasks from the others.
func (v *view) tasked(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch method {
		case "tools/call":
			if !v.declares(req) {
				return next(ctx, method, req)
			}
			to := &mayTask{}
			out, err := next(context.WithValue(ctx, mayTaskKey{}, to), method, req)
			if err == nil && to.task != nil {
				return to.task, nil
			}
			return out, err
		case "tasks/get", "tasks/update", "tasks/cancel":
			if post := v.s.postedOf(req.GetExtra()); post == nil || !post.alone {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "tasks are for requests of " + firstStateless + " and later"}
			}
			if !v.declares(req) {
				return nil, missesTasks()
			}
		}
		return next(ctx, method, req)
	}
}

// missesTasks says that a client has to take tasks for what it asks.
func missesTasks() error {
	needed := &sdk.ClientCapabilities{}
	needed.AddExtension(taskExtension, nil)
	data, err := json.Marshal(&sdk.MissingRequiredClientCapabilityData{RequiredCapabilities: needed})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code: sdk.CodeMissingRequiredClientCapabilities, Message: "the client has to declare " + taskExtension, Data: data,
	}
}

// callOrTask carries a call out, and returns a task in place of a result where a person is asked or
// the call runs for long.
func (v *view) callOrTask(ctx context.Context, l *life, r dispatch.Request) (capabilities.Result, *taskState) {
	began := make(chan capabilities.CallID, 1)
	ended := make(chan capabilities.Result, 1)
	r.Keep = taskLife
	r.Began = func(id capabilities.CallID) { began <- id }
	go func() { ended <- v.carry(ctx, r) }()
	long := time.NewTimer(v.s.opts.TaskAfter)
	defer long.Stop()
	late, call := false, capabilities.CallID("")
	for {
		select {
		case result := <-ended:
			if id := result.Pending().Task; id != "" && result.Code == capabilities.CodeApprovalPending {
				if one, err := v.s.opts.Tasks.Task(ctx, v.who.Principal, id); err == nil {
					return result, stateOf(&one, "task")
				}
			}
			return result, nil
		case call = <-began:
		case <-long.C:
			late = true
		}
		if late && call != "" { // what is not committed waits for its turn, and a crash would forget it
			if one := v.adopt(ctx, l, &r, call, ended); one != nil {
				return capabilities.Result{}, one
			}
			call = ""
		}
	}
}

// carry is the dispatcher's Call on a goroutine of its own.
func (v *view) carry(ctx context.Context, r dispatch.Request) (out capabilities.Result) {
	defer func() {
		if p := recover(); p != nil {
			v.s.opts.Log.Error("mcp.panic", "tool", r.Tool, "principal", r.Principal, "lane", r.Lane, "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			out = dispatch.Failed(r.Tool, "", &capabilities.Error{Code: capabilities.CodeInternal})
		}
	}()
	return v.s.opts.Dispatcher.Call(ctx, r)
}

// adopt makes a task of a call that runs. Nil: it stays what it is, as where there are too many.
func (v *view) adopt(ctx context.Context, l *life, r *dispatch.Request, call capabilities.CallID,
	ended <-chan capabilities.Result) *taskState {
	if !v.s.hold() {
		return nil
	}
	one, err := v.s.opts.Tasks.Adopt(ctx, task.Underway{
		Caller: r.Caller, Tool: r.Tool, RequestID: r.RequestID, Surface: r.Surface, Call: call, Life: taskLife, Cancel: l.cancel,
	})
	if err != nil {
		v.s.closers.Done()
		v.s.opts.Log.Warn("mcp.task", "call", call, "err", err)
		return nil
	}
	l.outlive()
	v.taskRuns(1)
	go func() {
		defer v.s.closers.Done()
		defer v.taskRuns(-1)
		result := <-ended
		l.over()
		v.s.opts.Tasks.End(context.WithoutCancel(ctx), one.ID, &result, context.Cause(v.ctx) == errEnding)
	}()
	return stateOf(&one, "task")
}

// hold has the end of the surface wait for one task more; false: it does not wait any more. The
// caller calls closers.Done.
func (s *Server) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.closers.Add(1)
	return true
}

func (v *view) taskRuns(n int) {
	v.mu.Lock()
	v.tasks += n
	v.used = v.s.opts.Now()
	v.mu.Unlock()
}

// find returns a task that this caller may ask after: its principal's own, of a tool that its token
// reaches. Another's is no task at all.
func (v *view) find(ctx context.Context, id string) (task.Task, error) {
	one, err := v.s.opts.Tasks.Task(ctx, v.who.Principal, id)
	if err == nil && (one.Role != v.caller.Role || !v.who.Reaches(one.Tool)) {
		err = &capabilities.Error{Code: capabilities.CodeNotFound}
	}
	return one, taskError(err)
}

// taskError is an error about a task as JSON-RPC has it.
func taskError(err error) error {
	switch capabilities.CodeOf(err) {
	case "":
		return nil
	case capabilities.CodeNotFound:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such task, or its time is over"}
	default:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: capabilities.AsError(err).PublicMessage()}
	}
}

func (v *view) getTask(ctx context.Context, session *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
	one, err := v.find(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	if !one.State.Over() {
		if one, err = v.s.opts.Tasks.Await(ctx, v.who.Principal, p.ID, taskHold); err != nil {
			return nil, taskError(err)
		}
	}
	out := stateOf(&one, "complete")
	if out.Status != "completed" {
		return out, nil
	}
	r, err := v.s.opts.Tasks.Result(ctx, &one)
	if err != nil {
		return nil, taskError(err)
	}
	out.Result = &taskResult{project(r, v.list.plain)}
	linkArtifacts(out.Result.CallToolResult, r, links(session))
	return out, nil
}

func (v *view) updateTask(ctx context.Context, _ *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
	if _, err := v.find(ctx, p.ID); err != nil {
		return nil, err
	}
	return &taskAck{ResultType: "complete"}, nil
}

func (v *view) cancelTask(ctx context.Context, _ *sdk.ServerSession, p *taskParams) (sdk.Result, error) {
	if _, err := v.find(ctx, p.ID); err != nil {
		return nil, err
	}
	if err := v.s.opts.Tasks.Cancel(ctx, v.who.Principal, p.ID); err != nil {
		return nil, taskError(err)
	}
	return &taskAck{ResultType: "complete"}, nil
}
