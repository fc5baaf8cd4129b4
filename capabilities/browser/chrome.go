package browser

import (
	"context"
	"errors"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
)

// chrome is one running Chrome, shared by the lanes of its mode, and what the lanes have in it.
type chrome struct {
	*process.Chrome
	h       *Handler
	own     bool          // one lane's: its default context is contexts[""]
	tracing chan struct{} // one token: whose trace it records

	mu        sync.Mutex
	lastInput *lane // whose input came last; see clipboard.go
	contexts  map[cdp.BrowserContextID]*lane
	tabs      map[target.ID]*laneTab
	downloads map[string]*download // that run, by Chrome's own name for them
	arrived   chan struct{}        // closed and replaced whenever a tab arrives or goes
}

var _ process.Tenant = (*chrome)(nil)

// moveIn makes what lanes have in a Chrome; it is own's alone unless that is nil.
func (h *Handler) moveIn(own *lane, into **chrome) func(*process.Chrome) process.Tenant {
	return func(p *process.Chrome) process.Tenant {
		c := &chrome{
			Chrome: p, h: h, own: own != nil, contexts: map[cdp.BrowserContextID]*lane{}, tabs: map[target.ID]*laneTab{},
			downloads: map[string]*download{}, arrived: make(chan struct{}), tracing: make(chan struct{}, 1),
		}
		if own != nil {
			c.contexts[""] = own // before its first page arrives
		}
		*into = c
		return c
	}
}

// startChrome starts one; it is own's alone unless that is nil.
func (h *Handler) startChrome(ctx context.Context, own *lane, how process.How) (c *chrome, err error) {
	how.Tenant = h.moveIn(own, &c)
	if _, err = h.chromium.Start(ctx, how); err != nil {
		return nil, closedLane(err)
	}
	return c, nil
}

// closedLane is what a call hears of a set of browsers that was closed.
func closedLane(err error) error {
	if errors.Is(err, process.ErrClosed) {
		return errLaneClosed
	}
	return err
}

// chrome returns the running Chrome of that mode, started if there is none.
func (h *Handler) chrome(ctx context.Context, headless bool) (*chrome, error) {
	select {
	case h.starting <- struct{}{}:
		defer func() { <-h.starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	c := h.chromes[headless]
	closed := h.closed
	h.mu.Unlock()
	if closed {
		return nil, errLaneClosed
	}
	if c != nil && c.Alive() {
		return c, nil
	}
	c, err := h.startChrome(ctx, nil, process.How{Headless: headless})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	closed = h.closed
	if !closed {
		h.chromes[headless] = c
	}
	h.mu.Unlock()
	if closed {
		c.Close()
		return nil, errLaneClosed
	}
	return c, nil
}

// Ended tells every lane that its pages are gone.
func (c *chrome) Ended(err error) {
	c.mu.Lock()
	lanes := make([]*lane, 0, len(c.contexts))
	for _, l := range c.contexts {
		lanes = append(lanes, l)
	}
	tabs := make([]*laneTab, 0, len(c.tabs))
	for _, t := range c.tabs {
		tabs = append(tabs, t)
	}
	c.contexts, c.tabs = map[cdp.BrowserContextID]*lane{}, map[target.ID]*laneTab{}
	c.mu.Unlock()
	for _, t := range tabs {
		t.end(errBrowserGone)
	}
	for _, l := range lanes {
		l.lostChrome(c)
	}
	c.h.log.Info("browser.ended", "pid", c.Program.PID(), "error", err)
}

// Event takes events of no session. It runs on the reading goroutine.
func (c *chrome) Event(method string, params []byte) {
	switch method {
	case "Target.attachedToTarget":
		var e struct {
			SessionID  string `json:"sessionId"`
			TargetInfo struct {
				TargetID         target.ID            `json:"targetId"`
				BrowserContextID cdp.BrowserContextID `json:"browserContextId"`
				OpenerID         target.ID            `json:"openerId"`
				Type             string               `json:"type"`
				URL              string               `json:"url"`
			} `json:"targetInfo"`
		}
		switch {
		case !decodeEvent(params, &e):
		case c.Attached && e.TargetInfo.Type == "shared_worker":
			c.meetShared(e.SessionID)
		case e.TargetInfo.Type == "shared_worker" || e.TargetInfo.Type == "service_worker":
			c.h.chromium.MeetWorker(c.Chrome, e.SessionID)
		default:
			c.adopt(e.SessionID, e.TargetInfo.TargetID, e.TargetInfo.BrowserContextID, e.TargetInfo.OpenerID, isFileDocument(e.TargetInfo.URL))
		}
	case "Target.detachedFromTarget":
		var e struct {
			SessionID string `json:"sessionId"`
		}
		if decodeEvent(params, &e) {
			c.dropSession(e.SessionID)
		}
	case "Browser.downloadProgress":
		c.downloadMoved(params)
	case "Target.targetCreated":
		c.meet(params)
	}
}

func decodeEvent(params []byte, into any) bool {
	return devtools.Decode(params, into)
}

// adopt takes a new page into its lane and sets it up, off this goroutine; one that shows a
// file is closed instead.
func (c *chrome) adopt(sessionID string, id target.ID, context cdp.BrowserContextID, opener target.ID, file bool) {
	c.mu.Lock()
	l := c.contexts[context]
	if c.own {
		l = c.contexts[""]
	}
	if l == nil || c.tabs[id] != nil {
		c.mu.Unlock()
		return // a page of a context that is being disposed of
	}
	t := newLaneTab(l, c, id, opener)
	t.s = c.Conn.Open(sessionID, t.onEvent)
	c.tabs[id] = t
	var by *laneTab // which opened it
	for _, from := range c.tabs {
		if from.lane == l && t.openedBy(from.tab) {
			by = from
			break
		}
	}
	close(c.arrived)
	c.arrived = make(chan struct{})
	c.mu.Unlock()
	if file {
		t.end(errFileShown)
	}
	added := !file && l.add(t, c.h.o.MaxTabs)
	if file {
		by = nil // it is not the limit that closes it
	}
	if by != nil {
		// Only now, since an action that hears of it looks for the tab in the list; and before
		// a tab over the limit answers, since a new process may take seconds for that.
		by.change(func(s *tabState) {
			s.opened++
			if !added {
				s.overLimit++
			}
		})
	}
	if !added {
		c.h.wg.Go(t.turnAway)
		return
	}
	c.h.wg.Go(t.setUp)
}

func (c *chrome) dropSession(sessionID string) {
	c.Conn.Forget(sessionID)
	c.mu.Lock()
	var gone *laneTab
	for id, t := range c.tabs {
		if t.s.ID() == sessionID {
			gone = t
			delete(c.tabs, id)
			close(c.arrived)
			c.arrived = make(chan struct{})
		}
	}
	c.mu.Unlock()
	if c.DropWorker(sessionID) {
		c.Conn.Abandon(sessionID)
	}
	if gone != nil {
		gone.end(errTabClosed)
		gone.dropFrames()
		gone.lane.remove(gone)
		gone.lane.emulateAgain()
	}
}

// awaitTab waits until the page with that ID arrived and is set up.
func (c *chrome) awaitTab(ctx context.Context, id target.ID) (*laneTab, error) {
	for {
		c.mu.Lock()
		t, arrived := c.tabs[id], c.arrived
		c.mu.Unlock()
		if t != nil {
			select {
			case <-t.ready:
				return t, nil
			case <-t.life.Done():
				return nil, context.Cause(t.life)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		select {
		case <-arrived:
		case <-c.Conn.Done():
			return nil, devtools.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
