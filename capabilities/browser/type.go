package browser

import (
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
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
		Slowly   bool   `json:"slowly"`
		Snapshot string `json:"snapshot"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.wants = args.Snapshot
	w, at, err := c.aim(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "type", Clear: args.Clear})
	if err != nil {
		return capabilities.Output{}, err
	}
	if at.Secret {
		c.noteTyped(args.Text, at.Names)
	}
	t := typing{args.Text, args.Clear, args.Submit, args.Slowly}
	if at.Bare {
		v, err := c.enterBare(w, t)
		if err != nil {
			return capabilities.Output{}, err
		}
		return c.result(v)
	}
	v, err := c.enterText(w, at, t)
	if err == nil && args.Submit {
		v, err = c.submit(w, v)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	out, err := c.result(v)
	if !at.Secret && !strings.ContainsFunc(args.Text, unicode.IsControl) { // a Tab leads on, into a password field maybe
		out.Did = &capabilities.Did{Typed: utf8.RuneCountInString(args.Text)}
	}
	return out, err
}

// typing is what goes into a field, and how.
type typing struct {
	text                  string
	clear, submit, slowly bool
}

// enterText puts the text in and compares what the field holds then.
func (c *call) enterText(w world, at aimed, t typing) (verdict, error) {
	text := t.text
	question := struct {
		Text string `json:"text"`
		Arm  bool   `json:"arm"` // observers for the Enter that follows
	}{text, t.submit}
	var answer struct {
		Verdict string `json:"verdict"`
	}
	if at.Direct {
		c.input()
		if err := w.put(c.ctx, inpage.SetField, question).get(c.ctx, &answer); err != nil {
			return verdict{}, err
		}
		return judge(answer.Verdict, holdsValue), nil
	}
	way, err := "keys", error(nil)
	if !t.slowly && !at.Veiled {
		way, err = c.wayIn(w, text)
	}
	if err != nil {
		return verdict{}, err
	}
	ctx, b := c.input(), c.keyboard()
	if way == "" && !at.End && !at.Rich && !at.Drawn && !strings.ContainsFunc(text, unicode.IsControl) {
		switch err := w.put(ctx, inpage.TypeIn, question).get(ctx, &answer); {
		case contextLost(err):
			return c.awaitNavigation(c.before, of(newDocument))
		case err != nil || answer.Verdict != "":
			return judge(answer.Verdict, holdsText), err
		}
	}
	var sent []*devtools.Pending
	if at.End {
		sent = b.press(ctx, sent, namedKeys["End"])
	}
	switch {
	case t.clear && at.Drawn && !at.Line:
		sent = b.empty(ctx, sent)
	case at.Drawn && !at.Line:
		sent = b.toEnd(ctx, sent) // its caret is its own
	case t.clear && !at.Empty && (text == "" || at.Rich): // what is selected, some editors put in brackets
		sent = b.press(ctx, sent, namedKeys["Backspace"]) // everything is selected
	}
	if err := b.enter(ctx, sent, text, entry{
		keys: way == "keys", multiline: at.Multiline, rich: at.Rich, turns: turnsIn(w, at.Listed, text),
	}); err != nil {
		return verdict{}, err
	}
	err = w.put(c.ctx, inpage.Typed, question).get(c.ctx, &answer)
	if contextLost(err) {
		return c.awaitNavigation(c.before, of(newDocument))
	}
	if err != nil {
		return verdict{}, err
	}
	return judge(answer.Verdict, holdsText), nil
}

// enterBare puts text in as keys where no field has the focus: what takes it there is the
// page's own matter, and shows it or not.
func (c *call) enterBare(w world, t typing) (verdict, error) {
	ctx, b := c.input(), c.keyboard()
	var sent []*devtools.Pending
	if t.clear {
		sent = b.empty(ctx, sent)
	}
	if err := b.enter(ctx, sent, t.text, entry{keys: true, multiline: true}); err != nil {
		return verdict{}, err
	}
	sent = nil
	if t.submit {
		sent = b.press(ctx, sent, namedKeys["Enter"])
	}
	v, _, err := c.conclude(w, sent)
	return v.after(noFieldFocus), err
}

// submit presses Enter and waits for what it starts.
func (c *call) submit(w world, typed verdict) (verdict, error) {
	c.input()
	v, _, err := c.conclude(w, c.keyboard().press(c.ctx, nil, namedKeys["Enter"]))
	if err != nil {
		return verdict{}, err
	}
	v.seen = typed.with(evidence{cause: pressedEnter}).with(v.seen...).seen
	if typed.effect != v.effect && (typed.effect != capabilities.EffectConfirmed || v.effect != capabilities.EffectConfirmed) {
		v.effect = capabilities.EffectPartial
	}
	return v, nil
}

// listens, in the page's own world, tells what anything that an event of the focused
// field passes listens to: "keys", "edits" before they are made, or nothing of both.
// getEventListeners is Chrome's, of the command line: it sees the listeners of the asked
// world only. A page that forges it deceives nobody but itself. Questions to a form go by
// its class, since a field may be called so (page/names.go).
const listens = `(() => {
	const of = (type, name) => { const get = Object.getOwnPropertyDescriptor(type.prototype, name).get; return x => get.call(x); };
	const active = of(Document, 'activeElement'), view = of(Document, 'defaultView'), owner = of(Node, 'ownerDocument');
	const kind = of(Node, 'nodeType'), parent = of(Node, 'parentNode'), slot = of(Element, 'assignedSlot');
	let a = active(document), way = '';
	for (let inner; a && (inner = a.shadowRoot ? a.shadowRoot.activeElement : a.tagName === 'IFRAME' && a.contentDocument && active(a.contentDocument));) a = inner;
	const passes = a ? [view(owner(a))] : [];
	for (let x = a; x && passes.length < 5000; x = kind(x) === 1 && slot(x) || parent(x) || kind(x) === 11 && x.host) passes.push(x);
	for (const x of passes) {
		const l = getEventListeners(x);
		if (l.keydown || l.keypress || l.keyup) return 'keys';
		if (l.beforeinput || l.textInput || l.compositionstart || l.compositionupdate || l.compositionend) way = 'edits';
	}
	return way;
})()`

// wayIn decides how text goes in: by "keys" if it is short or something listens to them,
// which is slow; in one piece as an input method's, where something listens to "edits";
// else, "", as the page script's edit, which is the fastest.
func (c *call) wayIn(w world, text string) (way string, err error) {
	if utf8.RuneCountInString(text) <= keysUpTo || w.frame != nil && w.s == c.tab.s {
		return "keys", nil // or the page's own world of that frame cannot be asked
	}
	res, err := devtools.Do(c.ctx, w.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: listens, ReturnByValue: ptr(true), Silent: ptr(true), IncludeCommandLineAPI: ptr(true),
	})
	if err != nil || res.Result == nil {
		return "edits", err
	}
	if jsonv2.Unmarshal(res.Result.Value, &way) != nil {
		way = "edits"
	}
	return way, nil
}
