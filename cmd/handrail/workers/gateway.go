package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/consent"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

// workerGateway is the public face of a gateway for a worker of this process.
type workerGateway struct {
	cmd    *cobra.Command
	remote *remote.Gateway
	asker  *remote.Gateway // who may see questions, to say that one waits; nil: nobody
	lane   string

	requests func(capabilities.ToolID, []byte) string                   // names calls; nil: they have no names
	answer   func(ctx context.Context, question string) (string, error) // puts a question to the person; nil: nobody is there
	waits    bool                                                       // the last call that was looked at waits for a person elsewhere
	begun    bool                                                       // the editor shows the next call already
	opts     runOptions                                                 // of the worker

	opened        []capabilities.ToolID // what the turn was offered: the gateway refuses others; nil: no turn began
	lastLane      capabilities.LaneID   // of the last look at a permission …
	lastPrincipal capabilities.PrincipalID
}

var _ worker.Bound = (*workerGateway)(nil)

func (g *workerGateway) Opens(tools []capabilities.ToolID) { g.opened = tools }

func (g *workerGateway) Tools(ctx context.Context) ([]worker.Tool, error) {
	list, err := g.remote.Tools(ctx, capabilities.LaneID(g.lane))
	if err != nil {
		return nil, g.remote.Told(err)
	}
	var tools []worker.Tool
	for _, t := range list {
		if t.ModelFacing && uses(g.opts.inside, t.ID) {
			tools = append(tools, worker.Tool{
				ID: t.ID, Description: t.Description, Input: t.Input, Uses: t.Uses, From: t.Provider, Keys: t.Manifest, Reads: t.Annotations.ReadOnly,
			})
		}
	}
	return tools, nil
}

func (g *workerGateway) Call(ctx context.Context, tool capabilities.ToolID, args json.RawMessage) (capabilities.Result, error) {
	made, err := g.send(ctx, api.MakeCall{Tool: tool, Args: args})
	return made.Result, err
}

// CallCovered makes the call and the look at what covers it by one request. A call inside a job has
// its parent's bounds, and a sub-agent's worker is there before its call: they are looked at first.
func (g *workerGateway) CallCovered(ctx context.Context, tool capabilities.ToolID,
	args json.RawMessage) (capabilities.Result, worker.Cover, error) {
	g.begun = false
	if g.opts.inside != nil || isSubAgent(tool) {
		c, err := g.covers(ctx, tool, args)
		if err != nil || c.Asks {
			return capabilities.Result{}, c, err
		}
		r, err := g.Call(ctx, tool, args)
		return r, c, err
	}
	g.waits = false
	made, err := g.send(ctx, api.MakeCall{Tool: tool, Args: args, Covered: true})
	var c worker.Cover
	if p := made.Permission; p != nil {
		g.lastLane, g.lastPrincipal = p.Lane, p.Principal
		c, g.waits = coverOf(p), p.State == api.PermissionAsk
		g.begun = g.waits
	}
	return made.Result, c, err
}

// send makes a call of this worker's.
func (g *workerGateway) send(ctx context.Context, request api.MakeCall) (r api.CallMade, err error) {
	tool, args := request.Tool, request.Args
	waiting := &waiting{cmd: g.cmd, what: "waiting for " + string(tool)}
	waiting.show()
	defer waiting.hide()
	o := invoke.Options{Lane: g.lane}
	if e := g.opts.editor; e != nil {
		if !g.begun {
			e.Begins(tool, args)
		}
		o.Answer = func(ctx context.Context, a api.Approval) bool { return g.inEditor(ctx, e, a) }
		if g.waits && g.asker == nil {
			fmt.Fprintln(e, toldWhere(tool, g.remote, ""))
		}
	}
	if g.answer != nil {
		o.Answer = func(ctx context.Context, a api.Approval) bool {
			waiting.hide()
			defer waiting.show()
			return g.decide(ctx, a)
		}
		if g.waits && g.asker == nil {
			waiting.hide()
			fmt.Fprintln(g.cmd.ErrOrStderr(), toldWhere(tool, g.remote, ""))
			waiting.show()
		}
	}
	defer invoke.ShowQuestions(g.cmd, g.remote, g.asker, o, string(tool))()
	request.Lane, request.Opened = capabilities.LaneID(g.lane), g.opened
	if j := g.opts.inside; j != nil {
		request.Job, request.Claim = j.ID, j.Claim
	}
	name := ""
	if g.requests != nil {
		name = g.requests(tool, args)
		request.RequestID = capabilities.RequestID(name)
	}
	if isSubAgent(tool) {
		defer g.serve(ctx, g.lastLane)()
	}
	for {
		r = api.CallMade{}
		err = g.remote.Ask(ctx, http.MethodPost, remote.Path("calls"), request, &r)
		if err != nil || !g.staysFor(&r.Result) {
			break
		}
		if _ = pause(ctx); ctx.Err() != nil { // nobody answered yet: the identical call joins the question
			break
		}
	}
	if name != "" && errors.Is(context.Cause(ctx), errCancelled) {
		g.end(ctx, name)
	}
	if name != "" { // the next run of the job, or a new job, has names of its own
		r.Hint = strings.TrimSpace(strings.TrimSuffix(r.Hint, capabilities.AnswerKept))
	}
	return r, err
}

// staysFor reports whether a call that a person has not answered in time is made again: somebody
// may answer as long as the turn lasts. A call that the gateway keeps until then is not.
func (g *workerGateway) staysFor(r *capabilities.Result) bool {
	somebody := g.opts.wait || g.opts.inside != nil || g.opts.editor != nil || g.answer != nil
	details, _ := r.Details.(map[string]any)
	return somebody && r.Code == capabilities.CodeApprovalPending && details["task"] == nil
}

// toldWhere says where a call is permitted that waits; question "" is one whose ID is not known.
func toldWhere(tool capabilities.ToolID, g *remote.Gateway, question string) string {
	at := datadir.ForBrowser(g.Base.String()) + "/console/approvals"
	if question != "" {
		at += "/" + remote.Escape(question)
	}
	return fmt.Sprintf("A person has to permit %s: in the console, %s.", tool, at)
}

// end ends a call that a cancelled job waited for: one with a name goes on when its caller is gone.
func (g *workerGateway) end(ctx context.Context, request string) {
	ctx, over := context.WithTimeout(context.WithoutCancel(ctx), wordEvery)
	defer over()
	_ = g.remote.Ask(ctx, http.MethodDelete, remote.Path("calls", "request", request), nil, nil) // it may have ended by itself
}

// decide asks the person of this terminal about a call that waits, whom policy names approver: the
// admin of the data directory. It reports whether they were asked.
func (g *workerGateway) decide(ctx context.Context, a api.Approval) bool {
	w := g.cmd.ErrOrStderr()
	if !consent.Describe(w, a) {
		return false
	}
	line, err := g.answer(ctx, "Permit this call? [y/N] ")
	if err != nil { // it was answered elsewhere, or the turn was cancelled
		return true
	}
	answer := client.Answer{Allow: isYes(line)}
	if answer.Allow && len(a.Surface.Acknowledge) > 0 {
		line, err = g.answer(ctx, "It touches "+capabilities.Printable(strings.Join(a.Surface.Acknowledge, ", "))+". Permit that, too? [y/N] ")
		if err != nil {
			return true
		}
		answer.Allow, answer.Acknowledged = isYes(line), isYes(line)
	}
	if _, err := g.asker.Answer(ctx, a.ID, answer); err != nil && ctx.Err() == nil {
		fmt.Fprintln(w, "It cannot be answered from here: "+capabilities.Printable(err.Error()))
		return false
	}
	return true
}

// waiting is the line that counts a call's seconds.
type waiting struct {
	cmd  *cobra.Command
	what string

	mu   sync.Mutex
	stop func()
}

func (w *waiting) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop == nil {
		w.stop = terminal.ShowWaiting(w.cmd, w.what)
	}
}

func (w *waiting) hide() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}
