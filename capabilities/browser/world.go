package browser

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// refusal is how the page script says no.
type refusal struct {
	Error   string `json:"error"`
	Message string `json:"message"`
	Hint    string `json:"hint"` // where the code's own does not fit
}

// asRefusal is the page script's no as a coded error.
func asRefusal(no refusal) *capabilities.Error {
	e := capabilities.Errorf(capabilities.Code(no.Error), "%s", clipText(no.Message, 500))
	if e.Hint = no.Hint; e.Hint == "" && e.Code == capabilities.CodeExecutionFailed {
		e.Hint = "Take a snapshot and choose another element."
	}
	return e
}

// examineHint is for a page in which our own script fails.
const examineHint = "Try again; if it stays so, reload with tool.browser.navigate-back, direction reload."

// asked is a question to the page script on its way.
type asked struct {
	reply devtools.Reply[runtime.EvaluateResult]
}

// world is our isolated world in one document. It ends with the document.
type world struct {
	s      *devtools.Session // of the frame the document is in
	id     runtime.ExecutionContextID
	frame  *frame // nil: the tab's own document
	prefix string // of the refs given there
	heard  *heard
}

// inWorld returns our world of the document shown, with the page script in it.
func (t *tab) inWorld(ctx context.Context) (world, error) {
	t.mu.Lock()
	w, documents := t.world, t.state.documents
	t.mu.Unlock()
	if w.id != 0 {
		return w, nil
	}
	made, err := devtools.Do(ctx, t.s, page.CreateIsolatedWorld,
		page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(t.id), WorldName: inpage.World})
	if err != nil {
		return world{}, err
	}
	// A document restored from history kept its world and with it its refs; the
	// script then does nothing.
	res, err := devtools.Do(ctx, t.s, runtime.Evaluate,
		runtime.EvaluateParams{Expression: inpage.Script(), ContextID: made.ExecutionContextID, Silent: ptr(true)})
	if err != nil {
		return world{}, err
	}
	if err := pageFault(res); err != nil {
		return world{}, err
	}
	w = world{s: t.s, id: made.ExecutionContextID, heard: &heard{}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.documents == documents {
		t.world = w
	}
	return w, nil
}

// pageFault returns what the page script threw.
func pageFault(res runtime.EvaluateResult) error {
	if res.ExceptionDetails == nil && res.Result != nil {
		return nil
	}
	text := ""
	if e := res.ExceptionDetails; e != nil && e.Exception != nil {
		text = e.Exception.Description
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, fmt.Errorf("page script: %s", text), "The page could not be examined.").
		WithHint(examineHint)
}

// put queues a call of a function of the page script.
func (w world) put(ctx context.Context, function inpage.Function, args any) asked {
	encoded, err := jsonv2.Marshal(args, jsonv2.AllowInvalidUTF8(true))
	if err != nil {
		encoded = []byte("{}") // arguments are our own structs: cannot happen
	}
	return asked{devtools.Start(ctx, w.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: function.Call(string(encoded)),
		ContextID:  w.id, ReturnByValue: ptr(true), AwaitPromise: ptr(true), Silent: ptr(true), UserGesture: acts(function),
	})}
}

// acts is the protocol's word for a function that does what a person does; nil: it does not.
func acts(function inpage.Function) *bool {
	if function.Acts() {
		return ptr(true)
	}
	return nil
}

// get waits for the answer and decodes it. A refusal of the page script becomes a coded
// error.
func (a asked) get(ctx context.Context, into any) error {
	res, err := a.reply.Get(ctx)
	if err != nil {
		return err
	}
	if err := pageFault(res); err != nil {
		return err
	}
	var no refusal
	if jsonv2.Unmarshal(res.Result.Value, &no) == nil && no.Error != "" {
		return asRefusal(no)
	}
	if into == nil {
		return nil
	}
	return jsonv2.Unmarshal(res.Result.Value, into, jsonv2.AllowInvalidUTF8(true))
}

// ask calls a function of the page script that has no effect until it returns, so that it
// may be asked again when the document changed under the question.
func (t *tab) ask(ctx context.Context, function inpage.Function, args, into any) (world, error) {
	before, _ := t.look()
	for try := 1; ; try++ {
		w, err := t.inWorld(ctx)
		if err == nil {
			if err = w.put(ctx, function, args).get(ctx, into); err == nil {
				return w, nil
			}
		}
		if !contextLost(err) {
			return world{}, err
		}
		switch now, _ := t.look(); {
		case try >= 3 && now.documents-before.documents >= try, now.restless(before, false):
			return world{}, errRestless
		case try == 5:
			return world{}, err
		}
		t.forgetWorld(w)
		if err := t.settle(ctx); err != nil {
			return world{}, err
		}
	}
}

// ptr returns optional booleans of the protocol their address.
func ptr[T any](v T) *T { return &v }

// drawn waits until the page drew two frames.
func (t *tab) drawn(ctx context.Context) { t.tell(ctx, inpage.Drawn, struct{}{}, nil) }

// tell calls a function of the page script, and leaves answer as it is where that fails.
func (t *tab) tell(ctx context.Context, function inpage.Function, args, answer any) {
	if w, err := t.inWorld(ctx); err == nil {
		_ = w.put(ctx, function, args).get(ctx, answer)
	}
}

// forgetWorldOf drops a foreign frame's world that did not answer any more.
func (t *tab) forgetWorldOf(f *frame, w world) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.world == w {
		f.world = world{}
	}
}

// forgetWorld drops a world that did not answer any more.
func (t *tab) forgetWorld(w world) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.world == w {
		t.world = world{}
	}
}
