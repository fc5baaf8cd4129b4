package atspi

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// manyKids is how many children of one element are listed; of more, only those
// that are on the screen and some around them.
const manyKids = 256

// refresh makes the mirror true for what is visible below top (p.root for all), and
// may ask for bounds on the way if q wants them.
// Its caller holds p.busy. It may end before it is done; what was read stays
// read.
func (p *app) refresh(ctx context.Context, q platform.TreeQuery, top place) error {
	if err := p.meet(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.reading = true
	since := p.sinceLocked()
	p.began = since
	for _, nd := range p.nodes {
		nd.away = false // until it is looked at
		if nd.part || nd.states&stManagesDescendants != 0 {
			nd.kidsStale = max(nd.kidsStale, 1) // what scrolls says nothing of it
		}
	}
	if p.kind == qt || !p.loaded || p.kind == unknownToolkit && p.noCache {
		for _, nd := range p.nodes {
			nd.stale, nd.kidsStale = max(nd.stale, 1), max(nd.kidsStale, 1)
		}
	}
	bulk := !p.loaded || p.kind != qt && !p.keptLocked() || p.manyStaleLocked()
	if bulk {
		p.full = false
	}
	for _, nd := range p.nodes {
		if p.kind == web && (isDocument(nd.role) || isField(nd.role)) {
			// A document's name follows the page's without a word, and a field of text becomes
			// one of a password, or is that no more.
			nd.stale = max(nd.stale, 1)
		}
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.reading = false
		p.mu.Unlock()
	}()
	switch {
	case p.kind == gtk4:
		// Its cache holds what somebody asked for, so everything is asked for.
		if err := p.list(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		since = p.sinceLocked()
		p.mu.Unlock()
		if err := p.bulk(ctx, since); err != nil {
			return err
		}
	case p.kind == qt:
	case bulk:
		line := p.readDirectly()
		if err := p.bulk(ctx, since); err != nil {
			return err
		}
		awaitLine(ctx, line)
	}
	p.told = map[asked]*question{}
	if err := p.complete(ctx, q, top); err != nil {
		return err
	}
	if err := p.look(ctx, top); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loaded = !p.upset
	p.upset = false
	if top == p.root {
		p.sweepLocked()
	}
	return nil
}

// sinceLocked notes that questions go out now, and returns the count of events by which their
// answers are known to be newer than those that came.
func (p *app) sinceLocked() uint64 {
	p.round = p.count
	return p.count
}

// sweepLocked forgets elements that are in no other any more.
func (p *app) sweepLocked() {
	live := make(map[place]*node, len(p.nodes))
	p.walkLocked(p.root, func(nd *node, depth int) bool {
		live[nd.at] = nd
		return true
	})
	if len(live) < len(p.nodes) {
		p.nodes = live
	}
}

// manyStaleLocked reports that reading everything is cheaper than reading what
// changed.
func (p *app) manyStaleLocked() bool {
	n := 0
	for _, nd := range p.nodes {
		if nd.stale != 0 || nd.kidsStale != 0 {
			n++
		}
	}
	return n > 64 && n > len(p.nodes)/8
}

// bulk reads the application's cache. An application that has none is read
// element by element, which is not this function's.
func (p *app) bulk(ctx context.Context, since uint64) error {
	wait := time.Millisecond
	for began := time.Now(); ; {
		q := call(place{p.root.bus, pathCache}, ifCache+".GetItems")
		if err := p.ask(ctx, q); err != nil {
			return err
		}
		p.mu.Lock()
		p.noCache = q.err != nil
		p.mu.Unlock()
		if q.err == nil {
			items, cut := decodeItems(q.body)
			p.install(items, cut, since)
			return nil
		}
		p.mu.Lock()
		loaded := p.loaded
		p.mu.Unlock()
		if !lacks(q.err) || loaded || p.kind != gtk3 && p.kind != web || time.Since(began) > 500*time.Millisecond {
			return nil
		}
		// ATK's bridge makes the cache when it hears that somebody registered for
		// events, which the registry told it a moment ago.
		select {
		case <-time.After(wait):
			wait = min(2*wait, 20*time.Millisecond)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// install takes a whole cache into the mirror. Events that came after since may
// be newer than the items.
func (p *app) install(items []item, cut bool, since uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = p.full || cut
	type kid struct {
		index int
		at    place
	}
	kids := map[place][]kid{}
	for i := range items {
		it := &items[i]
		if it.at.bus != p.root.bus {
			continue // nobody speaks for others
		}
		nd := p.nodeLocked(it.at, it.parent)
		if nd == nil {
			continue
		}
		nd.acts = nd.acts && nd.states == it.states && nd.role == it.role && p.kind != gtk4 // whose actions follow what it is in
		nd.role, nd.name, nd.desc, nd.ifaces = it.role, it.name, it.desc, it.ifaces
		nd.states, nd.basics, nd.faced = it.states, true, true
		if p.kind != gtk4 { // which is not of one mind about who is whose child
			nd.parent, nd.count = it.parent, it.count
		}
		nd.glance = false
		if nd.stale <= since {
			nd.stale = 0
		}
		switch {
		case it.kids != nil:
			nd.kids, nd.listed = it.kids, true
		case it.parent.bus == p.root.bus:
			kids[it.parent] = append(kids[it.parent], kid{it.index, it.at})
		}
	}
	if p.kind == gtk4 {
		return
	}
	for i := range items {
		nd := p.nodes[items[i].at]
		if nd == nil || items[i].kids != nil || items[i].at.bus != p.root.bus {
			continue
		}
		list := kids[nd.at]
		sure := len(list) == nd.count
		sort.SliceStable(list, func(i, j int) bool { return list[i].index < list[j].index })
		for j := range list {
			sure = sure && list[j].index == j
		}
		if !sure {
			// Someone who manages its descendants keeps them out of the cache, and a
			// cache may be behind: ask.
			nd.listed = false
		}
		places := make([]place, len(list))
		for j := range list {
			places[j] = list[j].at
		}
		if !sure {
			if p.kind == gtk3 && len(nd.kids) == 0 {
				nd.kids = places // what lies below is asked for at the same time
			}
			continue
		}
		nd.kids, nd.listed, nd.part = places, true, false
		if nd.kidsStale <= since {
			nd.kidsStale = 0
		}
	}
}

// nodeLocked returns the node for a place, making it if there is room.
func (p *app) nodeLocked(at, parent place) *node {
	nd := p.nodes[at]
	if nd == nil {
		if len(p.nodes) >= maxNodes {
			p.full = true
			return nil
		}
		nd = &node{at: at, parent: parent, count: -1}
		p.nodes[at] = nd
	}
	return nd
}

// list asks for the children of everything, level by level, and for nothing else.
func (p *app) list(ctx context.Context) error {
	level := []place{p.root}
	seen := map[place]bool{p.root: true}
	for depth := 0; len(level) > 0 && depth < maxDepth && len(seen) < maxNodes; depth++ {
		questions := make([]*question, len(level))
		for i, at := range level {
			questions[i] = call(at, ifAccessible+".GetChildren")
		}
		p.mu.Lock()
		since := p.sinceLocked()
		p.mu.Unlock()
		if err := p.ask(ctx, questions...); err != nil {
			return err
		}
		level = level[:0:0]
		p.mu.Lock()
		for _, q := range questions {
			nd := p.nodeLocked(q.at, place{})
			if nd == nil {
				continue
			}
			kids, cut := decodePlaces(q.first(), maxNodes)
			p.full = p.full || cut
			nd.kids, nd.listed, nd.count = kids, q.err == nil, len(kids)
			if nd.kidsStale <= since {
				nd.kidsStale = 0
			}
			for _, kid := range kids {
				if !seen[kid] && len(seen) < maxNodes {
					seen[kid] = true
					if c := p.nodeLocked(kid, q.at); c != nil {
						c.parent = q.at
					}
					level = append(level, kid)
				}
			}
		}
		p.mu.Unlock()
	}
	return nil
}

// complete asks, level by level, for what the mirror lacks of what is visible.
func (p *app) complete(ctx context.Context, q platform.TreeQuery, top place) error {
	triedBasics, triedKids := map[place]bool{}, map[place]bool{}
	beside := p.beside(q, top)
	for range 2 * maxDepth {
		p.mu.Lock()
		bare, unlisted := p.lackingLocked(top)
		since := p.sinceLocked()
		p.mu.Unlock()
		// An application whose events come as fast as we read is never done.
		unlisted = slices.DeleteFunc(unlisted, func(nd *node) bool { return triedKids[nd.at] })
		bare = slices.DeleteFunc(bare, func(nd *node) bool { return triedBasics[nd.at] })
		if len(bare)+len(unlisted)+len(beside) == 0 {
			return ctx.Err()
		}
		for _, nd := range unlisted {
			triedKids[nd.at] = true
		}
		for _, nd := range bare {
			triedBasics[nd.at] = true
		}
		if err := p.describe(ctx, bare, unlisted, beside, since, q.Bounds); err != nil {
			return err
		}
		beside = nil
	}
	return nil
}

// lackingLocked lists visible nodes whose own data and whose children are to be
// asked for.
func (p *app) lackingLocked(top place) (bare, unlisted []*node) {
	if p.nodeLocked(top, place{}) == nil {
		return nil, nil
	}
	p.walkLocked(top, func(nd *node, depth int) bool {
		if !nd.basics || nd.stale != 0 || nd.glance {
			bare = append(bare, nd) // what is hidden, too: it may not be any more
			if !nd.basics {
				if p.kind == web && !nd.listed { // all it has is there already: one way less
					unlisted = append(unlisted, nd)
				}
				return false
			}
		}
		if !p.inViewLocked(nd, top) {
			return false
		}
		if nd.count == 0 && !nd.listed {
			nd.listed, nd.kids = true, nil
		}
		if !nd.listed || nd.kidsStale != 0 {
			unlisted = append(unlisted, nd)
		}
		return true
	})
	return bare, unlisted
}

// visibleLocked visits what is on the screen or can be scrolled there, below top.
func (p *app) visibleLocked(top place, visit func(nd *node, depth int) bool) {
	p.walkLocked(top, func(nd *node, depth int) bool {
		if !p.inViewLocked(nd, top) {
			return false
		}
		below := visit(nd, depth)
		return below && (nd.at == top || nd.states&stShowing != 0 || !isMenu(nd.role) || p.kind == gtk4)
	})
}

// inViewLocked reports whether a node is one of those. An item in a closed menu is not, unless that
// menu is top: its items can be used as they are.
func (p *app) inViewLocked(nd *node, top place) bool {
	switch {
	case !nd.basics || nd.at == p.root || nd.at == top:
		return true
	case nd.states&stDefunct != 0 || nd.states&(stShowing|stVisible) == 0 || nd.away:
		return false
	case nd.states&stShowing != 0 || p.kind == gtk4:
		return true
	}
	in := p.nodes[nd.parent]
	inMenu := in != nil && isMenu(in.role)
	if isMenu(nd.role) || inMenu {
		return inMenu && in.at == top
	}
	return true
}

func isMenu(role uint32) bool { return role == roleMenu || role == rolePopupMenu }

// walkLocked visits top and what is below it, parents first, each once; visit
// tells whether to go on below.
func (p *app) walkLocked(top place, visit func(nd *node, depth int) bool) {
	var seen []*node
	var walk func(at place, depth int)
	walk = func(at place, depth int) {
		nd := p.nodes[at]
		if nd == nil || nd.seen || depth > maxDepth {
			return
		}
		nd.seen = true
		seen = append(seen, nd)
		if !visit(nd, depth) {
			return
		}
		for _, kid := range nd.kids {
			walk(kid, depth+1)
		}
	}
	walk(top, 0)
	for _, nd := range seen {
		nd.seen = false
	}
}
