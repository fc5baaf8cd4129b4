package browser

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// field is one of fill-form's, as the page script gets it.
type field struct {
	Ref      string `json:"ref,omitzero"`
	Selector string `json:"selector,omitzero"`
	Value    string `json:"value"`
	Keys     bool   `json:"keys,omitzero"`  // only make it ready for keys
	Check    bool   `json:"check,omitzero"` // only look what it holds
	Empty    bool   `json:"empty,omitzero"` // with Check: it held nothing before
	Again    bool   `json:"again,omitzero"` // it was pressed: is it set now?
	Whole    bool   `json:"whole,omitzero"` // put the text in as one edit, whatever listens to keys
}

// filled is what came of it.
type filled struct {
	refusal
	Verdict   string   `json:"verdict"`
	Secret    bool     `json:"secret"`
	Names     []string `json:"names"` // of a secret one: what its form calls it
	Press     bool     `json:"press"` // it is set by a click
	Keys      bool     `json:"keys"`  // it is ready for real input
	Keyed     bool     `json:"keyed"` // it listens to keys
	Rich      bool     `json:"rich"`
	Drawn     bool     `json:"drawn"`
	Line      bool     `json:"line"`  // such an editor of one line: nothing empties it
	Slide     bool     `json:"slide"` // keys move it
	Off       float64  `json:"off"`   // by how much, until it holds the value
	Empty     bool     `json:"empty"`
	Listed    bool     `json:"listed"` // a list of proposals belongs to it
	Away      bool     `json:"away"`   // the keys took the focus from it
	Multiline bool     `json:"multiline"`
}

// keyed, in the page's own world, lists the places of the text fields that listen
// to keys themselves. Listeners of their ancestors do not count: a framework has
// those for every page, and its fields go by input events.
const keyed = `[...Document.prototype.querySelectorAll.call(document, 'input:not([type=hidden]):not([type=checkbox]):not([type=radio]), textarea, [contenteditable]')]
	.flatMap((x, i) => { const l = getEventListeners(x); return l.keydown || l.keypress || l.keyup ? [i] : []; })`

// fillForm carries out tyrum.browser.fill-form: all fields in one trip, by real
// editing, and each is compared with what it should hold. Real input does afterwards
// what cannot be set from inside the page: boxes are clicked, and fields that listen to
// keys themselves get keys.
func fillForm(c *call) (capabilities.Output, error) {
	var args struct {
		Ref      string  `json:"ref"`
		Selector string  `json:"selector"`
		Value    *string `json:"value"`
		Fields   []field `json:"fields"`
		Snapshot string  `json:"snapshot"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	single := args.Ref != "" || args.Selector != "" || args.Value != nil
	switch {
	case single && len(args.Fields) > 0, !single && len(args.Fields) == 0:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "Give either one field with its value, or fields.")
	case single && args.Value == nil:
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "value is missing.")
	case single:
		args.Fields = []field{{Ref: args.Ref, Selector: args.Selector, Value: *args.Value}}
	}
	fields := args.Fields
	for i := range fields {
		fields[i] = field{Ref: fields[i].Ref, Selector: fields[i].Selector, Value: fields[i].Value}
		if (fields[i].Ref == "") == (fields[i].Selector == "") {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "fields[%d] needs ref or selector, one of them.", i)
		}
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.wants = args.Snapshot
	places, err := c.survey(fields)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.input()
	aim := aimArgs{Kind: "fill", Fields: fields, Keyed: places}
	if len(fields) == 1 {
		aim.Ref, aim.Selector = fields[0].Ref, fields[0].Selector
	}
	_, at, err := c.aim(aim)
	if err != nil && !single {
		err = naming("fields[0]", err)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	if len(at.Fields) != len(fields) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "The page could not be examined.").
			WithHint(examineHint)
	}
	for i := range fields {
		r := &at.Fields[i]
		if r.Secret {
			c.noteTyped(fields[i].Value, r.Names)
		}
		if err := c.finish(fields[i], r); err != nil {
			return capabilities.Output{}, err
		}
	}
	v, count, err := judgeForm(at.Fields, single)
	if err != nil {
		return capabilities.Output{}, err
	}
	if v, err = c.follow(v); err != nil {
		return capabilities.Output{}, err
	}
	out, err := c.resultWith(v, func(a acted) any {
		return struct {
			acted
			Filled int `json:"filled"`
		}{a, count}
	})
	out.Did = &capabilities.Did{Fields: count}
	return out, err
}

// survey learns, in one trip, which fields listen to keys and which are secret: what
// goes into those is hidden from then on, whatever the page does with it at once.
func (c *call) survey(fields []field) (places []int, err error) {
	w, err := c.tab.inWorld(c.ctx)
	if err != nil {
		return nil, err
	}
	asked := w.put(c.ctx, inpage.SecretsAmong, aimArgs{Kind: "fill", Fields: fields})
	res, err := devtools.Do(c.ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{
		Expression: keyed, ReturnByValue: ptr(true), Silent: ptr(true), IncludeCommandLineAPI: ptr(true),
	})
	if err == nil && res.Result != nil {
		jsonv2.Unmarshal(res.Result.Value, &places)
	}
	var secret [][]string // the names of each secret field
	if err := asked.get(c.ctx, &secret); err != nil && !contextLost(err) {
		return nil, err
	}
	for i, names := range secret {
		if names != nil && i < len(fields) {
			c.noteTyped(fields[i].Value, names)
		}
	}
	return places, nil
}

// finish does what the one trip could not.
func (c *call) finish(f field, r *filled) error {
	if code := capabilities.Code(r.Error); code == capabilities.CodeElementNotFound || code == capabilities.CodeStaleRef {
		// It may be in a frame that only another world can look into.
		_, at, err := c.aim(aimArgs{Ref: f.Ref, Selector: f.Selector, Kind: "fill", Fields: []field{f}})
		if err != nil || len(at.Fields) != 1 || at.Fields[0].Error != "" {
			return c.ctx.Err()
		}
		*r = at.Fields[0]
	}
	switch {
	case r.Press:
		if _, err := c.clickOn(f); err != nil {
			return refuse(r, err)
		}
		f.Again = true
	case r.Slide:
		if err := c.slide(f, r); err != nil {
			return refuse(r, err)
		}
		f.Check = true
	case r.Keys:
		first := *r
		if err := c.retype(f, first, false); err != nil {
			return refuse(r, err)
		}
		f.Check, f.Empty = true, r.Empty
		if err := c.judgeOne(f, r); err != nil {
			return err
		}
		if r.Verdict == "unchanged" && r.Away && !first.Rich && !first.Drawn {
			// Its first key is the page's own: it opened what took the others.
			f.Check, f.Whole = false, true
			return c.judgeOne(f, r)
		}
		if r.Verdict != "other" || !first.Rich {
			return nil
		}
		f.Check = false
		if err := c.retype(f, first, true); err != nil {
			return refuse(r, err)
		}
		f.Check = true
	default:
		return nil
	}
	return c.judgeOne(f, r)
}

// judgeOne looks what a field holds that real input finished.
func (c *call) judgeOne(f field, r *filled) error {
	_, at, err := c.aim(aimArgs{Ref: f.Ref, Selector: f.Selector, Kind: "fill", Fields: []field{f}})
	if err != nil {
		return refuse(r, err)
	}
	if len(at.Fields) == 1 {
		*r = at.Fields[0]
	}
	return nil
}

// refuse notes a coded refusal as the field's; anything else ends the call.
func refuse(r *filled, err error) error {
	e, ok := err.(*capabilities.Error)
	if !ok {
		return err
	}
	r.refusal = refusal{string(e.Code), e.PublicMessage(), e.Hint}
	return nil
}

// clickOn sets a box by a real click.
func (c *call) clickOn(f field) (verdict, error) {
	m := mouse{t: c.tab.tab, button: "left"}
	if err := m.isUp(); err != nil {
		return verdict{}, err
	}
	return c.perform(aimArgs{Ref: f.Ref, Selector: f.Selector, Kind: "click", Button: "left", Count: 1},
		func(ctx context.Context, at aimed) ([]*devtools.Pending, error) {
			return []*devtools.Pending{m.move(ctx, at.X, at.Y), m.down(ctx, at.X, at.Y, 1), m.up(ctx, at.X, at.Y, 1)}, nil
		})
}

// maxSlide bounds the keys that move a slider.
const maxSlide = 1000

// slide moves a slider of the page's own by keys: one shows how far each takes it.
func (c *call) slide(f field, r *filled) error {
	forth, back := namedKeys["ArrowRight"], namedKeys["ArrowLeft"]
	if r.Off < 0 {
		forth, back = back, forth
	}
	n := 1
	for tries := 0; r.Slide && n > 0 && tries < 6; tries++ {
		before := r.Off
		var sent []*devtools.Pending
		for range n {
			sent = c.keyboard().press(c.ctx, sent, forth)
			if err := paced(c.ctx, sent); err != nil {
				return err
			}
		}
		for _, p := range sent {
			if _, err := p.Wait(c.ctx); err != nil {
				return err
			}
		}
		if err := c.judgeOne(f, r); err != nil {
			return err
		}
		step := (before - r.Off) / float64(n)
		if step == 0 || !r.Slide {
			return nil
		}
		if step/before < 0 { // it went the other way, as in writing from right to left, or past it
			forth, back = back, forth
			step = -step
		}
		n = int(min(math.Abs(math.Round(r.Off/step)), maxSlide))
	}
	return nil
}

// retype puts a field's text in by real input, or whole, as it is pasted, where an editor
// would change what is typed. Fields after it may have taken the focus since it was made
// ready.
func (c *call) retype(f field, r filled, whole bool) error {
	f.Keys = true
	w, at, err := c.aim(aimArgs{Ref: f.Ref, Selector: f.Selector, Kind: "fill", Fields: []field{f}})
	if err != nil || len(at.Fields) != 1 || !at.Fields[0].Keys {
		return err
	}
	way := "keys"
	if !r.Keyed {
		if way, err = c.wayIn(w, f.Value); err != nil {
			return err
		}
	}
	b := c.keyboard()
	var sent []*devtools.Pending
	switch {
	case r.Line:
	case r.Drawn:
		sent = b.empty(c.ctx, sent)
	case !at.Fields[0].Empty:
		sent = b.press(c.ctx, sent, namedKeys["Backspace"]) // everything is selected
	}
	if r.Drawn && !r.Line || whole {
		if err := b.enter(c.ctx, sent, "", entry{}); err != nil {
			return err
		}
		var pasted struct {
			Taken bool `json:"taken"`
		}
		if err := w.put(c.ctx, inpage.Paste, map[string]string{"text": f.Value}).get(c.ctx, &pasted); err != nil || pasted.Taken {
			return err
		}
		return b.enter(c.ctx, nil, f.Value, entry{multiline: true, rich: r.Rich})
	}
	return b.enter(c.ctx, sent, f.Value, entry{
		keys: way == "keys", multiline: r.Multiline, rich: r.Rich, turns: turnsIn(w, r.Listed, f.Value),
	})
}

// judgeForm sums up; a field that was refused is an error that tells of the others.
func judgeForm(fields []filled, single bool) (v verdict, count int, err error) {
	v = of(allHold)
	var refused, other, lost, open []string
	var details []refusedField
	for i, r := range fields {
		name := fmt.Sprintf("fields[%d]", i)
		switch {
		case r.Error != "":
			refused = append(refused, name+": "+clipText(r.Message, 400))
			details = append(details, refusedField{i, r.Error, clipText(r.Message, 400)})
			continue
		case r.Verdict == "gone":
			v = wasReplaced.of(name).alone()
		case r.Verdict == "open":
			open = append(open, name)
		case r.Verdict == "unchanged":
			lost = append(lost, name)
		case r.Verdict == "elsewhere":
			v = isEditor.of(name).alone()
		case r.Verdict != "match" && r.Verdict != "same" && r.Verdict != "drawn":
			other = append(other, name)
		}
		count++
	}
	if len(details) > 0 {
		if single {
			return v, 0, asRefusal(fields[0].refusal)
		}
		e := asRefusal(refusal{details[0].Code, clipText(strings.Join(refused, " "), 1500), fields[details[0].Index].Hint})
		return v, count, capabilities.Errorf(e.Code, "%s %s", e.Message, others(count, len(details), len(fields))).WithHint(e.PublicHint()).
			WithDetails(struct {
				Refused []refusedField `json:"refused"`
				Filled  int            `json:"filled"`
			}{details, count})
	}
	switch changed := len(other) + len(lost); {
	case len(fields) == 1 && slices.Contains([]string{"drawn", "more", "elsewhere"}, fields[0].Verdict):
		v = judge(fields[0].Verdict, holdsValue)
	case changed == 0 && len(fields) == 1 && v.effect == capabilities.EffectConfirmed:
		v = of(holdsValue)
	case changed == 0:
	case len(fields) == 1:
		v = judge(fields[0].Verdict, holdsValue)
	case len(lost) == len(fields):
		v = of(noneChanged)
	default:
		v = verdict{effect: capabilities.EffectPartial}
		if len(other) > 0 {
			v = v.with(changedByPage.of(strings.Join(other, ", ")))
		}
		if len(lost) > 0 {
			v = v.with(takenBack.of(strings.Join(lost, ", ")))
		}
		if changed < count {
			v = v.with(evidence{cause: othersHold})
		}
	}
	if len(open) > 0 {
		if len(fields) == 1 {
			open[0] = "the field"
		}
		v = v.with(listOpen.of(strings.Join(open, ", ")))
	}
	return v, count, nil
}

type refusedField struct {
	Index   int    `json:"index"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// others words what became of the fields that were not refused.
func others(filled, refused, all int) string {
	switch {
	case all == refused:
		return "No field was filled."
	case filled == 1:
		return "The other field was filled."
	}
	return fmt.Sprintf("The other %d fields were filled.", filled)
}
