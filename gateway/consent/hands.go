package consent

import (
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// handsGrace is how long a device still counts as an agent's after its lease of
// mouse and keyboard has ended: what was on its way then must not answer for the
// person either.
const handsGrace = 15 * time.Second

// maxHands bounds what is remembered of ended leases.
const maxHands = 1024

// HandsOn gives the nodes on which somebody else than the person holds mouse or
// keyboard now, by a lease or a session grant (DESIGN section 6). Answers that
// widen what agents may do must come from elsewhere.
func (c *Consent) HandsOn() []capabilities.NodeID {
	now := c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var nodes []capabilities.NodeID
	for id, until := range c.hands {
		if now.Before(until) {
			nodes = append(nodes, id)
		} else {
			delete(c.hands, id)
		}
	}
	for _, g := range c.grants {
		if until := c.handsUntil(g); now.Before(until) && !slices.Contains(nodes, g.Node) {
			nodes = append(nodes, g.Node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// handsUntil gives until when g counts as hands on its node; zero: it does not.
func (c *Consent) handsUntil(g *Grant) time.Time {
	if g.Kind == KindCall || g.Node == "" || !slices.ContainsFunc(g.Tools, c.opts.Input) {
		return time.Time{}
	}
	if g.MaxUses > 0 && g.Used >= g.MaxUses {
		return g.lastUsed.Add(handsGrace)
	}
	return g.Expires.Add(handsGrace)
}

// letGoLocked notes that g ended before its time.
func (c *Consent) letGoLocked(g *Grant) {
	now := c.opts.Now()
	if !now.Before(c.handsUntil(g)) {
		return
	}
	if len(c.hands) >= maxHands {
		for id, until := range c.hands {
			if !now.Before(until) {
				delete(c.hands, id)
			}
		}
	}
	if until := now.Add(handsGrace); c.hands[g.Node].Before(until) {
		c.hands[g.Node] = until
	}
}
