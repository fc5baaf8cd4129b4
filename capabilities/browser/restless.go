package browser

import (
	"context"
	"errors"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// This file is about pages that replace themselves again and again, by reload or by going
// elsewhere: how they are told from one that is on its way, and how they are left. Chrome
// lets such a page ask for its next address until another document has taken its place, and
// that request then displaces the document.

// errDisplaced: the document that was asked for gave way to one of the page before it.
var errDisplaced = errors.New("displaced by the page before")

// insist opens an address; while it is displaced, at most three times more, each time
// with nothing shown in between.
func (c *call) insist(open func() (capabilities.Output, error)) (capabilities.Output, error) {
	for range 3 {
		out, err := open()
		if !errors.Is(err, errDisplaced) {
			return out, err
		}
		c.quieten()
	}
	out, err := open()
	if errors.Is(err, errDisplaced) {
		err = errNotLeft
	}
	return out, err
}

// quieten shows nothing in place of a page that would not be left, with its scripts off
// until then.
func (c *call) quieten() {
	t := c.tab
	off := t.switchScripts(false)
	devtools.Start(t.life, t.s, runtime.TerminateExecution, cdp.Empty{})
	devtools.Start(t.life, t.s, page.StopLoading, cdp.Empty{})
	ctx, cancel := context.WithTimeout(c.ctx, boundToCome)
	defer cancel()
	_, _ = off.Wait(ctx)
	t.hushed()
	c.openBlank()
}
