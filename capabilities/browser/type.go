package browser

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/chromedp/cdproto/domdebugger"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
)

// keysUpTo is the length up to which text is typed key by key without asking
// whether anything listens to keys: asking would cost more.
const keysUpTo = 4

// typeText carries out tyrum.browser.type: focus the field, put the text in,
// compare what the field then holds, and press Enter if asked. The text goes
// nowhere but into the page: no result, evidence, log or error holds any of it.
func typeText(c *call) (capabilities.Output, error) {
	var args struct {
		Ref      string `json:"ref"`
		Selector string `json:"selector"`
		Text     string `json:"text"`
		Submit   bool   `json:"submit"`
		Clear    bool   `json:"clear"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	w, at, err := c.aim(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "type", Clear: args.Clear})
	if err != nil {
		return capabilities.Output{}, err
	}
	if at.Secret {
		c.lane.noteTyped(args.Text)
	}
	v, err := c.enterText(w, at, args.Text, args.Clear, args.Submit)
	if err == nil && args.Submit {
		v, err = c.submit(w, v)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	out, err := c.result(v)
	if a, ok := out.Result.(acted); ok && at.Secret && args.Text != "" {
		// A form sent by GET puts its fields into the address.
		a.URL, a.Title = conceal(a.URL, args.Text), conceal(a.Title, args.Text)
		out.Result = a
	}
	return out, err
}

// enterText puts the text in and compares what the field holds then.
func (c *call) enterText(w world, at aimed, text string, clear, submit bool) (verdict, error) {
	question := struct {
		Text string `json:"text"`
		Arm  bool   `json:"arm"` // observers for the Enter that follows
	}{text, submit}
	var answer struct {
		Verdict string `json:"verdict"`
	}
	if at.Direct {
		if err := w.put(c.ctx, "setField", question).get(c.ctx, &answer); err != nil {
			return verdict{}, err
		}
		return judge(answer.Verdict, "the field holds the value"), nil
	}
	keys, err := c.wantsKeys(text)
	if err != nil {
		return verdict{}, err
	}
	var sent []*pending
	if at.End {
		sent = c.press(sent, namedKeys["End"])
	}
	if clear && text == "" && !at.Empty {
		sent = c.press(sent, namedKeys["Backspace"]) // everything is selected
	}
	if keys {
		sent = c.pressText(sent, text, at.Multiline)
	} else {
		if !at.Multiline {
			text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
		}
		sent = append(sent, start(c.ctx, c.tab.s, input.InsertText, input.InsertTextParams{Text: text}).pending)
	}
	for _, p := range sent {
		if _, err := p.wait(c.ctx); err != nil {
			return verdict{}, err
		}
	}
	before, _ := c.tab.look()
	err = w.put(c.ctx, "typed", question).get(c.ctx, &answer)
	if contextLost(err) {
		return c.arrive(before, confirmed(newDocument))
	}
	if err != nil {
		return verdict{}, err
	}
	return judge(answer.Verdict, "the field holds the text"), nil
}

// judge words what the page script found in the field.
func judge(found, match string) verdict {
	switch found {
	case "match":
		return confirmed(match)
	case "unchanged":
		return verdict{capabilities.EffectSuspectNoop, "the field did not change"}
	case "gone":
		return verdict{capabilities.EffectUnverifiable, "the page replaced the field while it was typed into"}
	}
	return verdict{capabilities.EffectPartial, "the field changed, but holds something else: its page formats or limits it"}
}

// submit presses Enter and waits for what it starts.
func (c *call) submit(w world, typed verdict) (verdict, error) {
	before, _ := c.tab.look()
	v, _, err := c.conclude(w, before, c.press(nil, namedKeys["Enter"]))
	if err != nil {
		return verdict{}, err
	}
	v.evidence = typed.evidence + "; Enter: " + v.evidence
	if typed.effect != v.effect && (typed.effect != capabilities.EffectConfirmed || v.effect != capabilities.EffectConfirmed) {
		v.effect = capabilities.EffectPartial
	}
	return v, nil
}

// focusChain, in the page's own world, lists the focused field and all that its
// key events pass. Chrome reports listeners of the asked world only; a page that
// forges this list deceives nobody but itself.
const focusChain = `(() => {
	let a = document.activeElement;
	for (let inner; a && (inner = a.shadowRoot ? a.shadowRoot.activeElement : a.tagName === 'IFRAME' && a.contentDocument && a.contentDocument.activeElement);) a = inner;
	const list = [];
	for (let x = a; x && list.length < 60; x = x.assignedSlot || x.parentElement || x.getRootNode().host) list.push(x);
	if (a) list.push(a.ownerDocument, a.ownerDocument.defaultView);
	return list;
})()`

// wantsKeys decides how text goes in: key by key if it is short or something
// listens to keys, else in one piece, which is fast.
func (c *call) wantsKeys(text string) (bool, error) {
	if utf8.RuneCountInString(text) <= keysUpTo {
		return true, nil
	}
	const group = "handrail-keys"
	res, err := do(c.ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: focusChain, ObjectGroup: group, Silent: ptr(true),
	})
	if err != nil || res.Result == nil || res.Result.ObjectID == "" {
		return false, err
	}
	defer start(c.ctx, c.tab.s, runtime.ReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: group})
	props, err := do(c.ctx, c.tab.s, runtime.GetProperties, runtime.GetPropertiesParams{ObjectID: res.Result.ObjectID, OwnProperties: ptr(true)})
	if err != nil {
		return false, err
	}
	var replies []reply[domdebugger.GetEventListenersResult]
	for _, p := range props.Result {
		if p.Value != nil && p.Value.ObjectID != "" {
			replies = append(replies, start(c.ctx, c.tab.s, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: p.Value.ObjectID}))
		}
	}
	for _, r := range replies {
		listeners, err := r.get(c.ctx)
		if err != nil {
			continue // an object without listeners of its own
		}
		for _, l := range listeners.Listeners {
			if l.Type == "keydown" || l.Type == "keypress" || l.Type == "keyup" {
				return true, nil
			}
		}
	}
	return false, nil
}

// key is one key of the keyboard.
type key struct {
	name, code string
	virtual    int64
	text       string
	shift      bool
}

var namedKeys = map[string]key{
	"Enter":     {name: "Enter", code: "Enter", virtual: 13, text: "\r"},
	"Backspace": {name: "Backspace", code: "Backspace", virtual: 8},
	"End":       {name: "End", code: "End", virtual: 35},
}

// press queues one key down and up.
func (c *call) press(sent []*pending, k key) []*pending {
	p := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown, Key: k.name, Code: k.code, WindowsVirtualKeyCode: k.virtual, Text: k.text, UnmodifiedText: k.text,
	}
	if k.shift {
		p.Modifiers = 8
	}
	if k.text == "" {
		p.Type = input.DispatchKeyEventTypeRawKeyDown
	}
	sent = append(sent, start(c.ctx, c.tab.s, input.DispatchKeyEvent, p).pending)
	p.Type, p.Text, p.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	return append(sent, start(c.ctx, c.tab.s, input.DispatchKeyEvent, p).pending)
}

// pressText queues the text key by key. What no key of the keyboard gives goes in
// as text, as an input method would put it in.
func (c *call) pressText(sent []*pending, text string, multiline bool) []*pending {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for _, r := range text {
		switch {
		case r == '\n' || r == '\r':
			if multiline {
				sent = c.press(sent, namedKeys["Enter"])
			}
		default:
			if k, ok := keyOf(r); ok {
				sent = c.press(sent, k)
			} else {
				sent = append(sent, start(c.ctx, c.tab.s, input.InsertText, input.InsertTextParams{Text: string(r)}).pending)
			}
		}
	}
	return sent
}

// punctuation gives the US keyboard's key and Shift for what is no letter or
// digit: code, virtual key code, plain and shifted character.
var punctuation = []struct {
	code         string
	virtual      int64
	plain, shift rune
}{
	{"Space", 32, ' ', 0}, {"Minus", 189, '-', '_'}, {"Equal", 187, '=', '+'}, {"BracketLeft", 219, '[', '{'},
	{"BracketRight", 221, ']', '}'}, {"Backslash", 220, '\\', '|'}, {"Semicolon", 186, ';', ':'}, {"Quote", 222, '\'', '"'},
	{"Backquote", 192, '`', '~'}, {"Comma", 188, ',', '<'}, {"Period", 190, '.', '>'}, {"Slash", 191, '/', '?'},
	{"Digit0", 48, '0', ')'}, {"Digit1", 49, '1', '!'}, {"Digit2", 50, '2', '@'}, {"Digit3", 51, '3', '#'}, {"Digit4", 52, '4', '$'},
	{"Digit5", 53, '5', '%'}, {"Digit6", 54, '6', '^'}, {"Digit7", 55, '7', '&'}, {"Digit8", 56, '8', '*'}, {"Digit9", 57, '9', '('},
}

// keyOf gives the key that types r on a US keyboard.
func keyOf(r rune) (key, bool) {
	s := string(r)
	switch {
	case r >= 'a' && r <= 'z':
		return key{s, "Key" + strings.ToUpper(s), int64(r - 'a' + 'A'), s, false}, true
	case r >= 'A' && r <= 'Z':
		return key{s, "Key" + s, int64(r), s, true}, true
	}
	for _, p := range punctuation {
		if r == p.plain || r == p.shift {
			return key{s, p.code, p.virtual, s, r == p.shift}, true
		}
	}
	return key{}, false
}

// conceal takes every spelling of a secret out of s.
func conceal(s, secret string) string {
	for _, spelling := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")} {
		if spelling != "" {
			s = strings.ReplaceAll(s, spelling, "•••")
		}
	}
	return s
}
