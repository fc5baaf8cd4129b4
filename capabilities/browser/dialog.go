package browser

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// openBlank shows an empty document in place of one whose questions would go along to the
// call's address, or never end: Chrome's, whether another program may be opened, which
// goes with the site that it is about and takes the input of every page of it, or the
// page's own.
func (c *call) openBlank() {
	t := c.tab
	for range 5 { // the page may still displace it
		before, _ := t.look()
		res, err := devtools.Do(c.ctx, t.s, page.Navigate, page.NavigateParams{URL: "about:blank"})
		came, displaced := false, false
		if err != nil || t.awaitFor(c.ctx, boundToCome, func(s tabState) bool {
			came, displaced = s.came(res.LoaderID, before)
			return came || displaced
		}) && !displaced {
			break
		}
	}
	t.change(func(s *tabState) { s.outside = false })
	t.leave(true)
}

// declined declines the dialogs of a page that the call leaves, as Chrome itself would,
// and returns the evidence of it. The page's script goes on then; where it goes to is before
// the call's own address. A page that does not stop asking is silenced.
func (c *call) declined() (left []evidence, err error) {
	t := c.tab
	t.bear(maxInsists)
	asks := t.asksAgain()
	for d := c.stopped(); d != nil; d = c.stopped() {
		if d.Type == "beforeunload" {
			return nil, d.refusal()
		}
		left = append(left, dialogOfBefore.of(d.Type))
		var refused *devtools.ProtocolError
		if _, err = devtools.Do(c.whole, t.s, page.HandleJavaScriptDialog, dialogAnswer{}.params()); err == nil || errors.As(err, &refused) {
			err = t.await(c.whole, func(s tabState) bool { return s.open != d })
		}
		if err != nil {
			return nil, err
		}
		c.bindTo(t)
		asks = true
	}
	for asks {
		before, _ := t.look()
		again := func(s tabState) bool { return s.silenced || s.dialogs != before.dialogs }
		ctx, cancel := context.WithTimeout(c.ctx, boundToCome)
		c.wentOn(ctx, again)
		cancel()
		asks = t.awaitFor(c.ctx, timeToInsist, again)
		if now, _ := t.look(); now.silenced {
			break
		}
	}
	return left, nil
}

// endPatience ends what declined began: from here on the next document may come at any
// moment, and its scripts stay on. It reports whether those of the page are off.
func (c *call) endPatience() (silenced bool) {
	t := c.tab
	if t.bear(0) == 0 {
		t.awaitFor(c.ctx, boundToCome, func(s tabState) bool { return s.silenced })
	}
	now, _ := t.look()
	return now.silenced
}

// stopped returns the dialog that ended this call's wait for its page, nil if none
// did.
func (c *call) stopped() *dialog {
	if c.tab == nil || c.ctx.Err() == nil {
		return nil
	}
	var e *capabilities.Error
	if errors.As(context.Cause(c.ctx), &e) && e.Code == capabilities.CodeDialogOpen {
		d, _ := e.Details.(*dialog)
		return d
	}
	return nil
}

// heldUpByOther refuses if a dialog of a window that this page opened, or was opened
// by, holds this page up too: they may share a process.
func (c *call) heldUpByOther() error {
	all, _ := c.lane.list()
	for i, other := range all {
		if other == c.tab || other.opener != c.tab.id && c.tab.opener != other.id && (c.tab.opener == "" || c.tab.opener != other.opener) {
			continue
		}
		now, _ := other.look()
		if now.open == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, 300*time.Millisecond)
		_, err := devtools.Do(ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"})
		cancel()
		if c.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			e := now.open.refusal()
			e.Message = fmt.Sprintf("Tab %d shares this page's process and holds it up: %s", i, e.Message)
			return e.WithHint("Select that tab with tool.browser.tabs and answer it with tool.browser.handle-dialog.")
		}
	}
	return nil
}

// handleDialog carries out tyrum.browser.handle-dialog: it answers the open
// dialog, or says how the tab's next one is to be answered.
func handleDialog(c *call) (capabilities.Output, error) {
	var args struct {
		Accept   bool    `json:"accept"`
		Text     *string `json:"prompt_text"`
		Snapshot string  `json:"snapshot"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.bindTo(t)
	c.wants = args.Snapshot
	given := dialogAnswer{args.Accept, args.Text}
	for armed := false; !armed; {
		before, _ := t.look()
		d := before.open
		if d != nil {
			c.fired, c.before, c.logged = true, before, t.console.Last()
			_, err := devtools.Do(c.whole, t.s, page.HandleJavaScriptDialog, given.params())
			var refused *devtools.ProtocolError
			switch {
			case errors.As(err, &refused): // it went away by itself: its page left
			case err != nil:
				return capabilities.Output{}, err
			default:
				return c.answered(before, d, given)
			}
		}
		armed = t.arm(given, d)
	}
	return c.resultWith(dialogArmed.of(given.word()).alone(), func(a acted) any { return answeredDialog{acted: a} })
}

type answeredDialog struct {
	acted
	Type    string `json:"dialog_type,omitempty"`
	Message string `json:"message,omitempty"`
}

// answered waits until the page's script goes on, so that the next call meets what
// the answer led to, and tells it.
func (c *call) answered(before tabState, d *dialog, given dialogAnswer) (capabilities.Output, error) {
	t := c.tab
	if err := t.await(c.whole,
		func(s tabState) bool { return s.open == nil || s.dialogs != before.dialogs }); err != nil && !errors.Is(err, errTabClosed) {
		return capabilities.Output{}, err
	}
	c.bindTo(t)
	v := dialogAnswered.of(d.Type + " dialog was " + given.word()).alone()
	if d.Type == "beforeunload" && given.accept {
		t.awaitFor(c.ctx, boundToCome, func(s tabState) bool { return s.documents != before.documents || s.started != before.started })
	} else if err := c.wentOn(c.ctx,
		func(now tabState) bool { return departed(before, now) }); err != nil && c.stopped() == nil && !contextLost(err) && t.life.Err() == nil {
		return capabilities.Output{}, err
	}
	now, _ := t.look()
	next := before
	next.choosers = now.choosers
	if seen, ok := reported(next, now); ok {
		seen, err := c.awaitNavigation(before, seen)
		if err != nil && c.stopped() == nil && t.life.Err() == nil {
			return capabilities.Output{}, err
		}
		v = v.with(seen.seen...)
	}
	return c.resultWith(v, func(a acted) any { return answeredDialog{a, d.Type, d.Message} })
}

// wentOn waits until the page answers again, or enough of the tab's state: a page that is
// about to leave answers no more until the server has.
func (c *call) wentOn(ctx context.Context, enough func(tabState) bool) error {
	asked := devtools.Start(ctx, c.tab.s, runtime.Evaluate, runtime.EvaluateParams{Expression: "0"})
	for {
		now, changed := c.tab.look()
		if enough(now) {
			return nil
		}
		select {
		case <-asked.Done():
			_, err := asked.Get(ctx)
			return err
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// navigationHeld is the output of a navigation that a dialog holds up: one of the
// old page, which asks whether it may be left, or one of the new.
func (c *call) navigationHeld(d *dialog) (capabilities.Output, error) {
	now, _ := c.tab.look()
	r := loaded{Status: now.status}
	r.Dialog = d
	var err error
	if r.URL, r.Title, err = c.tab.locationOf(c.whole, c.tab.askLocation(c.whole)); err != nil {
		return capabilities.Output{}, err
	}
	r.URL, r.Title = c.told(r.URL, r.Title)
	v := dialogWhileLoading.of(d.Type).alone()
	if d.Type == "beforeunload" {
		v = of(asksToStay)
	}
	return capabilities.Output{Result: r, Effect: v.effect, Evidence: v.words(), Untrusted: true}, nil
}

// opened is the verdict of an action that opened a dialog.
func opened(s tabState) verdict { return openedDialog.of(s.dialog).alone() }
