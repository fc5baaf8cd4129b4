package nodes

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// siteStop is the site's stop switch as one node knows it.
type siteStop struct {
	epoch uint64
	on    bool
}

// Heeded is how many nodes obey the site's stop switch.
type Heeded struct {
	Connected int // nodes that were told
	Confirmed int // of these, those that said they obey
	Away      int // approved nodes that learn it when they come back
}

// TellStop tells every connected node the site's stop switch, side by side: one that
// does not read must not hold up the others. It returns once each was written to or
// given up; AwaitStop then waits for their word.
func (n *Nodes) TellStop(epoch uint64, on bool) {
	n.mu.RLock()
	sessions := make([]*session, 0, len(n.sessions))
	for _, s := range n.sessions {
		sessions = append(sessions, s)
	}
	n.mu.RUnlock()
	var telling sync.WaitGroup
	defer telling.Wait()
	for _, s := range sessions {
		telling.Go(func() {
			if err := s.send(&wire.Stop{SiteEpoch: epoch, SiteOn: on}); err != nil {
				// It does not read: without this connection its calls cannot go on being
				// ordered, and it hears of the stop when it comes back.
				n.log.Warn("node.stop", "node", s.node, "err", err)
				closeWith(s.conn, wire.CloseHeartbeat)
			}
		})
	}
}

// AwaitStop waits until every connected node has said that it obeys the epoch, or ctx
// ends, and tells how many do.
func (n *Nodes) AwaitStop(ctx context.Context, epoch uint64) Heeded {
	for {
		changed, told := n.Changed(), n.told()
		h := n.heeded(epoch)
		if h.Confirmed == h.Connected {
			return h
		}
		select {
		case <-changed:
		case <-told:
		case <-ctx.Done():
			return h
		}
	}
}

// told is closed when the next node says what it obeys of the site's switch.
func (n *Nodes) told() <-chan struct{} {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.obeyed
}

func (n *Nodes) heeded(epoch uint64) (h Heeded) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for id, r := range n.roster {
		switch {
		case n.sessions[id] != nil || n.elsewhere[id] != nil:
			h.Connected++
			if n.presence[id].site.epoch >= epoch {
				h.Confirmed++
			}
		case r.state == pairing.StateApproved:
			h.Away++
		}
	}
	return h
}

// setStop takes what a node says of its stop switches.
func (n *Nodes) setStop(s *session, m *wire.Stop) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.presence[s.node]
	if n.sessions[s.node] != s || m.Epoch < p.stopEpoch || m.SiteEpoch < p.site.epoch {
		return
	}
	own := m.Epoch != p.stopEpoch || m.On != p.stopped
	p.stopEpoch, p.stopped, p.site = m.Epoch, m.On, siteStop{m.SiteEpoch, m.SiteOn}
	n.presence[s.node] = p
	s.stopEpoch.Store(m.Epoch)
	n.opts.OnStop(s.node, m.Epoch, m.On)
	n.tellPlace(s)
	if own {
		n.notifyLocked()
		return
	}
	// That it obeys the site's switch changes nothing in what may be called. All nodes
	// say so at once, and whoever lists tools or shows nodes would do it anew for each.
	close(n.obeyed)
	n.obeyed = make(chan struct{})
	if !n.nudging {
		n.nudging = true
		time.AfterFunc(nudgeAfter, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.nudging = false
			n.notifyLocked()
		})
	}
}

// nudgeAfter is how long those who watch nodes may wait to see that one obeys.
const nudgeAfter = 100 * time.Millisecond
