package browser

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/chromedp/cdproto/debugger"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// pauseWithin bounds handing the commands of a pause to a browser that takes none.
const pauseWithin = time.Second

var _ capabilities.Pauser = (*Handler)(nil)

// Pause holds every page of the node's own browsers, or lets them go on: scripts stop
// before their next statement, in pages, frames and workers, no new request leaves, and
// what was open to the network is cut. A person's own Chrome is left alone; its pages are
// that person's. Commands are sent and not waited for: a page that hangs must not hold up
// the stop.
func (h *Handler) Pause(on bool) {
	h.pausing.Lock()
	defer h.pausing.Unlock()
	h.rules.Hold(on)
	h.mu.Lock()
	chromes := maps.Clone(h.running)
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), pauseWithin)
	defer cancel()
	for c := range chromes {
		for _, s := range c.attachedSessions() {
			if on {
				h.hold(ctx, s)
			} else {
				s.Send(ctx, debugger.CommandDisable, struct{}{})
			}
		}
		if on {
			c.seekWorkers(ctx)
		} else {
			c.freeWorkers(ctx)
		}
	}
}

// A shared worker and a service worker are no page's: pages come and go, these stay.
// Only a stop has a session with them, for Chrome keeps a worker alive that has one.
var pageless = target.Filter{{Type: "shared_worker"}, {Type: "service_worker"}, {Exclude: true}}

// seekWorkers has Chrome tell of every worker that is no page's, now and later. h.pausing
// is held.
func (c *chrome) seekWorkers(ctx context.Context) {
	devtools.Start(ctx, c.root, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true, Filter: pageless})
}

// seekIfPaused is seekWorkers for a Chrome that was on its way when the stop came.
func (h *Handler) seekIfPaused(c *chrome) {
	h.pausing.Lock()
	defer h.pausing.Unlock()
	if h.rules.Held() {
		c.seekWorkers(h.life)
	}
}

// meetWorker takes in the session of such a worker. It runs on the reading goroutine.
func (c *chrome) meetWorker(id string) {
	s := c.conn.Open(id, func(string, []byte) {})
	c.mu.Lock()
	c.workers[id] = s
	c.mu.Unlock()
	c.h.wg.Go(func() { c.holdWorker(s) })
}

// holdWorker holds it, unless the stop has ended meanwhile.
func (c *chrome) holdWorker(s *devtools.Session) {
	c.h.pausing.Lock()
	defer c.h.pausing.Unlock()
	if !c.h.rules.Held() {
		c.freeWorkers(c.h.life)
		return
	}
	c.h.hold(c.h.life, s)
}

// freeWorkers lets them go on and ends the sessions. h.pausing is held.
func (c *chrome) freeWorkers(ctx context.Context) {
	devtools.Start(ctx, c.root, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{})
	c.mu.Lock()
	workers := maps.Clone(c.workers)
	c.mu.Unlock()
	for id, s := range workers {
		s.Send(ctx, debugger.CommandDisable, struct{}{})
		devtools.Start(ctx, c.root, target.DetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(id)})
	}
}

// hold has a session stop before its next statement. Chrome takes a pause in front of
// the queue that enable waits in, and refuses it then; so it is sent again after it.
// h.pausing is held.
func (h *Handler) hold(ctx context.Context, s *devtools.Session) {
	enabled := s.Send(ctx, debugger.CommandEnable, debugger.EnableParams{MaxScriptsCacheSize: 1})
	s.Send(ctx, debugger.CommandPause, struct{}{})
	h.wg.Go(func() {
		if _, err := enabled.Wait(h.life); err != nil {
			return
		}
		h.pausing.Lock()
		defer h.pausing.Unlock()
		if h.rules.Held() {
			s.Send(h.life, debugger.CommandPause, struct{}{})
		}
	})
}

// holdIfPaused holds what is attached while the node is stopped: a tab or a frame
// that was on its way when the stop came.
func (h *Handler) holdIfPaused(ctx context.Context, s *devtools.Session) {
	h.pausing.Lock()
	defer h.pausing.Unlock()
	if h.rules.Held() {
		h.hold(ctx, s)
	}
}

// attachedSessions returns the session of every target that is ours to hold.
func (c *chrome) attachedSessions() []*devtools.Session {
	return slices.DeleteFunc(c.conn.Sessions(), func(s *devtools.Session) bool { return s.Theirs() })
}
