package browser

import (
	"slices"
	"time"
)

// minIdle is how long a lane must have been idle before another may take its
// place: a conversation that is just thinking keeps its pages.
const minIdle = time.Minute

// expireLater looks for idle lanes from time to time while there are lanes. The
// caller holds h.mu.
func (h *Handler) expireLater() {
	if h.closed || h.expiry != nil {
		return
	}
	h.expiry = time.AfterFunc(h.o.LaneIdle/4, func() {
		h.mu.Lock()
		h.expiry = nil
		if h.closed {
			h.mu.Unlock()
			return
		}
		h.expireLocked(h.o.LaneIdle, len(h.lanes))
		if len(h.lanes) > 0 {
			h.expireLater()
		}
		h.mu.Unlock()
		h.idleLater()
	})
}

// expireLocked closes at most n lanes that have been idle for so long, the
// longest idle first, and reports whether it closed any. A lane with a running
// call is never idle: its turn is taken.
func (h *Handler) expireLocked(idle time.Duration, n int) bool {
	now := time.Now()
	var old []*lane
	for _, l := range h.lanes {
		if now.Sub(l.lastUse()) >= idle {
			old = append(old, l)
		}
	}
	slices.SortFunc(old, func(a, b *lane) int { return a.lastUse().Compare(b.lastUse()) })
	closed := false
	for _, l := range old[:min(n, len(old))] {
		select {
		case l.turn <- struct{}{}:
		default:
			continue // a call came
		}
		l.mu.Lock()
		l.retired = true // who waits for its turn gets a new lane of this name
		l.mu.Unlock()
		delete(h.lanes, l.id)
		h.log.Info("browser.lane.expired", "lane", l.id)
		h.wg.Go(func() {
			l.end()
			l.leave()
		})
		closed = true
	}
	return closed
}

// idleLater ends Chrome some time after the last lane.
func (h *Handler) idleLater() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.lanes) > 0 || len(h.chromes) == 0 {
		return
	}
	if h.idle != nil {
		h.idle.Stop()
	}
	h.idle = time.AfterFunc(h.o.IdleTimeout, func() {
		h.mu.Lock()
		var idle []*chrome
		if len(h.lanes) == 0 {
			for headless, c := range h.chromes {
				idle = append(idle, c)
				delete(h.chromes, headless)
			}
		}
		h.mu.Unlock()
		for _, c := range idle {
			c.Close()
		}
	})
}
