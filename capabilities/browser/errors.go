package browser

import (
	"context"
	"errors"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// Why a tab's context ended.
var (
	errTabCrashed = capabilities.Errorf(capabilities.CodeBrowserCrashed, "The tab crashed; what it showed is lost.").
			WithHint("Call navigate again: the tab is replaced.")
	errTabClosed  = capabilities.Errorf(capabilities.CodeTabNotFound, "The tab was closed during the call.")
	errLaneClosed = capabilities.Errorf(capabilities.CodeCancelled, "The conversation's browser was closed.")
	errNoTurn     = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "In all that time another call of this conversation was at work.")
	errNoBrowser  = capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The browser did not answer in time.")
	errPageHangs  = capabilities.Errorf(capabilities.CodeDeadlineExceeded,
		"The page did not answer in time: a script of it may run without end.").
		WithHint("Try again: the script is stopped where it can be. If it stays so, navigate to another page, or close the tab; or give a " +
			"larger timeout_ms.")
	errOnItsWay = capabilities.Errorf(capabilities.CodeDeadlineExceeded,
		"A navigation is on its way, and its server has not answered yet; until then Chrome lets nobody at the page shown.").
		WithHint("Wait with tool.browser.wait-for, load_state load; or end it with tool.browser.navigate to another address, or " +
			"tool.browser.navigate-back, direction reload.")
	errRestless = capabilities.Errorf(capabilities.CodeExecutionFailed,
		"The page replaces itself again and again, before it can be examined.").
		WithHint("A script of it may reload or leave it without end: navigate to another page. tool.browser.screenshot and " +
			"tool.browser.evaluate show what it shows meanwhile.")
	errNotLeft = capabilities.Errorf(capabilities.CodeNavigationFailed,
		"The page shown asks something or goes elsewhere again and again, each time before the address was opened.").
		WithHint("Close the tab with tool.browser.tabs, action close, and navigate in another.")
	errNotShown = capabilities.Errorf(capabilities.CodeDeadlineExceeded,
		"The tab's first page is on its way, and its server has not answered yet; until then Chrome lets nobody at the tab.").
		WithHint("Wait with tool.browser.wait-for, load_state load; or select another tab with tool.browser.tabs; or end it with " +
			"tool.browser.navigate to another address.")
	errBrowserGone = capabilities.Errorf(capabilities.CodeBrowserCrashed, "The browser ended unexpectedly; open pages are lost.").
			WithHint("Call navigate again: a new browser is started.")
)

// explain turns any failure of a call into a coded error. Text of the protocol
// stays private: it may quote what a page or the caller wrote.
func explain(ctx context.Context, err error) *capabilities.Error {
	var coded *capabilities.Error
	late := func() bool { return coded.Code == capabilities.CodeDeadlineExceeded && coded.Message == "" } // the runner's own
	if errors.As(err, &coded) && !late() {
		return coded
	}
	if errors.Is(err, devtools.ErrClosed) {
		return errBrowserGone
	}
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &coded) && !late() {
		return coded
	}
	var refused *devtools.ProtocolError
	switch {
	case errors.Is(err, context.DeadlineExceeded) || coded != nil && late():
		return errPageHangs
	case errors.Is(err, context.Canceled):
		return capabilities.Wrap(capabilities.CodeCancelled, err, "")
	case targetCrashed(err):
		return errTabCrashed
	case errors.As(err, &refused) && strings.Contains(refused.Message, "Session with given id not found"):
		return errTabClosed
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The browser refused a step of this call.").
		WithHint("Take a snapshot to see the present state.")
}

// contextLost reports that a script's context ended under it: the page
// navigated. The command may or may not have run.
func contextLost(err error) bool {
	var refused *devtools.ProtocolError
	if !errors.As(err, &refused) {
		return false
	}
	for _, sign := range []string{
		"Execution context was destroyed", "Inspected target navigated or closed", "Cannot find context", "uniqueContextId not found",
	} {
		if strings.Contains(refused.Message, sign) {
			return true
		}
	}
	return false
}

// targetCrashed reports that the process of what was asked ended under the command.
func targetCrashed(err error) bool {
	var refused *devtools.ProtocolError
	return errors.As(err, &refused) && refused.Message == "Target crashed"
}
