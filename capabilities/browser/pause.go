package browser

import (
	"context"
	"time"

	"github.com/chromedp/cdproto/debugger"

	"github.com/handrail-dev/handrail/capabilities"
)

// pauseWithin bounds handing the commands of a pause to a browser that takes none.
const pauseWithin = time.Second

var _ capabilities.Pauser = (*Handler)(nil)

// Pause holds every page of the node's own browsers, or lets them go on: scripts stop
// before their next statement, in pages, frames and workers, and no new request
// leaves. A person's own Chrome is left alone; its pages are that person's. Commands
// are sent and not waited for: a page that hangs must not hold up the stop.
func (h *Handler) Pause(on bool) {
	h.pausing.Lock()
	defer h.pausing.Unlock()
	h.rules.Hold(on)
	h.mu.Lock()
	lanes := make([]*lane, 0, len(h.lanes))
	for _, l := range h.lanes {
		lanes = append(lanes, l)
	}
	h.mu.Unlock()
	chromes := map[*chrome]bool{}
	for _, l := range lanes {
		l.mu.Lock()
		if c := l.chrome; c != nil && !c.attached {
			chromes[c] = true
		}
		l.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), pauseWithin)
	defer cancel()
	for c := range chromes {
		for _, s := range c.conn.attachedSessions() {
			if on {
				h.hold(ctx, s)
			} else {
				s.send(ctx, debugger.CommandDisable, struct{}{})
			}
		}
	}
}

// hold has a session stop before its next statement. Chrome takes a pause in front of
// the queue that enable waits in, and refuses it then; so it is sent again after it.
// h.pausing is held.
func (h *Handler) hold(ctx context.Context, s *session) {
	enabled := s.send(ctx, debugger.CommandEnable, debugger.EnableParams{MaxScriptsCacheSize: 1})
	s.send(ctx, debugger.CommandPause, struct{}{})
	h.wg.Go(func() {
		if _, err := enabled.wait(h.life); err != nil {
			return
		}
		h.pausing.Lock()
		defer h.pausing.Unlock()
		if h.rules.Held() {
			s.send(h.life, debugger.CommandPause, struct{}{})
		}
	})
}

// holdIfPaused holds what is attached while the node is stopped: a tab or a frame
// that was on its way when the stop came.
func (h *Handler) holdIfPaused(ctx context.Context, s *session) {
	h.pausing.Lock()
	defer h.pausing.Unlock()
	if h.rules.Held() {
		h.hold(ctx, s)
	}
}

// attachedSessions gives every session of a target, that is, all but the browser's
// own.
func (c *conn) attachedSessions() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*session, 0, len(c.sessions))
	for id, s := range c.sessions {
		if id != "" {
			all = append(all, s)
		}
	}
	return all
}
