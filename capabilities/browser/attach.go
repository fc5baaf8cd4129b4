package browser

import (
	"context"
	"net/url"
	"time"

	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
)

// Attached, a lane works in a Chrome that the person runs, in the person's own
// context: their logins, and their way to the network, which no proxy of ours
// checks. So the owner has to allow it (Options.Attach), readiness then calls the
// whole family one of the person's session, and what needs the proxy (lists of
// domains) refuses. Of the tabs only those are ours that we opened, or that those
// opened; no other is read, changed or closed.

// attached returns the lane's connection to the person's Chrome.
func (l *lane) attached(ctx context.Context) (*chrome, error) {
	c, err := l.h.attachTo(ctx, l)
	if err != nil {
		return nil, err
	}
	if !c.Headless {
		l.h.windows(l)
	}
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.chrome, l.context, l.egress, l.files = c, "", nil, nil
	}
	l.mu.Unlock()
	if ended {
		l.dispose(c, "", nil)
		return nil, errLaneClosed
	}
	return c, l.h.keptBack(ctx, c, "")
}

func (h *Handler) attachTo(ctx context.Context, l *lane) (c *chrome, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := h.chromium.Attach(ctx, h.attach, h.moveIn(l, &c)); err != nil {
		return nil, closedLane(err)
	}
	if err := c.guardShared(ctx); err != nil {
		c.Close()
		return nil, process.Unreached(h.attach, err)
	}
	h.log.Info("browser.attached", "version", c.Version)
	return c, nil
}

// attach has the connection speak with a tab, which then arrives as any other.
func (c *chrome) attach(ctx context.Context, id target.ID) error {
	_, err := devtools.Do(ctx, c.Root, target.AttachToTarget, target.AttachToTargetParams{TargetID: id, Flatten: ptr(true)})
	return err
}

// meet takes in what Chrome was asked to tell of: a tab that one of ours opened, or
// during a stop a worker that is no page's.
func (c *chrome) meet(params []byte) {
	var e struct {
		TargetInfo struct {
			TargetID target.ID `json:"targetId"`
			OpenerID target.ID `json:"openerId"`
		} `json:"targetInfo"`
	}
	switch {
	case !decodeEvent(params, &e):
		return
	case !c.Attached:
		c.h.wg.Go(func() { c.attach(c.h.life, e.TargetInfo.TargetID) })
		return
	case e.TargetInfo.OpenerID == "":
		return
	}
	c.mu.Lock()
	opener := c.tabs[e.TargetInfo.OpenerID]
	c.mu.Unlock()
	if opener != nil {
		c.h.wg.Go(func() { c.attach(opener.life, e.TargetInfo.TargetID) })
	}
}

// leave closes our tabs and lets go of the person's Chrome.
func (c *chrome) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.mu.Lock()
	var closing []*devtools.Pending
	ids := make([]target.ID, 0, len(c.tabs))
	for id := range c.tabs {
		ids = append(ids, id)
	}
	c.mu.Unlock()
	for _, id := range ids {
		closing = append(closing, devtools.Start(ctx, c.Root, target.CloseTarget, target.CloseTargetParams{TargetID: id}).Pending)
	}
	for _, p := range closing {
		p.Wait(ctx)
	}
	for gone := false; !gone; {
		c.mu.Lock()
		left, changed := len(c.tabs), c.arrived
		c.mu.Unlock()
		if left == 0 {
			break
		}
		select {
		case <-changed:
		case <-c.Conn.Done():
			gone = true
		case <-ctx.Done():
			gone = true
		}
	}
	c.Close()
}

// sawRequest reports the host of a request in a lane that has no proxy to tell.
func (t *laneTab) sawRequest(address string) {
	if !t.chrome.Attached {
		return
	}
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		t.lane.sawHost(u.Hostname())
	}
}
