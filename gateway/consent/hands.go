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

// CallGrace is the same after a call that was allowed once: shorter, because what
// it pressed has arrived when it ends, and because a person at the device may be
// answering one call after the other. A surface that asks there waits it out.
const CallGrace = 5 * time.Second

// maxHands bounds what is remembered of ended leases.
const maxHands = 1024

// HandsOn gives the nodes on which somebody else than the person holds mouse or
// keyboard now: by a lease, by a session grant, or while a call runs that was allowed
// once, for one call can type a whole command (DESIGN section 6). Answers that widen
// what agents may do must come from elsewhere.
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
	for _, node := range c.calls {
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// HandsUntil gives when HandsOn will be empty if nothing comes to it; zero: it is now.
// While a call runs that was allowed once nobody knows, and it is a day from now.
func (c *Consent) HandsUntil() time.Time {
	now := c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	var last time.Time
	later := func(t time.Time) {
		if now.Before(t) && last.Before(t) {
			last = t
		}
	}
	for _, until := range c.hands {
		later(until)
	}
	for _, g := range c.grants {
		later(c.handsUntil(g))
	}
	if len(c.calls) > 0 {
		later(now.Add(24 * time.Hour))
	}
	return last
}

// Ended says that the call which went on with p is over. It is to be called once for
// every permit that Await gave.
func (c *Consent) Ended(p Permit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node, ok := c.calls[p.Grant]; ok {
		delete(c.calls, p.Grant)
		c.handsLocked(node, CallGrace)
	}
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
	if c.opts.Now().Before(c.handsUntil(g)) {
		c.handsLocked(g.Node, handsGrace)
	}
}

// handsLocked counts a node as an agent's for so long.
func (c *Consent) handsLocked(node capabilities.NodeID, lasts time.Duration) {
	now := c.opts.Now()
	if len(c.hands) >= maxHands {
		for id, until := range c.hands {
			if !now.Before(until) {
				delete(c.hands, id)
			}
		}
	}
	if until := now.Add(lasts); c.hands[node].Before(until) {
		c.hands[node] = until
	}
}
