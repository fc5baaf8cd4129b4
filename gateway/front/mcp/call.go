package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// call hands one tools/call to the dispatcher.
func (v *view) call(ctx context.Context, req *sdk.CallToolRequest, d *catalog.Descriptor) (out *sdk.CallToolResult, err error) {
	// The SDK runs calls on goroutines of its own, where net/http catches nothing:
	// a defect that one caller's input meets must not end everybody's gateway.
	defer func() {
		if p := recover(); p != nil {
			v.s.opts.Log.Error("mcp.panic", "tool", d.Tool, "principal", v.who.Principal, "lane", v.caller.Lane, "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			out, err = v.failure(d.Tool, &capabilities.Error{Code: capabilities.CodeInternal}), nil
		}
	}()
	r := dispatch.Request{Caller: v.caller, Tool: d.Tool, Args: req.Params.Arguments, Surface: "mcp", Token: v.who.TokenID}
	if id, ok := req.Params.Meta[metaRequest]; ok {
		text, _ := id.(string)
		if err := capabilities.ValidateName(metaRequest, text, 128); err != nil {
			return v.failure(d.Tool, err), nil
		}
		r.RequestID = capabilities.RequestID(text)
	}
	post := v.s.postedOf(req.Extra)
	if post != nil {
		r.Came, r.Trace = post.came, post.trace
	}
	if text, ok := req.Params.Meta[metaTrace].(string); ok { // nearer to the call than its request's header
		r.Trace = trace.Parse(text)
	}
	life := v.lifeOf(ctx, post, r.RequestID != "")
	defer life.end()
	ctx = life.ctx
	if len(r.Args) == 0 {
		r.Args = json.RawMessage(`{}`)
	}
	if token := req.Params.GetProgressToken(); token != nil {
		p := startProgress(ctx, req.Session, token)
		defer p.stop()
		r.Progress = p.report
	}
	if req.Params.RequestState != "" {
		if err := v.answered(ctx, req, d); err != nil {
			return v.failure(d.Tool, err), nil
		}
	}
	r.Elicits = v.elicits(req)
	v.s.opts.Working.Used(v.caller.Lane, d.Tool)
	var result capabilities.Result
	if to := takesTask(ctx); to != nil {
		if result, to.task = v.callOrTask(ctx, life, r); to.task != nil {
			return &sdk.CallToolResult{}, nil // the task goes out in its place
		}
	} else {
		result = v.s.opts.Dispatcher.Call(ctx, r)
	}
	v.catchUp() // a search may have found something, of which the client is told before it has the answer
	if r.Elicits {
		if ask := v.question(ctx, req, d, &result); ask != nil {
			return ask, nil
		}
	}
	out = project(&result, v.list.plain)
	linkArtifacts(out, &result, links(req.Session))
	if post != nil {
		post.answer.lift(out)
	}
	return out, nil
}

// life is how long a call lasts: it ends when the client cancels, with its session and with its
// token. A client that goes away has cancelled, too, unless it can ask again for the result
// (asks): a lost connection is then no word of its own.
type life struct {
	//lint:ignore containedctx the life of a call
	ctx    context.Context
	cancel context.CancelCauseFunc
	asks   atomic.Bool
	here   []func() bool // what ends it with the client; each is forgotten by calling it
	forget []func() bool
	kept   bool // a task's from now on
}

func (v *view) lifeOf(client context.Context, post *posted, asks bool) *life {
	l := &life{}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(client))
	l.asks.Store(asks)
	endsWith := func(one context.Context) func() bool {
		return context.AfterFunc(one, func() {
			cause := context.Cause(one)
			if v.ctx.Err() != nil { // then that is why the client's is over, too
				cause = context.Cause(v.ctx)
			}
			if l.asks.Load() && cause == errEnding {
				return // the call goes on at its node, and the next process asks there
			}
			l.cancel(cause)
		})
	}
	l.forget = append(l.forget, endsWith(v.ctx))
	// Without a session the end of the request is all that tells of the client.
	if post == nil || !post.alone || !asks {
		l.here = append(l.here, endsWith(client))
	}
	if post != nil && post.gone != nil && !asks {
		l.here = append(l.here, endsWith(post.gone))
	}
	return l
}

// outlive has the life end with its view, or by over, alone: the client asks after the call by a
// task.
func (l *life) outlive() {
	l.asks.Store(true)
	for _, f := range l.here {
		f()
	}
	l.here, l.kept = nil, true
}

// end ends the life with the request, unless it outlives that.
func (l *life) end() {
	if !l.kept {
		l.over()
	}
}

func (l *life) over() {
	for _, f := range append(l.here, l.forget...) {
		f()
	}
	l.cancel(nil)
}

func (v *view) failure(tool capabilities.ToolID, err error) *sdk.CallToolResult {
	e := capabilities.AsError(err)
	code := e.Code
	if !code.Known() {
		code = capabilities.CodeInternal
	}
	return project(&capabilities.Result{
		Tool: tool, Status: capabilities.StatusError, Code: code, Message: e.PublicMessage(), Hint: e.PublicHint(), Action: e.PublicAction(),
		Retryable: e.Passing || code.Info().Retryable, Details: e.Details,
	}, v.list.plain)
}

const maxProgressQueue = 16

// progress passes a call's progress on without ever holding the call up: a
// client that reads slowly gets the newest.
type progress struct {
	wake chan struct{}
	done chan struct{}

	mu    sync.Mutex
	queue []capabilities.Progress
	ended bool
}

func startProgress(ctx context.Context, session *sdk.ServerSession, token any) *progress {
	p := &progress{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		sent := -1.0
		for range p.wake {
			p.mu.Lock()
			queue, ended := p.queue, p.ended
			p.queue = nil
			p.mu.Unlock()
			for _, step := range queue {
				if step.Done <= sent { // MCP: each must be larger than the one before
					continue
				}
				sent = step.Done
				// Without a stream to carry it nobody waits for it.
				_ = session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
					ProgressToken: token, Progress: step.Done, Total: step.Total, Message: strings.ToValidUTF8(step.Message, "�"),
				})
			}
			if ended {
				return
			}
		}
	}()
	return p
}

// report is safe from any goroutine and does not block.
func (p *progress) report(step capabilities.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if len(p.queue) == maxProgressQueue {
		p.queue = append(p.queue[:0], p.queue[1:]...)
	}
	p.queue = append(p.queue, step)
	p.nudge()
}

func (p *progress) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stop sends what is left and ends: no progress comes after the result.
func (p *progress) stop() {
	p.mu.Lock()
	p.ended = true
	p.nudge()
	p.mu.Unlock()
	<-p.done
}
