package browser

import (
	"context"
	"errors"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// This file is about waiting for the document that a navigation asked for: until it is
// there, and then as ready.go has it.

// errNotComplete: the document is there, the asked state was not reached.
var errNotComplete = errors.New("not complete in time")

// awaitDocument waits for the document to be committed and to reach the asked
// state, leaving some of the deadline for the answer; an empty loader stands for whichever
// comes next. A page that replaces itself by script at once is followed.
func (c *call) awaitDocument(before tabState, loader cdp.LoaderID, wait string) error {
	soft, cancel := c.soft()
	defer cancel()
	came := loader == ""
	var unlike error // it ends otherwise than with the document
	err := c.tab.await(soft, func(s tabState) bool {
		if s.holdsUp-before.holdsUp >= maxInsists {
			unlike = errNotLeft
			return true
		}
		if s.documents == before.documents {
			return loader == "" && s.inPage != before.inPage && s.navigating == ""
		}
		displaced := false
		if !came {
			came, displaced = s.came(loader, before)
		}
		if displaced {
			unlike = errDisplaced
		}
		return came || displaced
	})
	if err == nil && unlike == nil && came && wait != "none" {
		c.standing, err = c.tab.awaitPage(soft, func(s tabState) bool {
			switch {
			case s.holdsUp-before.holdsUp >= maxInsists:
				unlike = errNotLeft
			case s.restless(before, false):
				unlike = errNotComplete
			default:
				return wait == "domcontentloaded" && !s.progress.Parsed.IsZero()
			}
			return true
		})
		if err == nil && c.standing.capped {
			unlike = errNotComplete
		}
	}
	if err == nil && unlike != nil {
		return unlike
	}
	if err == nil && wait == "network_quiet" {
		err = c.tab.awaitQuiet(soft)
	}
	if err != nil && c.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		if now, _ := c.tab.look(); now.documents != before.documents {
			return errNotComplete
		}
		err = c.late()
		devtools.Start(c.tab.life, c.tab.s, page.StopLoading, cdp.Empty{}) // nobody waits for it any more
	}
	return err
}

// stopLoading ends a navigation whose call was given up.
func (c *call) stopLoading(err error) {
	if c.ctx.Err() != nil && c.tab.life.Err() == nil {
		devtools.Start(c.tab.life, c.tab.s, page.StopLoading, cdp.Empty{})
	}
}

// awaitNew is awaitPage for the document that an action led to.
func (c *call) awaitNew(before tabState) {
	if now, _ := c.tab.look(); now.documents == before.documents || now.navigating != "" || now.open != nil {
		return
	}
	ctx, cancel := c.soft()
	defer cancel()
	c.standing, _ = c.tab.awaitPage(ctx, func(s tabState) bool { return s.open != nil || s.restless(before, false) })
}

// awaitOpened is awaitPage for a tab that an action opened.
func (c *call) awaitOpened(t *laneTab) {
	if now, _ := t.look(); now.documents == 0 || now.navigating != "" || now.open != nil {
		return
	}
	ctx, cancel := c.soft()
	defer cancel()
	before, _ := t.look()
	_, _ = t.awaitPage(ctx, func(s tabState) bool { return s.open != nil || s.restless(before, false) })
}

// departed reports that a document is, or was, on its way.
func departed(before, now tabState) bool {
	return now.started != before.started || now.documents != before.documents
}
