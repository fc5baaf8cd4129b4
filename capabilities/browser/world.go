package browser

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
)

//go:embed page.js
var pageScript string

// worldName names our isolated world in every page.
const worldName = "handrail"

// refusal is how page.js says no.
type refusal struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

// asked is a question to page.js on its way.
type asked struct {
	t     *tab
	reply reply[runtime.EvaluateResult]
}

// inWorld gives our world of the document shown, with page.js in it. Its second
// part says whether it is known to be there.
func (t *tab) inWorld(ctx context.Context) (runtime.ExecutionContextID, error) {
	t.mu.Lock()
	world, documents := t.world, t.state.documents
	t.mu.Unlock()
	if world != 0 {
		return world, nil
	}
	made, err := do(ctx, t.s, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(t.id), WorldName: worldName})
	if err != nil {
		return 0, err
	}
	// A document restored from history kept its world and with it its refs; the
	// script then does nothing.
	res, err := do(ctx, t.s, runtime.Evaluate, runtime.EvaluateParams{Expression: pageScript, ContextID: made.ExecutionContextID, Silent: ptr(true)})
	if err != nil {
		return 0, err
	}
	if res.ExceptionDetails != nil {
		return 0, fmt.Errorf("page script: %s", res.ExceptionDetails.Text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.documents == documents {
		t.world = made.ExecutionContextID
	}
	return made.ExecutionContextID, nil
}

// put queues a call of a page.js function in a world.
func (t *tab) put(ctx context.Context, world runtime.ExecutionContextID, function string, args any) asked {
	encoded, err := jsonv2.Marshal(args, jsonv2.AllowInvalidUTF8(true))
	if err != nil {
		encoded = []byte("{}") // arguments are our own structs: can not happen
	}
	return asked{t, start(ctx, t.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: "__handrail." + function + "(" + string(encoded) + ")",
		ContextID:  world, ReturnByValue: ptr(true), AwaitPromise: ptr(true), Silent: ptr(true),
	})}
}

// get waits for the answer and decodes it. A refusal of page.js becomes a coded
// error.
func (a asked) get(ctx context.Context, into any) error {
	res, err := a.reply.get(ctx)
	if err != nil {
		return err
	}
	if res.ExceptionDetails != nil || res.Result == nil {
		text := ""
		if e := res.ExceptionDetails; e != nil && e.Exception != nil {
			text = e.Exception.Description
		}
		return capabilities.Wrap(capabilities.CodeExecutionFailed, fmt.Errorf("page script: %s", text), "The page could not be examined.")
	}
	var no refusal
	if jsonv2.Unmarshal(res.Result.Value, &no) == nil && no.Error != "" {
		e := capabilities.Errorf(capabilities.Code(no.Error), "%s", clip(no.Message, 500))
		if e.Code == capabilities.CodeExecutionFailed {
			e.Hint = "Take a snapshot and choose another element."
		}
		return e
	}
	if into == nil {
		return nil
	}
	return jsonv2.Unmarshal(res.Result.Value, into, jsonv2.AllowInvalidUTF8(true))
}

// ask calls a page.js function that has no effect until it returns, so that it
// may be asked again when the document changed under the question.
func (t *tab) ask(ctx context.Context, function string, args, into any) (runtime.ExecutionContextID, error) {
	for try := 0; ; try++ {
		world, err := t.inWorld(ctx)
		if err == nil {
			if err = t.put(ctx, world, function, args).get(ctx, into); err == nil {
				return world, nil
			}
		}
		if !contextLost(err) || try == 4 {
			return 0, err
		}
		t.mu.Lock()
		if t.world == world {
			t.world = 0
		}
		t.mu.Unlock()
		if err := t.settle(ctx); err != nil {
			return 0, err
		}
	}
}
