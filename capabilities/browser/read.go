package browser

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	_ "image/jpeg" // to read the size of what Chrome gives
	_ "image/png"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
)

// snapshot carries out tyrum.browser.snapshot.
func snapshot(c *call) (capabilities.Output, error) {
	args := struct {
		Ref         string `json:"ref"`
		Selector    string `json:"selector"`
		MaxChars    int    `json:"max_chars"`
		Interactive bool   `json:"interactive_only"`
	}{MaxChars: 16000}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	question := struct {
		Ref         string `json:"ref,omitzero"`
		Selector    string `json:"selector,omitzero"`
		Max         int    `json:"max"`
		Interactive bool   `json:"interactive"`
		Base        int    `json:"base"`
	}{args.Ref, args.Selector, args.MaxChars, args.Interactive, c.lane.takeRefs()}
	var answer struct {
		Text    string `json:"text"`
		Omitted int    `json:"omitted"`
		Next    int    `json:"next"`
		URL     string `json:"url"`
		Title   string `json:"title"`
	}
	if _, err := c.tab.ask(c.ctx, "snapshot", question, &answer); err != nil {
		return capabilities.Output{}, err
	}
	c.lane.putRefs(answer.Next)
	result := struct {
		Snapshot  string `json:"snapshot"`
		URL       string `json:"url"`
		Title     string `json:"title"`
		Truncated bool   `json:"truncated,omitempty"`
		Omitted   int    `json:"omitted_chars,omitempty"`
	}{answer.Text, clip(answer.URL, maxURL), clip(answer.Title, maxTitle), answer.Omitted > 0, answer.Omitted}
	if answer.Omitted > 0 {
		result.Snapshot += "\n(… cut here; read a part with ref or selector, or use interactive_only or a larger max_chars)"
	}
	if strings.HasPrefix(result.URL, "data:") && len(result.URL) > maxDataURL {
		result.URL = clip(result.URL, maxDataURL) + "…"
	}
	return capabilities.Output{Result: result, Untrusted: true}, nil
}

// functionPattern recognises an expression that is a function: callers used to
// other tools pass one, and mean its call.
var functionPattern = regexp.MustCompile(`^\s*(async\s+)?(function\b|\([^()]*\)\s*=>|[A-Za-z_$][\w$]*\s*=>)`)

var errStopped = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The expression ran too long and was stopped.")

// maxValue bounds an evaluate's result before it is passed on.
const maxValue = 1 << 20

// evaluate carries out tyrum.browser.evaluate. Its wait for a promise does not
// hold the lane: a promise that never resolves ends at its own deadline while
// other calls go on.
func evaluate(c *call) (capabilities.Output, error) {
	var args struct {
		Expression string `json:"expression"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	expression := args.Expression
	if functionPattern.MatchString(expression) {
		expression = "(" + expression + "\n)()"
	}
	p := runtime.EvaluateParams{
		Expression: expression, ReturnByValue: ptr(true), AwaitPromise: ptr(true), UserGesture: ptr(true), Silent: ptr(true),
		ReplMode: ptr(strings.Contains(expression, "await")), // await at the top level
	}
	var stopAt time.Time
	if deadline, ok := c.ctx.Deadline(); ok {
		// A loop that never ends is stopped by Chrome itself.
		if left := time.Until(deadline) - 50*time.Millisecond; left > 0 {
			stopAt = time.Now().Add(left.Truncate(time.Millisecond))
			p.Timeout = runtime.TimeDelta(left.Milliseconds())
		}
	}
	sent := start(c.ctx, c.tab.s, runtime.Evaluate, p)
	c.probe = start(c.ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"}).pending
	c.release()
	res, err := sent.get(c.ctx)
	switch {
	case err != nil && c.ctx.Err() != nil && c.tab.life.Err() == nil && errors.Is(c.ctx.Err(), context.DeadlineExceeded):
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeDeadlineExceeded,
			"The expression did not finish in time: it runs on, or its promise never resolved.")
	case contextLost(err):
		return capabilities.Output{Result: value(nil), Effect: capabilities.EffectPartial,
			Evidence: "the page navigated before the expression gave a value", Untrusted: true}, nil
	case err != nil:
		var refused *protocolError
		// Chrome words the end of a script by its timeout as an internal error.
		if errors.As(err, &refused) && (strings.Contains(refused.message, "terminated") || (refused.message == "Internal error" && time.Until(stopAt) < 25*time.Millisecond)) {
			return capabilities.Output{}, errStopped
		}
		if errors.As(err, &refused) && (strings.Contains(refused.message, "reference chain") || strings.Contains(refused.message, "couldn't be returned by value")) {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeScriptFailed, "The value can not be turned into JSON.").
				WithHint("Return plain data: strings, numbers, arrays, objects.")
		}
		return capabilities.Output{}, err
	case res.ExceptionDetails != nil:
		return capabilities.Output{}, scriptError(res.ExceptionDetails)
	}
	if o := res.Result; o != nil && (o.Subtype == runtime.RemoteObjectSubtypePromise || !stopAt.IsZero() && time.Until(stopAt) < 25*time.Millisecond) {
		// Stopped while it settled: Chrome gives the promise itself, as an empty object.
		return capabilities.Output{}, errStopped
	}
	raw, err := jsonValue(res.Result)
	if err != nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{Result: value(raw), Effect: capabilities.EffectUnverifiable,
		Evidence: "the expression gave a value; what else it did was not examined", Untrusted: true}, nil
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

// jsonValue gives the value as JSON. Numbers JSON does not have come as strings.
func jsonValue(o *runtime.RemoteObject) (json.RawMessage, error) {
	switch {
	case o == nil || o.Type == runtime.RemoteObjectTypeUndefined:
		return nil, nil
	case o.UnserializableValue != "":
		quoted, err := json.Marshal(strings.TrimSuffix(string(o.UnserializableValue), "n"))
		return quoted, err
	case o.Type == runtime.RemoteObjectTypeFunction:
		return nil, capabilities.Errorf(capabilities.CodeScriptFailed, "The expression gave a function, which has no JSON value.").WithHint("Call it in the expression.")
	case len(o.Value) > maxValue:
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge, "The value is %d bytes of JSON; at most %d are given.", len(o.Value), maxValue)
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

// scriptError gives the page's exception: its first line and where it was thrown.
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
	return capabilities.Errorf(capabilities.CodeScriptFailed, "%s (line %d)", clip(text, 500), e.LineNumber+1)
}

// maxPixels bounds one image: Chrome's own limit for a surface's side, and what
// fits the blob limit.
const (
	maxSide = 16384
	maxBlob = 32 << 20
)

// screenshot carries out tyrum.browser.screenshot.
func screenshot(c *call) (capabilities.Output, error) {
	args := struct {
		Ref      string `json:"ref"`
		Selector string `json:"selector"`
		FullPage bool   `json:"full_page"`
		Format   string `json:"format"`
		Quality  int64  `json:"quality"`
	}{Format: "png", Quality: 80}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormat(args.Format), OptimizeForSpeed: ptr(true)}
	if args.Format == "jpeg" {
		p.Quality = &args.Quality
	}
	switch {
	case args.Ref != "" || args.Selector != "":
		var at aimed
		if _, err := c.tab.ask(c.ctx, "aim", aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "rect"}, &at); err != nil {
			return capabilities.Output{}, err
		}
		if at.Width < 1 || at.Height < 1 {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeElementNotFound, "The element has no area to show.")
		}
		p.Clip = &page.Viewport{X: at.X, Y: at.Y, Width: min(at.Width, maxSide), Height: min(at.Height, maxSide), Scale: 1}
		p.CaptureBeyondViewport = ptr(true)
	case args.FullPage:
		m, err := do(c.ctx, c.tab.s, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return capabilities.Output{}, err
		}
		if m.CSSContentSize != nil {
			p.Clip = &page.Viewport{Width: min(m.CSSContentSize.Width, maxSide), Height: min(m.CSSContentSize.Height, maxSide), Scale: 1}
			p.CaptureBeyondViewport = ptr(true)
		}
	}
	shot := start(c.ctx, c.tab.s, page.CaptureScreenshot, p)
	url, _, err := c.tab.placeOf(c.ctx, c.tab.where(c.ctx))
	if err != nil {
		return capabilities.Output{}, err
	}
	raw, err := shot.wait(c.ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	data, err := imageBytes(raw)
	if err != nil {
		return capabilities.Output{}, err
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The browser gave no readable image.")
	}
	result := struct {
		MIME   string `json:"mime"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
		URL    string `json:"url,omitempty"`
	}{"image/" + args.Format, size.Width, size.Height, url}
	return capabilities.Output{
		Result: result, Untrusted: true,
		Blobs: []capabilities.Blob{{Field: "bytesBase64", MIME: result.MIME, Bytes: data}},
	}, nil
}

// imageBytes takes the image out of the raw answer in one pass.
func imageBytes(raw []byte) (out []byte, err error) {
	err = scanObject(raw, func(key string, value []byte) error {
		if key != "data" || len(value) < 2 {
			return nil
		}
		encoded := value[1 : len(value)-1]
		if base64.StdEncoding.DecodedLen(len(encoded)) > maxBlob {
			return capabilities.Errorf(capabilities.CodeResultTooLarge, "The image is larger than %d MiB.", maxBlob>>20).
				WithHint("Take one element or the viewport, or use jpeg.")
		}
		out = make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
		n, err := base64.StdEncoding.Decode(out, encoded)
		out = out[:n]
		return err
	})
	if err == nil && len(out) == 0 {
		err = errMessage
	}
	return out, err
}
