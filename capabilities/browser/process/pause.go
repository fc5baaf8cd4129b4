package process

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/debugger"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// pauseWithin bounds handing the commands of a pause to a browser that takes none.
const pauseWithin = time.Second

// Pause holds every page of the Chromes that run, or lets them go on: scripts stop before
// their next statement, in pages, frames and workers, no new request leaves, and what was open
// to the network is cut. A person's own Chrome is left alone; its pages are that person's.
// Commands are sent and not waited for: a page that hangs must not hold up the stop.
func (s *Set) Pause(on bool) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	s.o.Rules.Hold(on)
	ctx, cancel := context.WithTimeout(context.Background(), pauseWithin)
	defer cancel()
	for _, c := range s.Running() {
		for _, session := range c.sessions() {
			if on {
				s.holdLocked(ctx, session)
			} else {
				session.Send(ctx, debugger.CommandDisable, struct{}{})
			}
		}
		if on {
			c.seekWorkers(ctx)
		} else {
			c.freeWorkers(ctx)
		}
	}
}

// HoldIfPaused holds what is attached while the node is stopped: a tab or a frame
// that was on its way when the stop came.
func (s *Set) HoldIfPaused(ctx context.Context, session *devtools.Session) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if s.o.Rules.Held() {
		s.holdLocked(ctx, session)
	}
}

// holdLocked has a session stop before its next statement. Chrome takes a pause in front of
// the queue that enable waits in, and refuses it then; so it is sent again after it.
// s.pausing is held.
func (s *Set) holdLocked(ctx context.Context, session *devtools.Session) {
	enabled := session.Send(ctx, debugger.CommandEnable, debugger.EnableParams{MaxScriptsCacheSize: 1})
	session.Send(ctx, debugger.CommandPause, struct{}{})
	s.work.Go(func() {
		if _, err := enabled.Wait(s.life); err != nil {
			return
		}
		s.pausing.Lock()
		defer s.pausing.Unlock()
		if s.o.Rules.Held() {
			session.Send(s.life, debugger.CommandPause, struct{}{})
		}
	})
}

// A shared worker and a service worker are no page's: pages come and go, these stay.
// Only a stop has a session with them, for Chrome keeps a worker alive that has one.
var pageless = target.Filter{{Type: "shared_worker"}, {Type: "service_worker"}, {Exclude: true}}

// seekWorkers has Chrome tell of every worker that is no page's, now and later. The set's
// pausing is held.
func (c *Chrome) seekWorkers(ctx context.Context) {
	devtools.Start(ctx, c.Root, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true, Filter: pageless})
}

// seekIfPaused is seekWorkers for a Chrome that was on its way when the stop came.
func (s *Set) seekIfPaused(c *Chrome) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if s.o.Rules.Held() {
		c.seekWorkers(s.life)
	}
}

// MeetWorker takes in the session of such a worker. It runs on the reading goroutine.
func (s *Set) MeetWorker(c *Chrome, id string) {
	session := c.Conn.Open(id, func(string, []byte) {})
	c.mu.Lock()
	c.workers[id] = session
	c.mu.Unlock()
	s.work.Go(func() { s.holdWorker(c, session) })
}

// holdWorker holds it, unless the stop has ended meanwhile.
func (s *Set) holdWorker(c *Chrome, session *devtools.Session) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	if !s.o.Rules.Held() {
		c.freeWorkers(s.life)
		return
	}
	s.holdLocked(s.life, session)
}

// freeWorkers lets them go on and ends the sessions. The set's pausing is held.
func (c *Chrome) freeWorkers(ctx context.Context) {
	devtools.Start(ctx, c.Root, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{})
	for id, session := range c.Workers() {
		session.Send(ctx, debugger.CommandDisable, struct{}{})
		devtools.Start(ctx, c.Root, target.DetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(id)})
	}
}
