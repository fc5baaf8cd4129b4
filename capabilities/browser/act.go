package browser

import (
	"context"
	"errors"
	"time"

	"github.com/chromedp/cdproto/input"

	"github.com/handrail-dev/handrail/capabilities"
)

// How an action is performed. Every action has three parts and usually two trips
// to the page:
//
//  1. aim (page/aim.js, one trip): find the element, scroll it into view, wait out a
//     running animation, test that it is what would be hit, refuse with the reason
//     if not; then arm observers for what the input will start.
//  2. input: real input events, all queued at once behind each other.
//  3. outcome, queued right behind the input: it answers at the first evidence the
//     page shows (mutation, value, focus, scroll, …), while this side watches for
//     what only Chrome can tell (navigation, request, dialog, new tab). If nothing
//     shows for a while after the event was seen, the action is a suspected no-op.
//     Nothing is slept through.

// aimArgs is the question of part 1.
type aimArgs struct {
	Ref      string    `json:"ref,omitzero"`
	Selector string    `json:"selector,omitzero"`
	Kind     string    `json:"kind"` // click, type or rect
	Button   string    `json:"button,omitzero"`
	Count    int       `json:"count,omitzero"`
	Position *position `json:"position,omitzero"`
	Clear    bool      `json:"clear,omitzero"`
}

type position struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// aimed is its answer: where to click, and of a field how to type into it.
type aimed struct {
	X         float64 `json:"x"`
	Y         float64 `json:"y"`
	Width     float64 `json:"width"`
	Height    float64 `json:"height"`
	Secret    bool    `json:"secret"`    // a password or code: nothing of it may be shown
	Direct    bool    `json:"direct"`    // a date, colour or slider: set, not typed
	End       bool    `json:"end"`       // the caret has to be moved to the end by key
	Empty     bool    `json:"empty"`     // the field holds nothing
	Multiline bool    `json:"multiline"` // a line break is part of the text
}

// Bounds of part 3: how long the page may take to report the input event, and
// how long after it something may still show.
const (
	eventWait = 1500 * time.Millisecond
	quietWait = 55 * time.Millisecond
	// navigationWait bounds the wait for a new document once one is on its way.
	navigationWait = 10 * time.Second
)

// outcomeOf is the answer of part 3.
type outcomeOf struct {
	Found     string `json:"found"` // the first evidence, one of page/outcome.js's fixed phrases
	Missed    bool   `json:"missed"`
	Seen      bool   `json:"seen"`
	Handled   bool   `json:"handled"` // the page took the event for itself
	Navigates bool   `json:"navigates"`
}

// verdict is what an action was seen to do.
type verdict struct {
	effect   capabilities.Effect
	evidence string
}

func confirmed(evidence string) verdict { return verdict{capabilities.EffectConfirmed, evidence} }

// page gives the lane's tab, ready to be worked with, and binds the call to its
// life.
func (c *call) page() error {
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return err
	}
	c.bindTo(t)
	return t.settle(c.ctx)
}

// bindTo makes the call end with the tab.
func (c *call) bindTo(t *tab) {
	c.tab = t
	c.unbind()
	c.ctx, c.unbind = t.bind(c.ctx)
}

// aim is part 1. It gives the world of the document that the element is in, and
// its place in the tab's viewport.
func (c *call) aim(a aimArgs) (w world, at aimed, err error) {
	w, err = c.tab.ask(c.ctx, "aim", a, &at)
	return w, at, err
}

// perform runs the three parts; fire queues the input. A press that the page
// dodged is aimed anew.
func (c *call) perform(a aimArgs, fire func(ctx context.Context, at aimed) []*pending) (verdict, error) {
	for try := 0; ; try++ {
		w, at, err := c.aim(a)
		if err != nil {
			return verdict{}, err
		}
		before, _ := c.tab.look()
		v, missed, err := c.conclude(w, before, fire(c.ctx, at))
		if err != nil || !missed {
			return v, err
		}
		if try == 2 {
			return verdict{}, capabilities.Errorf(capabilities.CodeElementObscured, "The element moved away or was covered at each of three tries.")
		}
	}
}

// conclude is part 3: it waits for the input's outcome in the page and in what
// Chrome reports.
func (c *call) conclude(w world, before tabState, sent []*pending) (v verdict, missed bool, err error) {
	asked := w.put(c.ctx, "outcome", map[string]int64{
		"wait": eventWait.Milliseconds(), "quiet": quietWait.Milliseconds(),
	})
	var seen outcomeOf
	for done := false; !done; {
		now, changed := c.tab.look()
		if v, ok := c.reported(before, now); ok {
			v, err = c.arrive(before, v)
			return v, false, err
		}
		select {
		case <-asked.reply.done:
			err := asked.get(c.ctx, &seen)
			if contextLost(err) {
				v, err = c.arrive(before, confirmed(newDocument))
				return v, false, err
			}
			if err != nil {
				return verdict{}, false, err
			}
			done = true
		case <-changed:
		case <-c.ctx.Done():
			return verdict{}, false, c.ctx.Err()
		}
	}
	if seen.Missed {
		return verdict{}, true, nil
	}
	for _, p := range sent {
		if _, err := p.wait(c.ctx); err != nil {
			if contextLost(err) {
				continue
			}
			return verdict{}, false, err
		}
	}
	if seen.Navigates {
		// The page is bound to leave; whether by a new document or by its own script,
		// the next moments tell.
		c.tab.awaitFor(c.ctx, 500*time.Millisecond, func(s tabState) bool { return departed(before, s) })
	}
	now, _ := c.tab.look()
	if v, ok := c.reported(before, now); ok {
		v, err = c.arrive(before, v)
		return v, false, err
	}
	switch {
	case seen.Found != "":
		return confirmed(seen.Found), false, nil
	case !seen.Seen:
		return verdict{capabilities.EffectUnverifiable, "the page did not report the event in time"}, false, nil
	case seen.Handled:
		return verdict{capabilities.EffectUnverifiable, "the page took the event, and nothing visible changed"}, false, nil
	}
	return verdict{capabilities.EffectSuspectNoop, "the element got the event, and nothing changed"}, false, nil
}

// departed reports that a document is, or was, on its way.
func departed(before, now tabState) bool {
	return now.started != before.started || now.documents != before.documents
}

// reported gives the evidence that Chrome itself brought, the most telling first.
func (c *call) reported(before, now tabState) (verdict, bool) {
	switch {
	case now.dialogs != before.dialogs:
		return confirmed("the page opened a " + now.dialog), true
	case now.downloads != before.downloads:
		return refusedDownload, true
	case departed(before, now):
		return confirmed(newDocument), true
	case now.opened != before.opened:
		return confirmed("a new tab was opened"), true
	case now.choosers != before.choosers:
		return confirmed("a file chooser was opened"), true
	case now.inPage != before.inPage:
		return confirmed("the address changed"), true
	case now.requests != before.requests:
		return confirmed("the page sent a request"), true
	}
	return verdict{}, false
}

const newDocument = "a new document was opened"

var refusedDownload = verdict{capabilities.EffectPartial, "a download started and was refused"}

// arrive waits, bounded, until a document that is on its way is there, so that
// the next call meets the new page, and corrects the verdict if none came.
func (c *call) arrive(before tabState, v verdict) (verdict, error) {
	c.tab.awaitFor(c.ctx, navigationWait, func(s tabState) bool { return s.navigating == "" })
	if err := c.ctx.Err(); err != nil {
		return v, err
	}
	now, _ := c.tab.look()
	switch {
	case v.evidence != newDocument || now.documents != before.documents:
	case now.downloads != before.downloads:
		v = refusedDownload
	case now.navigating != "":
		v = verdict{capabilities.EffectPartial, "a navigation started; its document has not arrived yet"}
	default:
		v = verdict{capabilities.EffectPartial, "a navigation started, but gave no document"}
	}
	return v, nil
}

// awaitFor is await with a bound of its own; it reports whether cond held.
func (t *tab) awaitFor(ctx context.Context, bound time.Duration, cond func(tabState) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return t.await(ctx, cond) == nil
}

// acted is the result of actions.
type acted struct {
	URL   string `json:"url,omitempty"`
	Title string `json:"title,omitempty"`
}

// result gives an action's output with the address the tab has now.
func (c *call) result(v verdict) (capabilities.Output, error) {
	url, title, err := c.tab.placeOf(c.ctx, c.tab.where(c.ctx))
	if err != nil {
		if c.ctx.Err() != nil && errors.Is(context.Cause(c.tab.life), errTabClosed) {
			// The action closed its own tab; that is an effect, not a failure.
			return capabilities.Output{Result: acted{}, Effect: v.effect, Evidence: "the tab closed itself"}, nil
		}
		return capabilities.Output{}, err
	}
	return capabilities.Output{Result: acted{url, title}, Effect: v.effect, Evidence: v.evidence, Untrusted: true}, nil
}

// click carries out tyrum.browser.click.
func click(c *call) (capabilities.Output, error) {
	args := struct {
		Ref       string    `json:"ref"`
		Selector  string    `json:"selector"`
		Button    string    `json:"button"`
		Modifiers []string  `json:"modifiers"`
		Position  *position `json:"position"`
		Count     int       `json:"count"`
	}{Button: "left", Count: 1}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	aim := aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "click", Button: args.Button, Count: args.Count, Position: args.Position}
	v, err := c.perform(aim, func(ctx context.Context, at aimed) []*pending {
		mouse := input.DispatchMouseEventParams{
			Type: input.DispatchMouseEventTypeMouseMoved, X: at.X, Y: at.Y, Modifiers: modifiers(args.Modifiers), PointerType: input.DispatchMouseEventPointerTypeMouse,
		}
		sent := []*pending{start(ctx, c.tab.s, input.DispatchMouseEvent, mouse).pending}
		mouse.Button = input.MouseButton(args.Button)
		for i := 1; i <= args.Count; i++ {
			mouse.ClickCount = int64(i)
			mouse.Type, mouse.Buttons = input.DispatchMouseEventTypeMousePressed, buttonBits[args.Button]
			sent = append(sent, start(ctx, c.tab.s, input.DispatchMouseEvent, mouse).pending)
			mouse.Type, mouse.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
			sent = append(sent, start(ctx, c.tab.s, input.DispatchMouseEvent, mouse).pending)
		}
		return sent
	})
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.result(v)
}

var buttonBits = map[string]int64{"left": 1, "right": 2, "middle": 4}

// modifiers gives the protocol's bits.
func modifiers(names []string) (bits int64) {
	for _, name := range names {
		switch name {
		case "Alt":
			bits |= 1
		case "Control":
			bits |= 2
		case "Meta":
			bits |= 4
		case "Shift":
			bits |= 8
		}
	}
	return bits
}
