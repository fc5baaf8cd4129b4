package browser

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// The dialogs of a tab's page, as they come and go.

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

// hushed notes that a call left the page, whose scripts are off.
func (t *tab) hushed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaving, t.state.silenced = true, true
}
