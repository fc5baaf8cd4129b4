package browser

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// How an action is performed. A tool (click.go, hover.go, drag.go, keys.go, type.go)
// takes the tab with page, which refuses if a dialog holds it up, and calls perform.
// An action has three parts and usually two trips to the page:
//
//  1. aim (page/aim.js, one trip): find the element, in whatever frame or shadow root
//     (reach.go); scroll it into view, wait out a running animation, test that it is
//     what would be hit, refuse with the reason if not; in a frame, wait until it was
//     shown once; then arm observers for what the input will start (watch, in
//     page/outcome.js), which also keep the page from opening other programs.
//  2. input: real events of Chrome's, trusted by the page, all queued at once behind
//     each other. The pointer's coming needs no frame of its own: the press that
//     follows it brings it along. A press that reaches something else, because the
//     page moved the element away meanwhile, is swallowed and aimed anew.
//  3. outcome, queued right behind the input: it answers at the first evidence the
//     page shows (mutation, value, focus, scroll, …; a change that comes after the
//     event's own tasks has to be one that does not come again, decision 102), while
//     awaitOutcome watches for what only Chrome can tell (navigation, request, dialog, new
//     tab, download, file chooser). If nothing shows for quietWait after the event was
//     seen, the action is a suspected no-op. Nothing is slept through. Requests that the
//     action began are waited for with what they change (follows.go).
//
// The action ends in a verdict (evidence.go): its effect and the causes that were seen, which
// phrase.go words. An effect is confirmed; suspected_noop; partial where less happened than
// asked; unverifiable where the page took the event and kept what it does to itself, as a
// canvas does, or changes all the time. result (acted.go) adds the address, an open dialog,
// downloads, the tabs that were opened, a script's exception where nothing else happened, and
// a snapshot if it was asked for.
//
// Fields are another way (fill.go, choose.go, type.go; page/field.js): the page script
// edits them itself, as real editing, and judges what they hold then. Text goes in as
// keys where something listens to keys, else in one piece. Editors that draw elsewhere what
// they hold have page/editor.js.
//
// Every wait for the page ends when the page opens a dialog, when the tab goes, and at
// the deadline: c.ctx is bound to all three. After the input was fired (input), the
// first two are the action's own effect, and cutShort makes an output of them. Keys and
// buttons that were pressed come up again, whatever happened between.

// aimArgs is the question of part 1.
type aimArgs struct {
	Ref      string   `json:"ref,omitzero"`
	Selector string   `json:"selector,omitzero"`
	X        *float64 `json:"x,omitempty"`
	Y        *float64 `json:"y,omitempty"`
	// Kind says what for: rect and place only look; type, fill and choose are about
	// fields; key about the keyboard; click, down, up, hover, wheel and drag about
	// the pointer.
	Kind     string    `json:"kind"`
	Button   string    `json:"button,omitzero"`
	Count    int       `json:"count,omitzero"`
	Position *position `json:"position,omitzero"`
	Clear    bool      `json:"clear,omitzero"`
	Values   []string  `json:"values,omitzero"` // choose: labels or values
	Fields   []field   `json:"fields,omitzero"` // fill: all that are in one document
	Keyed    []int     `json:"keyed,omitzero"`  // fill: the places of fields that listen to keys
}

type position struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// aimed is its answer: where to click, and of a field how to type into it.
type aimed struct {
	X         float64  `json:"x"`
	Y         float64  `json:"y"`
	Width     float64  `json:"width"`
	Height    float64  `json:"height"`
	Secret    bool     `json:"secret"`    // a password or code: nothing of it may be shown
	Names     []string `json:"names"`     // of such a field: what a form calls it
	Bare      bool     `json:"bare"`      // no field has the focus: the text goes in as keys
	Direct    bool     `json:"direct"`    // a date, colour or slider: set, not typed
	End       bool     `json:"end"`       // the caret has to be moved to the end by key
	Empty     bool     `json:"empty"`     // the field holds nothing
	Multiline bool     `json:"multiline"` // a line break is part of the text
	Rich      bool     `json:"rich"`      // it is an editor of rich text
	Drawn     bool     `json:"drawn"`     // an editor draws elsewhere what it holds
	Veiled    bool     `json:"veiled"`    // nobody can tell whether it listens to keys
	Moved     bool     `json:"moved"`     // it was scrolled into view
	ScrollX   float64  `json:"scroll_x"`  // how far the document is scrolled, beside a rectangle
	ScrollY   float64  `json:"scroll_y"`
	Drop      bool     `json:"drop"`    // files are to be dropped on it
	Foreign   bool     `json:"foreign"` // a frame is there that only another world can look into

	Verdict  string   `json:"verdict"`  // choose: what the list holds then
	Selected []string `json:"selected"` // choose: its labels
	Key      string   `json:"key"`      // choose: selects it
	Fields   []filled `json:"fields"`   // fill: of each field
}

// Bounds of part 3: how long the page may take to report the input event.
const (
	eventWait = 1500 * time.Millisecond
	// boundToCome bounds the wait for what Chrome has every reason to report next:
	// it takes so long only on a machine that has no time for it.
	boundToCome = 3 * time.Second
	// hangWait is how long a frame may take to say what an input did that it had, and a page
	// that opened a tab to go on.
	hangWait = 5 * time.Second
	// navigationWait bounds the wait for a new document once one is on its way.
	navigationWait = 10 * time.Second
)

// outcomeOf is the answer of part 3.
type outcomeOf struct {
	Found     string `json:"found"` // the first evidence, one of pageCauses; empty: none
	Missed    bool   `json:"missed"`
	Seen      bool   `json:"seen"`
	Handled   bool   `json:"handled"` // the page took the event for itself
	Canvas    bool   `json:"canvas"`  // a canvas got it
	Ticks     bool   `json:"ticks"`   // something changes again and again
	Ticked    bool   `json:"ticked"`  // and did so before the input
	Outside   bool   `json:"outside"` // the page was kept from opening another program
	Navigates bool   `json:"navigates"`
	Chooses   bool   `json:"chooses"` // a field for files was clicked
	Stayed    bool   `json:"stayed"`  // all that a drag changed is how what was dragged is marked
	Copied    string `json:"copied"`  // by key; it goes no further than clipboard.go
	Place     *there `json:"place"`   // by key: Chrome need not be asked for it
}

// there is what the page itself says of where it is.
type there struct {
	URL   string `json:"url"`
	Title string `json:"title"`
}

// page returns the lane's tab, ready to be worked with, and binds the call to its
// life.
func (c *call) page() error {
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return err
	}
	c.bindTo(t)
	if d := c.stopped(); d != nil {
		return d.refusal()
	}
	if err := c.heldUpByOther(); err != nil {
		return err
	}
	return t.settle(c.ctx)
}

// bindTo makes the call end with the tab, and its waits for the page with a
// dialog.
func (c *call) bindTo(t *tab) {
	c.tab = t
	c.unbind()
	whole, unbind := bind(c.outer, t.life)
	ctx, release := bind(whole, t.freedom())
	c.whole, c.ctx = whole, ctx
	c.unbind = func() { release(); unbind() }
}

// perform runs the three parts; fire queues the input. A press that the page
// dodged is aimed anew.
func (c *call) perform(a aimArgs, fire func(ctx context.Context, at aimed) ([]*devtools.Pending, error)) (verdict, error) {
	for try := 0; ; try++ {
		w, at, err := c.aim(a)
		if err != nil {
			return verdict{}, err
		}
		sent, err := fire(c.input(), at)
		if err != nil {
			return verdict{}, err
		}
		v, missed, err := c.conclude(w, sent)
		if err != nil || !missed {
			return v, err
		}
		if try == 2 {
			return verdict{}, capabilities.Errorf(capabilities.CodeElementObscured, "The element moved away or was covered at each of three tries.").
				WithHint("Wait until the page has come to rest, with tool.browser.wait-for, and try again.")
		}
	}
}

// input notes that what is sent from now on acts on the page.
func (c *call) input() context.Context {
	c.before, _ = c.tab.look()
	c.logged = c.tab.console.last()
	if !c.fired {
		c.sent, c.polls = c.tab.network.last(), c.tab.network.inFlight()
	}
	c.fired = true
	c.tab.chrome.touched(c.lane)
	return c.ctx
}

// conclude is part 3: it waits for the input's outcome in the page and in what
// Chrome reports. missed: the input reached something else.
func (c *call) conclude(w world, sent []*devtools.Pending) (v verdict, missed bool, err error) {
	before := c.before
	c.stayed = false
	seen, v, err := c.awaitOutcome(w, sent)
	if err != nil || len(v.seen) > 0 {
		return v, false, err
	}
	c.stayed = seen.Stayed
	if seen.Missed {
		return verdict{}, true, nil
	}
	if seen.Copied != "" {
		c.lane.copiedByKey(seen.Copied)
	}
	for _, p := range sent {
		if _, err := p.Wait(c.ctx); err != nil && !contextLost(err) {
			return verdict{}, false, err
		}
	}
	if seen.Navigates {
		// The page is bound to leave, to open a tab or to download; whether by a new
		// document or by its own script, the next moments tell.
		c.tab.awaitFor(c.ctx, boundToCome, func(s tabState) bool {
			return departed(before, s) || s.frameDocuments != before.frameDocuments || s.inFrame != before.inFrame ||
				s.downloads != before.downloads || s.opened != before.opened
		})
	}
	if seen.Chooses {
		c.tab.awaitFor(c.ctx, eventWait, func(s tabState) bool { return s.choosers != before.choosers })
	}
	now, _ := c.tab.look()
	if v, ok := reported(before, now); ok {
		v, err = c.arrive(before, v)
		return v, false, err
	}
	v = seen.judge(before, now)
	if !seen.Navigates && !seen.Outside && seen.shows() && v.only(pageCauses[seen.Found]) {
		c.place = seen.Place
	}
	return v, false, nil
}

// awaitOutcome waits until the page tells the outcome, or until Chrome reports what is telling
// enough: then that is the verdict, once what it leads to is there.
func (c *call) awaitOutcome(w world, sent []*devtools.Pending) (seen outcomeOf, v verdict, err error) {
	before := c.before
	asked := w.put(c.ctx, "outcome", map[string]int64{
		"wait": eventWait.Milliseconds(), "quiet": quietWait.Milliseconds(),
	})
	var acknowledged <-chan struct{} // Chrome says that the page had the input
	var late <-chan time.Time
	hung := time.NewTimer(time.Hour)
	defer hung.Stop()
	if len(sent) > 0 {
		acknowledged = sent[len(sent)-1].Done()
	}
	looked := false // at what else the page's task did
	for {
		now, changed := c.tab.look()
		// After a dialog that was answered beforehand the page goes on at once. A page
		// that sends requests may send more in the same task.
		if v, ok := reported(before, now); ok && (v.only(sentRequest) || v.only(newAddress)) && !looked {
			looked = true
			w.put(c.ctx, "tasks", struct{}{}).get(c.ctx, nil)
			continue
		} else if ok && (now.dialogs == before.dialogs || now.open != nil) {
			v, err = c.arrive(before, v)
			return seen, v, err
		}
		select {
		case <-asked.reply.Done():
			err := asked.get(c.ctx, &seen)
			if contextLost(err) {
				v, err = c.leftBehind(w)
			}
			return seen, v, err
		case <-acknowledged:
			acknowledged = nil
			t := time.NewTimer(quietWait)
			defer t.Stop()
			late = t.C
			if w.frame != nil { // a page that hangs is freed with the call; beside a frame that does, it goes on
				hung.Reset(hangWait)
			}
		case <-late:
			late = nil
			w.put(c.ctx, "swallowed", struct{}{})
		case <-hung.C:
			if !c.tab.ping(w.s, time.Second) {
				return seen, of(frameHangs), nil
			}
			hung.Reset(hangWait)
		case <-changed:
		case <-c.ctx.Done():
			return seen, verdict{}, c.ctx.Err()
		}
	}
}

// leftBehind is the verdict where the document that was asked for the outcome went.
func (c *call) leftBehind(w world) (verdict, error) {
	before := c.before
	gone := func(s tabState) bool { return departed(before, s) || s.frameDocuments != before.frameDocuments }
	if w.frame != nil && c.tab.awaitFor(c.ctx, frameWait, gone) {
		if now, _ := c.tab.look(); !departed(before, now) {
			return of(newFrameDocument), nil
		}
	}
	return c.arrive(before, of(newDocument))
}

// shows reports that the page showed something of the input.
func (o outcomeOf) shows() bool { return pageCauses[o.Found] != 0 }

// judge is the verdict of what the page tells and of the tab's state, where Chrome reported
// nothing that is more telling.
func (o outcomeOf) judge(before, now tabState) verdict {
	switch {
	case o.Outside:
		return of(triedProgram)
	case now.outside && (!o.Seen || o.Handled):
		return of(programAsked)
	case o.Navigates && now.frameDocuments != before.frameDocuments:
		return of(newFrameDocument)
	case o.Navigates && now.inFrame != before.inFrame:
		return of(newFrameAddress)
	case o.shows():
		return of(pageCauses[o.Found])
	case !o.Seen:
		return of(notReported)
	case o.Canvas:
		return of(canvasGotIt)
	case o.Ticks && !o.Ticked:
		return of(changesAgain)
	case o.Handled:
		return of(takenUnseen)
	case o.Ticks:
		return of(onlyTicks)
	}
	return of(nothingChanged)
}

// follow returns the verdict of what was done in the page itself, corrected by what
// Chrome saw it start.
func (c *call) follow(v verdict) (verdict, error) {
	now, _ := c.tab.look()
	seen, ok := reported(c.before, now)
	if !ok {
		return v, nil
	}
	seen, err := c.arrive(c.before, seen)
	if v.effect == capabilities.EffectConfirmed {
		v.effect = seen.effect
	}
	return v.with(seen.seen...), err
}

// departed reports that a document is, or was, on its way.
func departed(before, now tabState) bool {
	return now.started != before.started || now.documents != before.documents
}

// reported returns the evidence that Chrome itself brought, the most telling first.
func reported(before, now tabState) (verdict, bool) {
	switch {
	case now.dialogs != before.dialogs:
		return opened(now), true
	case now.downloads != before.downloads:
		return of(startedDownload), true
	case departed(before, now):
		return of(newDocument), true
	case now.opened != before.opened:
		return of(openedTab), true
	case now.choosers != before.choosers && now.chooser == nil:
		return of(barredChooser), true
	case now.choosers != before.choosers:
		return of(openedChooser), true
	case now.inPage != before.inPage:
		return of(newAddress), true
	case now.requests != before.requests:
		return of(sentRequest), true
	}
	return verdict{}, false
}

// arrive waits, bounded, until a document that is on its way is there, so that
// the next call meets the new page, and corrects the verdict if none came.
func (c *call) arrive(before tabState, v verdict) (verdict, error) {
	if v.only(openedTab) && c.leaves(before) {
		left, err := c.arrive(before, of(newDocument))
		return left.with(evidence{cause: openedTab}), err
	}
	c.arrived(navigationWait)
	c.awaitNew(before)
	if err := c.ctx.Err(); err != nil && c.stopped() == nil {
		return v, err
	}
	now, _ := c.tab.look()
	leaving := v.only(newDocument)
	switch {
	case leaving && now.documents != before.documents && now.failed != "":
		why := capabilities.AsError(c.navigationError(now.failed, c.tab.network.failureOf(now.loader), c.began))
		v = errorPage.because(why).alone()
	case leaving && now.documents != before.documents && now.status >= 400:
		v = v.with(evidence{cause: errorStatus, number: now.status})
	case !leaving || now.documents != before.documents:
	case now.open != nil:
		v = opened(now)
	case now.downloads != before.downloads:
		v = of(startedDownload)
	case now.navigating == "" && c.becameDownload(before):
		v = of(startedDownload)
	case now.navigating != "":
		v = of(notArrived)
	case !departed(before, now):
		// The context went, and no navigation was on its way: the page wrote itself
		// anew, as the string that a javascript: address returns does.
		v = of(replacedItself)
	default:
		v = of(noDocument)
	}
	return v, nil
}

// leaves reports whether the page asked for another document, too, after the tab that it
// opened. Until that tab is set up, Chrome may hold the page's script inside its call that
// opens it, and answers in between what is asked of the page. A task of the page's own waits
// its turn behind that script: by its answer the page has asked for all that it asks for.
func (c *call) leaves(before tabState) bool {
	soft, cancel := c.soft()
	defer cancel()
	w := c.in
	if w.s == nil {
		w, _ = c.tab.inWorld(soft)
	}
	var answer <-chan struct{} = closedChannel
	if w.s != nil { // else the document is gone already
		answer = w.put(soft, "tasks", struct{}{}).reply.Done()
	}
	all, _ := c.lane.list()
	for _, t := range all {
		if !c.opened(t) {
			continue
		}
		select {
		case <-t.ready:
		case <-answer:
		case <-t.life.Done():
		case <-soft.Done():
		}
	}
	select {
	case <-answer:
	case <-time.After(hangWait):
	case <-soft.Done():
	}
	now, _ := c.tab.look()
	if now.requested != before.requested {
		c.tab.awaitFor(c.ctx, boundToCome, func(s tabState) bool { return departed(before, s) })
		now, _ = c.tab.look()
	}
	return departed(before, now)
}

// arrived waits until no document is on its way, bounded also by what the call needs for
// its answer; it reports whether the page can be asked.
func (c *call) arrived(bound time.Duration) bool {
	ctx, cancel := c.soft()
	defer cancel()
	return c.tab.awaitFor(ctx, bound, func(s tabState) bool { return s.navigating == "" || s.open != nil }) || !c.tab.unanswered()
}

// awaitFor is await with a bound of its own; it reports whether cond held.
func (t *tab) awaitFor(ctx context.Context, bound time.Duration, cond func(tabState) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return t.await(ctx, cond) == nil
}
