package browser

import (
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// Chrome has one clipboard for all its contexts, and any input may fill it: a page's
// own copy button asks nobody. So that a lane pastes nothing of another's, a paste
// after another lane acted first puts back what this lane copied by key, or nothing.

// touched notes whose input came last.
func (c *chrome) touched(l *lane) {
	c.mu.Lock()
	c.lastInput = l
	c.mu.Unlock()
}

// pastes reports whether a chord pastes.
func (p chord) pastes() bool {
	const control, meta = 2, 4
	return p.held&(control|meta) != 0 && p.key.code == "KeyV" || p.held&shiftBit != 0 && p.key.name == "Insert"
}

// ownClipboard makes the clipboard this lane's before it pastes.
func (c *call) ownClipboard() error {
	chrome := c.tab.chrome
	chrome.mu.Lock()
	last := chrome.lastInput
	chrome.mu.Unlock()
	if last == nil || last == c.lane {
		return nil
	}
	c.lane.mu.Lock()
	text := c.lane.copied
	c.lane.mu.Unlock()
	w, err := c.tab.inWorld(c.ctx)
	if err != nil {
		return err
	}
	encoded, err := jsonv2.Marshal(text, jsonv2.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	res, err := devtools.Do(c.ctx, w.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: inpage.SetClipboard.Call(string(encoded)), ContextID: w.id,
		UserGesture: ptr(true), ReturnByValue: ptr(true), Silent: ptr(true),
	})
	if err != nil {
		return err
	}
	if res.Result == nil || string(res.Result.Value) != "true" {
		return capabilities.Errorf(capabilities.CodeExecutionFailed,
			"The clipboard may hold what another conversation copied, so nothing is pasted.").
			WithHint("Put the text in with tool.browser.type.")
	}
	return nil
}

// copiedByKey keeps what a lane copied, in memory only and as text.
func (l *lane) copiedByKey(text string) {
	l.mu.Lock()
	l.copied = text
	l.mu.Unlock()
}
