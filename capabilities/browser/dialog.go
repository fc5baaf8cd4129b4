package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// dialog is one that a page has open. Until it is answered the page's script
// stands still, so every wait for that page ends with it (see tab.free).
type dialog struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Default string `json:"default_value,omitempty"`
}

// maxDialogText bounds what a dialog may put into a result.
const maxDialogText = 2000

// dialogAnswer is what handle-dialog said before the dialog came.
type dialogAnswer struct {
	accept bool
	text   *string
}

func (a dialogAnswer) word() string {
	if a.accept {
		return "accepted"
	}
	return "declined"
}

// dialogOpened takes a page's dialog, on the reading goroutine: it is answered if
// an answer was given beforehand, else it waits for one and frees those who wait
// for the page.
func (t *tab) dialogOpened(params []byte) {
	var e struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Default string `json:"defaultPrompt"`
	}
	if !decodeEvent(params, &e) {
		return
	}
	hide := t.host.hider().whole
	d := &dialog{e.Type, capabilities.Clip(hide(e.Message), maxDialogText), capabilities.Clip(hide(e.Default), maxDialogText)}
	var armed *dialogAnswer
	left, silence := false, false
	t.change(func(s *tabState) {
		armed, t.armed, t.asked = t.armed, nil, time.Now()
		left = t.leaving
		s.dialogs++
		switch {
		case armed != nil:
			s.dialog = e.Type + " dialog, " + armed.word() + " as told before"
		case t.leaving && e.Type != "beforeunload":
			armed = &dialogAnswer{}
			s.dialog = e.Type + " dialog, declined because it was being left"
			if t.patience > 0 {
				t.patience--
				silence = t.patience == 0
			}
		default:
			s.dialog, s.open = e.Type+" dialog, which waits for an answer", d
			t.block(d.refusal())
		}
	})
	if armed == nil {
		return
	}
	t.host.run(func() {
		if silence {
			defer t.silence()()
		}
		var refused *devtools.ProtocolError
		if _, err := devtools.Do(t.life, t.s, page.HandleJavaScriptDialog,
			armed.params()); left && errors.As(err, &refused) && strings.Contains(refused.Message, "Not attached") {
			// It came while its page's successor was about to, and holds it up for good. Another
			// navigation closes it, and displaces the successor: see restless.go.
			t.change(func(s *tabState) { s.holdsUp++ })
			devtools.Start(t.life, t.s, page.Navigate, page.NavigateParams{URL: "about:blank"})
		}
	})
}

// maxInsists is how many dialogs a page may open upon having its dialog declined because it
// is left, before its scripts are switched off: one after the other, they keep the next
// document from coming.
const maxInsists = 5

// timeToInsist is how long a page whose dialog was declined is watched for the next ones.
const timeToInsist = 200 * time.Millisecond

// silence switches the scripts of a page that is left off, and ends the one that runs;
// what it returns is to be called once the page's dialog is answered. A page of another
// origin in it may open none.
func (t *tab) silence() (await func()) {
	off := t.switchScripts(false)
	devtools.Start(t.life, t.s, runtime.TerminateExecution, cdp.Empty{})
	return func() {
		ctx, cancel := context.WithTimeout(t.life, boundToCome)
		defer cancel()
		off.Wait(ctx)
		left := false
		t.change(func(s *tabState) { left = t.leaving; s.silenced = left })
		if !left {
			t.switchScripts(true)
		}
	}
}

func (t *tab) switchScripts(on bool) *devtools.Pending {
	return devtools.Start(t.life, t.s, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}).Pending
}

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

// arm keeps an answer for the tab's next dialog. One that came meanwhile, after went, is
// what the answer is for: then it reports false.
func (t *tab) arm(given dialogAnswer, went *dialog) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.open != nil && t.state.open != went {
		return false
	}
	t.armed = &given
	return true
}

// leave says that a call leaves the document shown, or no longer does. Questions of such a
// document are declined, but the one whether it may be left.
func (t *tab) leave(on bool) {
	silenced := false
	t.change(func(s *tabState) {
		t.leaving, t.patience = on, 0
		silenced, s.silenced = s.silenced, false
	})
	if silenced {
		// Answered, it goes along when the next document is another process's.
		ctx, cancel := context.WithTimeout(t.life, boundToCome)
		defer cancel()
		t.switchScripts(true).Wait(ctx)
	}
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

// asksAgain reports that a dialog of the page was answered a moment ago.
func (t *tab) asksAgain() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.asked) < time.Second
}

// bear sets the tab's patience and returns what was left of it.
func (t *tab) bear(dialogs int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.patience
	t.patience = dialogs
	return left
}

func (t *tab) dialogClosed() {
	t.change(func(s *tabState) {
		if s.open != nil {
			s.open = nil
			t.free, t.block = context.WithCancelCause(t.life)
		}
	})
}

// freedom is the context that ends when the page stands still: it holds a dialog
// open, or it is gone.
func (t *tab) freedom() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free
}

func (a dialogAnswer) params() page.HandleJavaScriptDialogParams {
	p := page.HandleJavaScriptDialogParams{Accept: a.accept}
	if a.accept && a.text != nil {
		p.PromptText = *a.text
	}
	return p
}

// refusal is what a call gets that needs the page meanwhile.
func (d *dialog) refusal() *capabilities.Error {
	message := "The page has " + article(d.Type) + " dialog open"
	if text := strings.TrimSpace(d.Message); text != "" {
		quoted, _ := json.Marshal(capabilities.Clip(text, 200))
		message += ": " + string(quoted)
	}
	return capabilities.Errorf(capabilities.CodeDialogOpen, "%s.", message).
		WithHint("Answer it with tool.browser.handle-dialog.").WithDetails(d)
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
