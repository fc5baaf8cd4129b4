package browser

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
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
//     action began are waited for with what they change (awaitRequests; its rule is in
//     follows.go). Then result answers, with acted.go.
//
// The action ends in a verdict (evidence.go): its effect and the causes that were seen, which
// phrase.go words. An effect is confirmed; suspected_noop; partial where less happened than
// asked; unverifiable where the page took the event and kept what it does to itself, as a
// canvas does, or changes all the time. result adds the address, an open dialog,
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

// action is what a call does to a page, from the first input to the answer.
type action struct {
	in       world             // of the document that it is in
	before   tabState          // when the latest input was fired
	fired    bool              // input was sent: what follows is its outcome, never a refusal
	logged   int64             // the console's last entry then
	sent     int64             // the last request before the first input
	polls    []record.Transfer // those that were open then
	place    *there            // where the page said it was by its evidence; nil: Chrome is asked
	stayed   bool              // all that a drag changed is how what was dragged is marked
	followed bool              // what its requests led to was waited for
	shape    func(acted) any   // makes the result where it was cut short; nil: as it is
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
	c.logged = c.tab.console.Last()
	if !c.fired {
		c.sent, c.polls = c.tab.network.Last(), c.tab.network.InFlight()
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
		v, err = c.awaitNavigation(before, v)
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
	asked := w.put(c.ctx, inpage.Outcome, map[string]int64{
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
			w.put(c.ctx, inpage.Tasks, struct{}{}).get(c.ctx, nil)
			continue
		} else if ok && (now.dialogs == before.dialogs || now.open != nil) {
			v, err = c.awaitNavigation(before, v)
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
			w.put(c.ctx, inpage.Swallowed, struct{}{})
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
	return c.awaitNavigation(before, of(newDocument))
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
	seen, err := c.awaitNavigation(c.before, seen)
	if v.effect == capabilities.EffectConfirmed {
		v.effect = seen.effect
	}
	return v.with(seen.seen...), err
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

// awaitNavigation waits, bounded, until a document that is on its way is there, so that
// the next call meets the new page, and corrects the verdict if none came.
func (c *call) awaitNavigation(before tabState, v verdict) (verdict, error) {
	if v.only(openedTab) && c.leaves(before) {
		left, err := c.awaitNavigation(before, of(newDocument))
		return left.with(evidence{cause: openedTab}), err
	}
	c.arrived(navigationWait)
	c.awaitNew(before)
	if v.only(newAddress) {
		c.routed()
	}
	if err := c.ctx.Err(); err != nil && c.stopped() == nil {
		return v, err
	}
	now, _ := c.tab.look()
	leaving := v.only(newDocument)
	switch {
	case leaving && now.documents != before.documents && now.failed != "":
		why := capabilities.AsError(c.navigationError(now.failed, c.tab.network.FailureOf(now.loader), c.began))
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
		answer = w.put(soft, inpage.Tasks, struct{}{}).reply.Done()
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

// awaitRequests is the rule. It returns the verdict with what the answers led to.
func (c *call) awaitRequests(v verdict) (verdict, error) {
	if now, _ := c.tab.look(); c.followed || !c.fired || departed(c.before, now) || v.only(closedTab) {
		return v, nil
	}
	c.followed = true
	soft, cancel := c.soft()
	defer cancel()
	ctx, cancel := context.WithTimeout(soft, followWait)
	defer cancel()
	shown := map[string]bool{} // pictures
	if v.only(sentRequest) {
		c.tab.tell(ctx, inpage.Follow, map[string]bool{"own": c.in.frame == nil}, nil)
	}
	for drawn := int64(0); ; {
		now, changed := c.tab.look()
		if departed(c.before, now) {
			break
		}
		began := c.begun(ctx, shown)
		open := slices.DeleteFunc(slices.Clone(began), func(q record.Transfer) bool { return !q.Ended.IsZero() })
		switch last := len(began) - 1; {
		case last < 0:
			return v, nil
		case ctx.Err() != nil && len(open) > 0:
			c.standing = standing{open: listed(open, c.lane.hider())}
			fallthrough
		case ctx.Err() != nil || len(open) == 0 && began[last].Seq == drawn:
			return c.led(v)
		case len(open) == 0:
			drawn = began[last].Seq
			c.tab.drawn(ctx)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := c.ctx.Err(); err != nil {
				return v, err
			}
		}
	}
	return c.led(v)
}

// led is the verdict with what the answers to requests led to.
func (c *call) led(v verdict) (verdict, error) {
	c.place = nil // they may have changed the address
	now, _ := c.tab.look()
	if now.requested != c.before.requested && !departed(c.before, now) {
		c.tab.awaitFor(c.ctx, boundToCome, func(s tabState) bool {
			return departed(c.before, s) || s.navigating == "" && s.inPage != c.before.inPage
		})
		now, _ = c.tab.look()
	}
	seen, ok := reported(c.before, now)
	switch {
	case !ok || seen.only(sentRequest) || v.says(seen):
		if v.only(sentRequest) && c.changedSince() {
			v = v.with(evidence{cause: changedThen})
		}
		return v, nil
	case v.only(sentRequest) || v.effect == capabilities.EffectSuspectNoop:
		return c.awaitNavigation(c.before, seen)
	}
	return c.follow(v)
}

// changedSince reports whether the page has changed since the outcome of its last input, but for
// what changes again and again.
func (c *call) changedSince() bool {
	var page struct {
		Changed bool `json:"changed"`
	}
	c.tab.tell(c.ctx, inpage.Followed, struct{}{}, &page)
	return page.Changed
}

// result returns an action's output with the address the tab has now.
func (c *call) result(v verdict) (capabilities.Output, error) {
	return c.resultWith(v, func(a acted) any { return a })
}

// resultWith is result for tools that have more to say than acted.
func (c *call) resultWith(v verdict, with func(acted) any) (capabilities.Output, error) {
	v, err := c.awaitRequests(v)
	if err != nil {
		c.shape = with
		return capabilities.Output{}, err // see cutShort
	}
	a := acted{Opened: c.openedTabs(), StillOpen: c.standing.open}
	if p := c.place; p != nil {
		a.URL, a.Title = c.told(p.URL, p.Title)
	} else {
		a.URL, a.Title, err = c.tab.locationOf(c.whole, c.tab.askLocation(c.whole))
		a.URL, a.Title = c.told(a.URL, a.Title)
	}
	if err == nil {
		err = c.extras(&a)
	}
	if err != nil {
		c.shape = with
		return capabilities.Output{}, err // see cutShort
	}
	if now, _ := c.tab.look(); v.only(openedTab) && now.documents != c.before.documents {
		v = v.after(newDocument) // it left after the tab was seen
	}
	if v.effect == capabilities.EffectSuspectNoop && len(a.Downloads) > 0 {
		v = of(startedDownload) // only now does Chrome say so
	}
	if a.Snapshot != "" && v.only(nothingChanged) && c.changedSince() {
		v = of(changedAsRead) // the snapshot shows it: an answer is not at odds with itself
	}
	v = c.unkept(c.unreached(v).opening(a), a)
	if c.fired && (v.effect == capabilities.EffectSuspectNoop || v.effect == capabilities.EffectUnverifiable) {
		if a.Exception = c.exception(); a.Exception != "" {
			v = v.with(evidence{cause: threwException})
		}
	}
	late := c.lateTabs()
	a.Opened, v = append(a.Opened, late...), v.with(cameBefore(late)...)
	return capabilities.Output{Result: with(a), Effect: v.effect, Evidence: v.words() + c.standing.words(), Untrusted: true}, nil
}
