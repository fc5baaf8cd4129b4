package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// functionPattern recognises an expression that is a function: callers used to
// other tools pass one, and mean its call.
var functionPattern = regexp.MustCompile(`^\s*(async\s+)?(function\b|\([^()]*\)\s*=>|[A-Za-z_$][\w$]*\s*=>)`)

// consolePattern recognises what may need Chrome's mode for consoles: await at the top
// level, and names that a later call declares again.
var consolePattern = regexp.MustCompile(`\b(await|let|const|class)\b`)

var errStopped = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The expression ran too long and was stopped.")

// Bounds of an evaluate's result, as JSON: before it is passed on, and what of it is
// given to who does not say how much.
const (
	maxValue     = 1 << 20
	maxValueSelf = 32 << 10
)

// evaluate carries out tyrum.browser.evaluate. Its wait for a promise does not
// hold the lane: a promise that never resolves ends at its own deadline while
// other calls go on.
func evaluate(c *call) (capabilities.Output, error) {
	var args struct {
		Expression string `json:"expression"`
		Ref        string `json:"ref"`
		MaxChars   int    `json:"max_chars"`
	}
	args.MaxChars = maxValueSelf
	if c.script {
		args.MaxChars = maxValue
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.room = args.MaxChars
	expression := args.Expression
	if args.Ref != "" {
		return c.evaluateOn(args.Ref, expression)
	}
	function := functionPattern.MatchString(expression)
	if function {
		expression = "(" + expression + "\n)()"
	}
	// That mode returns a promise as it is: then it is awaited by a second command.
	console := !function && consolePattern.MatchString(expression)
	p := runtime.EvaluateParams{
		Expression: expression, ReturnByValue: ptr(!console), AwaitPromise: ptr(true), UserGesture: ptr(true), Silent: ptr(true),
		ReplMode: ptr(console),
	}
	var stopAt time.Time
	if deadline, ok := c.ctx.Deadline(); ok {
		// A loop that never ends is stopped by Chrome itself.
		if left := time.Until(deadline) - 50*time.Millisecond; left > 0 {
			stopAt = time.Now().Add(left.Truncate(time.Millisecond))
			p.Timeout = runtime.TimeDelta(left.Milliseconds())
		}
	}
	sent := devtools.Start(c.ctx, c.tab.s, runtime.Evaluate, p)
	c.probe = devtools.Start(c.ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"}).Pending
	c.release()
	res, err := sent.Get(c.ctx)
	if o := res.Result; console && err == nil && o != nil && o.ObjectID != "" && res.ExceptionDetails == nil {
		res, err = c.awaited(o)
	}
	// Code that runs in that mode rejects; only code that does not compile throws.
	if e := res.ExceptionDetails; console && e != nil && e.Text == "Uncaught" &&
		(e.StackTrace != nil || e.Exception == nil || e.Exception.ClassName != "SyntaxError") {
		e.Text = inPromise
	}
	return c.evaluated(world{}, res, err, stopAt)
}

// evaluateOn evaluates a function of one element, in the page's own world of the
// document that the element is in.
func (c *call) evaluateOn(ref, expression string) (capabilities.Output, error) {
	w, err := c.reach(reaching{ref: ref, function: inpage.Hold, ask: func(known *outline.Former) any {
		return struct {
			Ref string          `json:"ref"`
			Was *outline.Former `json:"was,omitempty"`
		}{ref, known}
	}})
	if err != nil {
		return capabilities.Output{}, err
	}
	const group = "handrail-evaluate"
	held, err := devtools.Do(c.ctx, w.s, runtime.Evaluate,
		runtime.EvaluateParams{Expression: inpage.Held.Call(), ContextID: w.id, ObjectGroup: group, Silent: ptr(true)})
	if err != nil {
		return capabilities.Output{}, err
	}
	defer devtools.Start(c.whole, w.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
	if held.Result == nil || held.Result.ObjectID == "" {
		return capabilities.Output{}, devtools.ErrMessage
	}
	node, err := devtools.Do(c.ctx, w.s, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: held.Result.ObjectID})
	if err != nil || node.Node == nil {
		return capabilities.Output{}, err
	}
	// Without a context named, this is the world of the page itself.
	own, err := devtools.Do(c.ctx, w.s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node.Node.BackendNodeID, ObjectGroup: group})
	if err != nil || own.Object == nil {
		return capabilities.Output{}, err
	}
	function := "function(element) { return (" + expression + "\n) }"
	if functionPattern.MatchString(expression) {
		function = "function(element) { return (" + expression + "\n).call(this, element) }"
	}
	sent := devtools.Start(c.ctx, w.s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: function, ObjectID: own.Object.ObjectID, Arguments: []*runtime.CallArgument{{ObjectID: own.Object.ObjectID}},
		ReturnByValue: ptr(true), AwaitPromise: ptr(true), UserGesture: ptr(true), Silent: ptr(true),
	})
	c.probe = devtools.Start(c.ctx, w.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"}).Pending
	c.release()
	res, err := sent.Get(c.ctx)
	return c.evaluated(w, runtime.EvaluateResult(res), err, time.Time{})
}

// evaluated words what came of an expression in w's document, the tab's own where w is zero;
// stopAt is when Chrome was to stop it.
func (c *call) evaluated(w world, res runtime.EvaluateResult, err error, stopAt time.Time) (capabilities.Output, error) {
	switch {
	case err != nil && c.ctx.Err() != nil && c.tab.life.Err() == nil && errors.Is(c.ctx.Err(), context.DeadlineExceeded):
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeDeadlineExceeded,
			"The expression did not finish in time: it runs on, or its promise never resolved.")
	case contextLost(err):
		return capabilities.Output{Result: value(nil), Effect: capabilities.EffectPartial,
			Evidence: "the page navigated before the expression returned a value", Untrusted: true}, nil
	case err != nil:
		var refused *devtools.ProtocolError
		// Chrome words the end of a script by its timeout as an internal error.
		if errors.As(err, &refused) &&
			(strings.Contains(refused.Message, "terminated") || (refused.Message == "Internal error" && time.Until(stopAt) < 25*time.Millisecond)) {
			return capabilities.Output{}, errStopped
		}
		if errors.As(err, &refused) &&
			(strings.Contains(refused.Message, "reference chain") || strings.Contains(refused.Message, "couldn't be returned by value")) {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeScriptFailed, "The value cannot be turned into JSON.").
				WithHint("Return plain data: strings, numbers, arrays, objects.")
		}
		return capabilities.Output{}, err
	case res.ExceptionDetails != nil:
		return capabilities.Output{}, scriptError(res.ExceptionDetails)
	}
	if o := res.Result; o != nil &&
		(o.Subtype == runtime.RemoteObjectSubtypePromise || !stopAt.IsZero() && time.Until(stopAt) < 25*time.Millisecond) {
		// Stopped while it settled: Chrome returns the promise itself, as an empty object.
		return capabilities.Output{}, errStopped
	}
	raw, err := jsonValue(res.Result)
	if err != nil {
		return capabilities.Output{}, err
	}
	raw = c.unsaid(w, raw)
	out := capabilities.Output{Result: value(raw), Effect: capabilities.EffectUnverifiable,
		Evidence: "its effects were not examined", Untrusted: true}
	if text := string(raw); len(raw) > c.room {
		if raw[0] == '"' {
			text = devtools.StringOf(jsonv2.Value(raw))
		}
		if kept := capabilities.Clip(text, c.room); len(kept) < len(text) {
			out.Result = cutValue{clipText(text, c.room), len(text) - len(kept)}
			out.Evidence = "the value is cut: give max_chars, or ask for a part of it; its effects were not examined"
		}
	}
	return out, nil
}

// cutValue is evaluate's result where it is too long: the beginning of a text, or of
// the JSON of all else.
type cutValue struct {
	Result  string `json:"result"`
	Omitted int    `json:"omitted_chars"`
}

// awaited awaits a promise, and returns the value of what a handle stands for.
func (c *call) awaited(o *runtime.RemoteObject) (runtime.EvaluateResult, error) {
	defer devtools.Start(c.whole, c.tab.s, runtime.ReleaseObject, runtime.ReleaseObjectParams{ObjectID: o.ObjectID})
	res, err := devtools.Do(c.ctx, c.tab.s, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function() { 'use strict'; return this }", ObjectID: o.ObjectID, ReturnByValue: ptr(true), AwaitPromise: ptr(true),
		Silent: ptr(true),
	})
	return runtime.EvaluateResult(res), err
}

// value is evaluate's result; nil stands for undefined.
func value(raw json.RawMessage) any {
	if raw == nil {
		raw = json.RawMessage("null")
	}
	return struct {
		Result json.RawMessage `json:"result"`
	}{raw}
}

// jsonValue returns the value as JSON. Numbers JSON does not have come as strings.
func jsonValue(o *runtime.RemoteObject) (json.RawMessage, error) {
	switch {
	case o == nil || o.Type == runtime.RemoteObjectTypeUndefined:
		return nil, nil
	case o.UnserializableValue != "":
		quoted, err := json.Marshal(strings.TrimSuffix(string(o.UnserializableValue), "n"))
		return quoted, err
	case o.Type == runtime.RemoteObjectTypeFunction:
		return nil, capabilities.Errorf(capabilities.CodeScriptFailed, "The expression returned a function, which has no JSON value.").
			WithHint("Call it in the expression.")
	case len(o.Value) > maxValue:
		return nil,
			capabilities.Errorf(capabilities.CodeResultTooLarge, "The value is %d bytes of JSON; at most %d are given.", len(o.Value), maxValue).
				WithHint("Give a part of it, such as text.slice(0, 30000); what the expression did is done.")
	}
	return unescape(o.Value), nil
}

// unescape turns the \u escapes that Chrome uses for all but ASCII into plain
// UTF-8: text of most languages would be twice to six times as long for a model.
// Escapes of ASCII stay, and so do halves of surrogate pairs.
func unescape(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	out := make([]byte, 0, len(raw))
	unit := func(i int) (rune, bool) {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		return rune(v), err == nil
	}
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		r, ok := unit(i)
		if low, two := unit(i + 6); ok && two && utf16.DecodeRune(r, low) != utf8.RuneError {
			out = utf8.AppendRune(out, utf16.DecodeRune(r, low))
			i += 12
			continue
		}
		if ok && r >= 0x80 && !utf16.IsSurrogate(r) {
			out = utf8.AppendRune(out, r)
			i += 6
			continue
		}
		n := min(2, len(raw)-i)
		out = append(out, raw[i:i+n]...)
		i += n
	}
	return out
}

// inPromise is in Chrome's words for a rejection.
const inPromise = "(in promise)"

// scriptError returns the page's exception: its first line and where it was thrown.
func scriptError(e *runtime.ExceptionDetails) error {
	text := e.Text
	if e.Exception != nil {
		switch {
		case e.Exception.Description != "":
			text = e.Exception.Description
		case len(e.Exception.Value) > 0:
			text = "thrown: " + string(e.Exception.Value)
		}
	}
	if strings.Contains(text, "Script execution was interrupted") || strings.Contains(e.Text, "execution was terminated") {
		return errStopped
	}
	text, _, _ = strings.Cut(text, "\n")
	text = clipText(text, 500)
	line := e.LineNumber + 1
	if strings.Contains(e.Text, inPromise) {
		line-- // of a rejection Chrome counts from 1; of one without a stack it knows none
	}
	if line == 0 {
		return capabilities.Errorf(capabilities.CodeScriptFailed, "%s", text)
	}
	return capabilities.Errorf(capabilities.CodeScriptFailed, "%s (line %d)", text, line)
}
