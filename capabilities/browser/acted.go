package browser

import (
	"context"
	"errors"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// The answer of an action that was performed (act.go): where the tab is, what came up
// on the way, and what else has to be said of the verdict.

// acted is the result of actions.
type acted struct {
	URL       string        `json:"url,omitempty"`
	Title     string        `json:"title,omitempty"`
	Snapshot  string        `json:"snapshot,omitempty"`
	Dialog    *dialog       `json:"dialog,omitempty"`
	Downloads []downloaded  `json:"downloads,omitempty"`
	Opened    []tabEntry    `json:"opened_tabs,omitempty"`
	Exception string        `json:"exception,omitempty"`
	StillOpen []openRequest `json:"still_open,omitempty"`
}

// maxException bounds what an answer has of an exception.
const maxException = 500

// exception returns what the action made a script of the page throw. It is cut after it was
// freed of secrets: of a short one nothing tells what a cut left.
func (c *call) exception() string {
	thrown := c.tab.console.ExceptionSince(c.logged)
	shown := clipText(c.lane.hider().text(thrown), maxException)
	if shown != clipText(thrown, maxException) {
		c.hidIn("exception")
	}
	return shown
}

// opening adds the tabs that the action opened.
func (v verdict) opening(a acted) verdict {
	if len(a.Opened) == 0 {
		return v
	}
	said := evidence{cause: openedTab, tabs: a.Opened, unshown: a.Snapshot != ""}
	switch {
	case v.effect == capabilities.EffectSuspectNoop:
		return said.alone()
	case v.has(openedTab):
		return v.instead(openedTab, said)
	}
	return v.with(said)
}

// unkept adds to the verdict that a tab which the action opened was closed at once,
// since it was one too many.
func (c *call) unkept(v verdict, a acted) verdict {
	now, _ := c.tab.look()
	if !c.fired || now.overLimit == c.before.overLimit {
		return v
	}
	said := tabOverLimit.because(c.lane.isFull())
	switch {
	case v.effect == capabilities.EffectSuspectNoop:
		return said.alone()
	case len(a.Opened) == 0 && v.has(openedTab):
		return v.instead(openedTab, said).as(capabilities.EffectPartial)
	}
	return v.with(said).as(capabilities.EffectPartial)
}

// unreached adds to the verdict that a page which the action was to open in a tab or a
// frame does not open. Most frames are the page's own matter: then it stays at that.
func (c *call) unreached(v verdict) verdict {
	c.lane.mu.Lock()
	out := c.lane.egress
	c.lane.mu.Unlock()
	now, _ := c.tab.look()
	if out == nil || !c.fired || now.seeks == c.before.seeks || departed(c.before, now) {
		return v
	}
	err := out.Refuses(c.whole, now.sought.address, c.began)
	if err == nil {
		return v
	}
	said := frameBlocked.because(capabilities.AsError(err))
	if now.sought.tab {
		said.cause = tabBlocked
	}
	switch {
	case v.only(newFrameDocument) || v.effect == capabilities.EffectSuspectNoop:
		return said.alone()
	case now.sought.tab:
		v.effect = capabilities.EffectPartial
	}
	return v.with(said)
}

// extras adds to an action's result what came up on the way: an open dialog, and
// the snapshot that was asked for.
func (c *call) extras(a *acted) error {
	now, _ := c.tab.look()
	a.Dialog = now.open
	a.Downloads = c.lane.tellDownloads(c.whole)
	if c.wants == "" || c.wants == "none" || now.open != nil || !c.arrived(boundToCome) {
		return nil
	}
	g, err := c.snapshotFor(c.wants)
	if d := c.stopped(); err != nil && d != nil {
		a.Dialog = d
		return nil
	}
	if err == nil { // the page may have moved on since its address was read
		a.URL, a.Title, a.Snapshot = g.URL, g.Title, g.Snapshot
	}
	return err
}

// cutShort is the output of an action that its own effect ended: a dialog that the
// page opened, or the closing of the tab. Any other error stays one.
func (c *call) cutShort(err error) (capabilities.Output, error) {
	if c.shape == nil {
		c.shape = func(a acted) any { return a }
	}
	if c.stopped() != nil {
		now, _ := c.tab.look()
		return c.resultWith(opened(now), c.shape)
	}
	var refused *devtools.ProtocolError
	closed := errors.Is(context.Cause(c.tab.life), errTabClosed)
	if (closed || errors.As(err, &refused)) && c.outer.Err() == nil && !c.tab.chrome.answers(c.outer) {
		return capabilities.Output{}, errBrowserGone // its end closes the tabs first
	}
	if closed && c.outer.Err() == nil {
		return capabilities.Output{Result: c.shape(acted{}), Effect: capabilities.EffectConfirmed, Evidence: of(closedTab).words()}, nil
	}
	return capabilities.Output{}, err
}

// answers reports whether the browser is still there, bounded.
func (c *chrome) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := devtools.Do(ctx, c.Root, cdpbrowser.GetVersion, cdp.Empty{})
	return err == nil
}
