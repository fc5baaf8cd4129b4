package browser

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// navigate carries out tyrum.browser.navigate.
func navigate(c *call) (capabilities.Output, error) {
	args := struct {
		URL      string `json:"url"`
		Wait     string `json:"wait_until"`
		Snapshot string `json:"snapshot"`
	}{Wait: "load"}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.h.rules.CheckURL(args.URL); err != nil {
		return capabilities.Output{}, err
	}
	t, err := c.lane.current(c.ctx, true)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.bindTo(t)
	c.wants = args.Snapshot
	return c.goTo(args.URL, args.Wait)
}

// loaded is the result of opening a page.
type loaded struct {
	acted
	Status int `json:"status,omitempty"`
}

// goTo opens an address in the call's tab and waits for the asked state. A page
// that is there but not complete when time runs out is a partial result, not a
// failure.
func (c *call) goTo(address, wait string) (capabilities.Output, error) {
	t := c.tab
	if why := t.forbids(address); why != nil && !isFileDocument(address) {
		return capabilities.Output{}, why
	}
	address, done, err := c.served(address)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer done()
	t.leave(true)
	defer t.leave(false)
	left, err := c.declined()
	if err != nil {
		return capabilities.Output{}, err
	}
	before, _ := t.look()
	if !before.silenced {
		c.freeToLeave()
	}
	if c.endPatience() || before.outside {
		c.openBlank()
	}
	return c.insist(func() (capabilities.Output, error) { return c.open(address, wait, left) })
}

// open is goTo from a page that may be left, with what that took; errDisplaced
// says that it was not left.
func (c *call) open(address, wait string, left []evidence) (capabilities.Output, error) {
	t := c.tab
	before, _ := t.look()
	began := time.Now()
	ctx := c.ctx
	if wait == "none" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstNavigation) // what is known so soon is told
		defer cancel()
	}
	res, err := devtools.Do(ctx, t.s, page.Navigate, page.NavigateParams{URL: address})
	switch {
	case err != nil && ctx.Err() != nil && c.ctx.Err() == nil &&
		t.awaitFor(c.ctx, boundToCome, func(s tabState) bool { return s.started != before.started }):
		return c.result(of(notArrived))
	case err != nil:
		return c.notOpened(err)
	case (res.IsDownload || res.ErrorText == "net::ERR_ABORTED") && c.becameDownload(before):
		return c.navigated(before, of(startedDownload).with(evidence{cause: shownBefore}).with(left...))
	case res.ErrorText != "" || res.IsDownload:
		// The error page is on its way still, and holds up the next call.
		t.awaitFor(c.ctx, boundToCome, func(s tabState) bool {
			return s.loader == res.LoaderID || s.started != before.started && s.navigating == ""
		})
		return capabilities.Output{}, c.navigationError(address, res.ErrorText, began)
	case res.LoaderID == "":
		// Chrome may answer before the page tells its new address.
		t.awaitFor(c.ctx, boundToCome, func(s tabState) bool { return s.inPage != before.inPage })
		return c.navigated(before, of(addressChanged).with(left...))
	}
	if err = c.awaitDocument(before, res.LoaderID, wait); errors.Is(err, errDisplaced) {
		return capabilities.Output{}, err
	}
	return c.opening(before, wait, of(documentOpened).with(left...), err)
}

// freeToLeave stops a script of the page shown that never ends: Chrome takes no new
// document in while it runs, and none of our commands while one is on its way.
func (c *call) freeToLeave() {
	select {
	case <-c.tab.ready:
	default:
		return // no page is shown
	}
	if now, _ := c.tab.look(); now.open == nil && now.navigating == "" && !c.tab.ping(c.tab.s, time.Second) && c.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		defer cancel()
		devtools.Do(ctx, c.tab.s, runtime.TerminateExecution, cdp.Empty{})
	}
}

// notOpened is the end of a navigation that Chrome did not accept, or that a
// dialog holds up.
func (c *call) notOpened(err error) (capabilities.Output, error) {
	if d := c.stopped(); d != nil {
		return c.navigationHeld(d)
	}
	c.stopLoading(err)
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) && c.tab.life.Err() == nil {
		err = c.late()
	}
	return capabilities.Output{}, err
}

// late says whose fault it is that a document is not there in time.
func (c *call) late() error {
	if !c.tab.unanswered() {
		return errPageHangs
	}
	return capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The server did not answer in time.")
}

// opening is the result of a navigation whose document was waited for, with that wait's
// end.
func (c *call) opening(before tabState, wait string, v verdict, err error) (capabilities.Output, error) {
	if err != nil {
		if c.stopped() != nil || !errors.Is(err, errNotComplete) {
			return c.notOpened(err)
		}
		lacks := stillLoading
		if c.standing.capped && c.standing.blank {
			lacks = showedNothing
		} else if c.standing.capped {
			lacks = notReady
		} else if now, _ := c.tab.look(); now.restless(before, true) {
			lacks = replacesItself
		} else if wait == "network_quiet" {
			lacks = notQuiet
		}
		v = v.with(evidence{cause: lacks}).as(capabilities.EffectPartial)
	}
	return c.navigated(before, v)
}

// navigated is the result of a navigation.
func (c *call) navigated(before tabState, v verdict) (capabilities.Output, error) {
	now, _ := c.tab.look()
	if now.dialogs != before.dialogs {
		v = v.with(opened(now).seen...)
	}
	r := loaded{Status: now.status}
	r.StillOpen = c.standing.open
	var err error
	if r.URL, r.Title, err = c.tab.locationOf(c.whole, c.tab.askLocation(c.whole)); err != nil {
		return capabilities.Output{}, err
	}
	r.URL, r.Title = c.told(r.URL, r.Title)
	if err := c.extras(&r.acted); err != nil {
		return capabilities.Output{}, err
	}
	if now.status >= 400 && now.documents != before.documents {
		v = of(refusedByServer)
	}
	return capabilities.Output{Result: r, Effect: v.effect, Evidence: v.words() + c.standing.words(), Untrusted: true}, nil
}

// navigateBack carries out tyrum.browser.navigate-back: through the tab's history,
// or anew.
func navigateBack(c *call) (capabilities.Output, error) {
	args := struct {
		Direction string `json:"direction"`
		Snapshot  string `json:"snapshot"`
	}{Direction: "back"}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.bindTo(t)
	if d := c.stopped(); d != nil {
		return capabilities.Output{}, d.refusal()
	}
	c.wants = args.Snapshot
	var before tabState
	began := time.Now()
	did := of(loadedAnew)
	c.freeToLeave()
	// The page to leave may still be taking the place of one before it: see locationOf.
	for again := true; again; again = swapping(err) && time.Since(began) < boundToCome && t.nextChange(c.ctx) {
		before, _ = t.look()
		if args.Direction == "reload" {
			_, err = devtools.Do(c.ctx, t.s, page.Reload, page.ReloadParams{})
		} else {
			did, err = c.stepHistory(args.Direction)
		}
	}
	if err != nil {
		return c.notOpened(err)
	}
	out, err := c.opening(before, "load", did, c.awaitDocument(before, "", "load"))
	if now, _ := t.look(); err == nil && now.failed != "" && now.documents != before.documents {
		return capabilities.Output{}, c.navigationError(now.failed, t.network.FailureOf(now.loader), began)
	}
	if r, ok := out.Result.(loaded); ok {
		out.Result = r.acted // an old page has no status of its own
	}
	return out, err
}

// stepHistory asks for the neighbouring page of the tab's history.
func (c *call) stepHistory(direction string) (did verdict, err error) {
	h, err := c.tab.askLocation(c.ctx).Get(c.ctx)
	if err != nil {
		return did, err
	}
	step, which := int64(-1), "earlier"
	if direction == "forward" {
		step, which = 1, "later"
	}
	i := h.CurrentIndex + step
	if i < 0 || i >= int64(len(h.Entries)) {
		return did, capabilities.Errorf(capabilities.CodeNavigationFailed, "The tab's history has no %s page.", which).
			WithHint("Use tool.browser.navigate with an address.")
	}
	_, err = devtools.Do(c.ctx, c.tab.s, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: h.Entries[i].ID})
	return historyShown.of(which).alone(), err
}

// navigationError says why a page did not open: what the egress proxy knows is
// nearer the truth than what Chrome sees of it.
func (c *call) navigationError(address, text string, began time.Time) error {
	c.lane.mu.Lock()
	out := c.lane.egress
	c.lane.mu.Unlock()
	if out != nil {
		if err := out.Failure(address, began); err != nil {
			return err
		}
		// A redirect may have led to where it failed.
		if url, _, err := c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx)); err == nil {
			if err := out.Failure(url, began); err != nil {
				return err
			}
		}
	}
	if text == "" {
		text = "net::ERR_ABORTED"
	}
	if text == "net::ERR_INVALID_AUTH_CREDENTIALS" {
		return capabilities.Errorf(capabilities.CodeNavigationFailed,
			"The site wants a user name and a password, and got none, or none that it takes.").
			WithHint("Put them into the address (https://name:password@host/); results and records leave them out.")
	}
	message, known := record.NetError(text)
	switch {
	case known:
	case strings.HasPrefix(text, "net::ERR_CERT_"):
		message = "The server's certificate is not valid (" + capabilities.Clip(strings.TrimPrefix(text, "net::"), 60) + ")."
	default:
		message = "The page could not be loaded (" + capabilities.Clip(strings.TrimPrefix(text, "net::"), 60) + ")."
	}
	return capabilities.Errorf(capabilities.CodeNavigationFailed, "%s", message)
}

// tabs carries out tyrum.browser.tabs.
func tabs(c *call) (capabilities.Output, error) {
	args := struct {
		Action   string `json:"action"`
		Index    *int   `json:"index"`
		URL      string `json:"url"`
		SwitchTo *int   `json:"switch_to"`
	}{Action: "list"}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if args.SwitchTo != nil {
		args.Action, args.Index = "select", args.SwitchTo
	}
	if lost := c.lane.takeLost(); lost != nil {
		return capabilities.Output{}, lost
	}
	var v verdict
	var err error
	switch args.Action {
	case "new":
		v, err = c.newTab(args.URL)
	case "select":
		v, err = c.selectTab(args.Index)
	case "close":
		v, err = c.closeTab(args.Index)
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	return c.listTabs(v)
}

func (c *call) newTab(address string) (verdict, error) {
	if address != "" {
		if err := c.h.rules.CheckURL(address); err != nil {
			return verdict{}, err
		}
	}
	chrome, err := c.lane.ready(c.ctx)
	if err != nil {
		return verdict{}, err
	}
	t, err := c.lane.open(c.ctx, chrome)
	if err != nil {
		return verdict{}, err
	}
	if address != "" {
		c.bindTo(t)
		out, err := c.goTo(address, "load")
		return stated.of(out.Evidence).alone().as(out.Effect), err
	}
	return of(tabOpen), nil
}

// pick returns the tab with that index; nil means the active one.
func (c *call) pick(index *int) (*laneTab, error) {
	all, active := c.lane.list()
	i := active
	if index != nil {
		i = *index
	}
	if i < 0 || i >= len(all) {
		if len(all) == 0 {
			return nil, capabilities.Errorf(capabilities.CodeTabNotFound, "No tab is open.").WithHint("Open one with tool.browser.navigate.")
		}
		return nil, capabilities.Errorf(capabilities.CodeTabNotFound, "There is no tab %d; the open tabs are 0 to %d.", i, len(all)-1)
	}
	return all[i], nil
}

func (c *call) selectTab(index *int) (verdict, error) {
	if index == nil {
		return verdict{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "select needs index.").
			WithHint("Give the index of a tab from the list.")
	}
	t, err := c.pick(index)
	if err != nil {
		return verdict{}, err
	}
	c.lane.activate(t)
	if !t.isCrashed() {
		if _, err := devtools.Do(c.ctx, t.s, page.BringToFront, cdp.Empty{}); err != nil {
			return verdict{}, err
		}
	}
	return of(tabActive), nil
}

func (c *call) closeTab(index *int) (verdict, error) {
	t, err := c.pick(index)
	if err != nil {
		return verdict{}, err
	}
	if _, err := devtools.Do(c.ctx, t.chrome.Root, target.CloseTarget, target.CloseTargetParams{TargetID: t.id}); err != nil {
		return verdict{}, err
	}
	if !t.isCrashed() {
		select {
		case <-t.life.Done():
		case <-c.ctx.Done():
			return verdict{}, c.ctx.Err()
		}
	}
	c.lane.remove(t)
	return of(tabClosed), nil
}

type tabEntry struct {
	Index  int     `json:"index"`
	URL    string  `json:"url"`
	Title  string  `json:"title,omitempty"`
	Dialog *dialog `json:"dialog,omitempty"`
	// Crashed: it shows nothing, and navigate puts another in its place.
	Crashed bool `json:"crashed,omitempty"`
}

// entry is the tab as a list has it; the error is that of its address.
func (c *call) entry(ctx context.Context, t *laneTab, index int,
	where devtools.Reply[page.GetNavigationHistoryResult]) (e tabEntry, err error) {
	e.Index = index
	e.URL, e.Title, err = t.locationOf(ctx, where)
	e.URL, e.Title = c.told(e.URL, e.Title)
	if t.isCrashed() {
		e.Title, e.Crashed = "(crashed)", true
	}
	if now, _ := t.look(); t.life.Err() == nil {
		e.Dialog = now.open
	}
	return e, err
}

// openedTabs returns the tabs that the action opened, with their addresses as far as they
// get some in time.
func (c *call) openedTabs() (opened []tabEntry) {
	if now, _ := c.tab.look(); !c.fired || now.opened == c.before.opened {
		return nil
	}
	all, _ := c.lane.list()
	for i, t := range all {
		if c.opened(t) {
			c.settleOpened(t)
			c.awaitOpened(t)
			t.announce()
			e, _ := c.entry(c.whole, t, i, t.askLocation(c.whole))
			opened = append(opened, e)
		}
	}
	return opened
}

// opened reports whether the action opened that tab.
func (c *call) opened(t *laneTab) bool { return t.opener == c.tab.id && t.born.After(c.began) }

// How long the list of tabs waits for the address of one that a page opened: for
// its first navigation to begin once it is set up, where the page asked for no
// address, and, from its opening, for the document. A page may open a tab that never
// goes anywhere, or hangs.
const (
	firstNavigation = time.Second
	firstDocument   = 10 * time.Second
)

// settleOpened waits, bounded, until a tab that a page only just opened has its
// address, or turned out to get none.
func (c *call) settleOpened(t *laneTab) { c.settleUntil(t, t.born.Add(firstDocument)) }

// settleUntil is settleOpened with an end of its own.
func (c *call) settleUntil(t *laneTab, end time.Time) {
	now, _ := t.look()
	if t.opener == "" || now.documents > 0 && now.navigating == "" || time.Now().After(end) {
		return
	}
	soft, stop := c.soft()
	defer stop()
	ctx, cancel := context.WithDeadline(soft, end)
	defer cancel()
	from := t.born
	select {
	case <-t.ready:
	default:
		if t.awaitReady(ctx) {
			from = time.Now()
		}
	}
	begun := func(s tabState) bool { return s.documents > 0 || s.started > 0 }
	begins := from.Add(firstNavigation)
	if t.bound {
		begins = end
	}
	if t.awaitFor(ctx, time.Until(begins), begun) {
		t.await(ctx, func(s tabState) bool { return s.navigating == "" })
	}
}

// soft returns a context that ends before the call's deadline, so that something of
// it is left for the answer.
func (c *call) soft() (context.Context, context.CancelFunc) {
	deadline, ok := c.ctx.Deadline()
	if !ok {
		return context.WithCancel(c.ctx)
	}
	return context.WithDeadline(c.ctx, deadline.Add(-min(time.Until(deadline)/5, 2*time.Second)))
}

// softly is how long soft lasts, in milliseconds.
func (c *call) softly() int64 {
	ctx, cancel := c.soft()
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline).Milliseconds(), 0)
	}
	return navigationWait.Milliseconds()
}

// listTabs reads all tabs' addresses in one trip.
func (c *call) listTabs(v verdict) (capabilities.Output, error) {
	all, active := c.lane.list()
	result := struct {
		Tabs   []tabEntry `json:"tabs"`
		Active int        `json:"active_index"`
		// StillOpen is of a page that was opened here.
		StillOpen []openRequest `json:"still_open,omitempty"`
	}{make([]tabEntry, 0, len(all)), active, c.standing.open}
	for _, t := range all {
		c.settleOpened(t)
	}
	replies := make([]devtools.Reply[page.GetNavigationHistoryResult], len(all))
	for i, t := range all {
		replies[i] = t.askLocation(c.ctx)
	}
	for i, r := range replies {
		entry, err := c.entry(c.ctx, all[i], i, r)
		switch {
		case c.ctx.Err() != nil:
			return capabilities.Output{}, c.ctx.Err()
		case errors.Is(err, devtools.ErrClosed):
			return capabilities.Output{}, err
		}
		all[i].announce()
		result.Tabs = append(result.Tabs, entry)
	}
	return capabilities.Output{Result: result, Effect: v.effect, Evidence: v.words(), Untrusted: true}, nil
}

// isOutside reports whether Chrome would open another program for an address.
func isOutside(address string) bool {
	scheme, _, ok := strings.Cut(strings.ToLower(address), ":")
	return ok && !slices.Contains([]string{
		"http", "https", "about", "blob", "data", "javascript", "file", "filesystem", "chrome", "chrome-error", "chrome-extension", "devtools",
		"view-source",
	}, scheme)
}
