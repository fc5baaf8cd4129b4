package consent

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// HandsGrace is how long a device still counts as an agent's after its lease of
// mouse and keyboard has ended: what was on its way then must not answer for the
// person either.
const HandsGrace = 15 * time.Second

// CallGrace is the same after a call that was allowed once: shorter, because what
// it pressed has arrived when it ends, and because a person at the device may be
// answering one call after the other. A surface that asks there waits it out.
const CallGrace = 5 * time.Second

// maxHands bounds what is remembered of hands that ended lately.
const maxHands = 1024

// Hands says that somebody else than the person can use a device's mouse or keyboard,
// or the person's own browser there.
type Hands struct {
	Node capabilities.NodeID
	By   capabilities.PrincipalID
	// Until is when that ends by itself, with the wait that follows it; zero: not known,
	// because a call runs.
	Until time.Time
	// Over says that it has ended and is only waited out.
	Over bool
}

// handsEntry is hands as they are remembered: what they can do is looked at when somebody asks.
type handsEntry struct {
	Hands
	tools []string
}

// Hands returns where an agent has its hands now, for each device those that last longest:
// by a lease, by a session grant, or while a call runs that nobody leased, for one call
// can type a whole command. Answers that widen what agents may do must
// come from elsewhere.
func (c *Consent) Hands() []Hands {
	return lasting(c.allHands(c.opts.Now()))
}

// lasting returns of each device the hands that last longest.
func lasting(all []Hands) []Hands {
	var last []Hands
	for _, h := range all {
		at := slices.IndexFunc(last, func(l Hands) bool { return l.Node == h.Node })
		switch {
		case at < 0:
			last = append(last, h)
		case !last[at].Until.IsZero() && (h.Until.IsZero() || h.Until.After(last[at].Until)):
			last[at] = h
		}
	}
	sort.Slice(last, func(i, j int) bool { return last[i].Node < last[j].Node })
	return last
}

// HandsThere is Hands where this gateway serves alone (see Everywhere).
func (c *Consent) HandsThere(context.Context) ([]Hands, error) { return c.Hands(), nil }

// HandsOn returns the nodes of Hands.
func (c *Consent) HandsOn() []capabilities.NodeID {
	var nodes []capabilities.NodeID
	for _, h := range c.Hands() {
		nodes = append(nodes, h.Node)
	}
	return nodes
}

// HandsUntil returns when Hands will be empty if nothing comes to it; zero: it is now.
// While a call runs that was allowed once nobody knows, and it is a day from now.
func (c *Consent) HandsUntil() time.Time {
	now := c.opts.Now()
	var last time.Time
	for _, h := range c.Hands() {
		if h.Until.IsZero() {
			return now.Add(24 * time.Hour)
		}
		if h.Until.After(last) {
			last = h.Until
		}
	}
	return last
}

// allHands returns all hands. Which tools are hands is asked without the lock: it is for the
// node plane to say, which calls Halt under its own.
func (c *Consent) allHands(now time.Time) []Hands {
	c.mu.Lock()
	c.ended = slices.DeleteFunc(c.ended, func(h handsEntry) bool { return !now.Before(h.Until) })
	all := slices.Clone(c.ended)
	for _, g := range c.grants {
		if h := g.hands(); now.Before(h.Until) {
			h.Over = !g.live(now)
			all = append(all, h)
		}
	}
	for _, h := range c.calls {
		all = append(all, h)
	}
	c.mu.Unlock()
	var hands []Hands
	for _, h := range all {
		if slices.ContainsFunc(h.tools, func(tool string) bool { return c.opts.Input(tool, h.Node) }) {
			hands = append(hands, h.Hands)
		}
	}
	return hands
}

// Uses says that a call of tool runs on a node without anybody's grant, because policy
// permits it; over is to be called when it has ended.
func (c *Consent) Uses(tool capabilities.ToolID, node capabilities.NodeID, by capabilities.PrincipalID) (over func()) {
	if node == "" || !c.opts.Input(string(tool), node) {
		return func() {}
	}
	id := newID("u-")
	h := handsEntry{Hands{Node: node, By: by}, []string{string(tool)}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[id] = h
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
		c.endedLocked(h, HandsGrace)
	}
}

// Ended says that the call which went on with p is over. It is to be called once for
// every permit that Await returned.
func (c *Consent) Ended(p Permit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.calls[p.Grant]; ok {
		delete(c.calls, p.Grant)
		c.endedLocked(h, CallGrace)
	}
}

// hands returns until when g counts as hands on its node, if its tools do.
func (g *Grant) hands() handsEntry {
	h := handsEntry{Hands{Node: g.Node, By: g.Principal}, g.Tools}
	switch {
	case g.Kind == KindCall || g.Node == "":
	case g.MaxUses > 0 && g.Used >= g.MaxUses:
		h.Until = g.lastUsed.Add(HandsGrace)
	default:
		h.Until = g.Expires.Add(HandsGrace)
	}
	return h
}

// letGoLocked notes that g ended before its time.
func (c *Consent) letGoLocked(g *Grant) {
	if h := g.hands(); c.opts.Now().Before(h.Until) {
		c.endedLocked(h, HandsGrace)
	}
}

// endedLocked counts ended hands for so long. Where there are too many, the oldest are
// kept: they were somebody's, and a flood of new ones must not free them.
func (c *Consent) endedLocked(h handsEntry, lasts time.Duration) {
	now := c.opts.Now()
	h.Until, h.Over = now.Add(lasts), true
	c.ended = slices.DeleteFunc(c.ended, func(o handsEntry) bool {
		return !now.Before(o.Until) || o.Node == h.Node && slices.Equal(o.tools, h.tools) && !h.Until.Before(o.Until)
	})
	if len(c.ended) < maxHands {
		c.ended = append(c.ended, h)
	}
}
