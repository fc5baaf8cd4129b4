package atspi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

const (
	// perApp is how long one application may take if the caller does not say.
	perApp = 1500 * time.Millisecond
	// someElements is how many elements are read if the caller does not say.
	someElements = 5000
	// maxValue is how much of a field's text is its Value, in characters.
	maxValue = 1024
)

// part is what one application returned.
type part struct {
	elements []platform.Element
	hung     string
	cut      bool
	err      error
}

// Tree reads the elements of the applications that q asks for, all of them side by
// side.
func (a *Accessibility) Tree(ctx context.Context, q platform.TreeQuery) (platform.Tree, error) {
	s, err := a.open(ctx)
	if err != nil {
		return platform.Tree{}, err
	}
	if err := s.follow(ctx); err != nil {
		return platform.Tree{}, err
	}
	apps, err := s.applications(ctx)
	if err != nil {
		return platform.Tree{}, err
	}
	var top place
	if q.Root != "" {
		if top, err = s.place(q.Root); err != nil {
			return platform.Tree{}, err
		}
		owner := s.owner(top.bus)
		apps = slices.DeleteFunc(apps, func(p *app) bool { return p != owner })
		if len(apps) == 0 {
			return platform.Tree{}, platform.ErrGone
		}
	}
	if q.PID != 0 {
		apps = slices.DeleteFunc(apps, func(p *app) bool { return p.processID() != q.PID })
	}
	if q.MaxElements <= 0 {
		q.MaxElements = someElements
	}
	if q.PerApp <= 0 {
		q.PerApp = perApp
	}
	frames, stop := s.frames(ctx)
	defer stop()
	parts := make([]part, len(apps))
	var all sync.WaitGroup
	for i, p := range apps {
		all.Go(func() {
			start := top
			if q.Root == "" {
				start = p.root
			}
			parts[i] = p.read(ctx, q, start, frames)
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return platform.Tree{}, err
	}
	if !s.bus.Connected() {
		return platform.Tree{}, platform.ErrLost
	}
	if q.Root != "" && len(parts) == 1 && len(parts[0].elements) == 0 && parts[0].hung == "" {
		return platform.Tree{}, platform.ErrGone
	}
	return join(parts, q.MaxElements), nil
}

// join puts the parts together. If they are too many, the largest give way: a
// list of 10,000 rows must not hide the dialog of another application.
func join(parts []part, most int) platform.Tree {
	var t platform.Tree
	sizes := make([]int, len(parts))
	total := 0
	for i, p := range parts {
		sizes[i] = len(p.elements)
		total += sizes[i]
		t.Truncated = t.Truncated || p.cut
		if p.hung != "" {
			t.Hung = append(t.Hung, p.hung)
		}
	}
	if total > most {
		t.Truncated = true
		order := slices.Clone(sizes)
		slices.Sort(order)
		left, share := most, 0
		for i, n := range order {
			share = left / (len(order) - i)
			if n > share {
				break
			}
			left -= n
		}
		for i := range sizes {
			sizes[i] = min(sizes[i], share)
		}
	}
	for i, p := range parts {
		base := len(t.Elements)
		// Parents come before children, so what is left of a list is a tree.
		for _, e := range p.elements[:sizes[i]] {
			if e.Parent >= 0 {
				e.Parent += base
			}
			t.Elements = append(t.Elements, e)
		}
	}
	return t
}

// read reads one application in its time.
func (p *app) read(ctx context.Context, q platform.TreeQuery, top place, frames func(ctx context.Context) []platform.Window) part {
	ctx, cancel := context.WithTimeout(ctx, q.PerApp)
	defer cancel()
	select {
	case p.busy <- struct{}{}:
	case <-ctx.Done():
		return p.silent()
	}
	defer func() { <-p.busy }()
	defer p.readIndirectly()
	defer func() { p.told = nil }() // a field's text is not kept
	p.mu.Lock()
	hung := p.hung
	p.mu.Unlock()
	if hung {
		return p.silent()
	}
	var t part
	var err error
	for range 2 { // what moves all the time is not waited for
		err = p.refresh(ctx, q, top)
		if err != nil && !(errors.Is(err, context.DeadlineExceeded) && p.talks()) {
			break
		}
		var moved bool
		t.elements, t.cut, moved = p.elements(ctx, q, top, frames)
		t.cut = t.cut || err != nil
		if err = ctx.Err(); err != nil || !moved {
			break
		}
		p.mu.Lock()
		for _, nd := range p.nodes {
			nd.glance = true
		}
		p.mu.Unlock()
	}
	if err == nil {
		err = p.meetEvents(ctx)
	}
	switch {
	case err == nil || errors.Is(err, platform.ErrLost) || errors.Is(err, context.Canceled):
		t.err = err
	case p.talks():
		t.cut = true // slow, not hung
	default:
		p.probe()
		return p.silent()
	}
	return t
}

// talks reports that the application answered a moment ago: it is slow, or there
// is much to read, but it does not hang.
func (p *app) talks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.heard) < time.Second
}

// silent is the part of an application that does not answer.
func (p *app) silent() part {
	name := p.title()
	p.mu.Lock()
	defer p.mu.Unlock()
	return part{hung: name, elements: []platform.Element{{
		Ref: p.s.ref(p.root), Parent: -1, Role: "application", Name: name, App: name, PID: p.pid, States: []string{"busy"},
	}}}
}

// probe asks a question and leaves it open. While it has no answer, readings do
// not wait for the application again.
func (p *app) probe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung {
		return
	}
	p.hung = true
	go func() {
		_ = ask(p.s.ctx, p.s.bus, nil, call(p.root, ifAccessible+".GetRole"))
		p.mu.Lock()
		p.hung, p.heard = false, time.Now()
		p.mu.Unlock()
	}()
}

// elements makes the answer from the mirror. moved tells that the mirror was not
// true: things are elsewhere, so others may have come into view.
func (p *app) elements(ctx context.Context, q platform.TreeQuery, top place,
	frames func(ctx context.Context) []platform.Window) (list []platform.Element, cut, moved bool) {
	p.mu.Lock()
	nodes, list, cut := p.shownLocked(q, top)
	p.mu.Unlock()
	var err error
	switch {
	case q.Bounds:
		moved, err = p.details(ctx, nodes, list, nil)
	case p.kept():
		moved, err = p.samples(ctx, nodes, list)
	}
	p.settle(nodes, list, frames(ctx), q.Bounds)
	return list, cut || err != nil, moved
}

// shownLocked returns what the mirror has of what is visible: copies, since events go on
// changing the mirror.
func (p *app) shownLocked(q platform.TreeQuery, top place) (nodes []node, list []platform.Element, cut bool) {
	cut = p.full
	var clips []extents // what can be seen of what each is in
	index := map[place]int{}
	secret := map[place]bool{}
	p.visibleLocked(top, func(nd *node, depth int) bool {
		if !nd.basics {
			return false
		}
		if len(list) >= q.MaxElements {
			cut = true
			return false
		}
		parent, ok := index[nd.parent]
		if !ok || nd.at == top {
			parent = -1
		}
		cut = cut || nd.part
		if nd.role == rolePassword || secret[nd.parent] {
			secret[nd.at] = true
		}
		n := *nd
		above, clip := uint64(stShowing|stEnabled), everywhere
		if parent >= 0 {
			above, clip = nodes[parent].states, clips[parent]
		}
		n.states = p.effective(nd, above)
		if p.clips() {
			clip = n.clipped(clip)
		}
		clips = append(clips, clip)
		index[nd.at] = len(list)
		nodes = append(nodes, n)
		list = append(list, p.element(&n, parent, secret[nd.at]))
		return true
	})
	return nodes, list, cut
}

// element makes an element of a node; p.mu is held.
func (p *app) element(nd *node, parent int, secret bool) platform.Element {
	e := platform.Element{
		Ref: p.s.ref(nd.at), Parent: parent, Role: roleWord(nd.role), Name: label(nd.name, p.kind), Description: nd.desc,
		States: stateWords(nd.states, secret), App: p.name, PID: p.pid,
	}
	if nd.at == p.root {
		e.Role = "application"
	}
	if p.kind == gtk4 && e.Role == "button" {
		e.Name = once(e.Name)
	}
	return e
}

func (p *app) locked(make func() platform.Element) platform.Element {
	p.mu.Lock()
	defer p.mu.Unlock()
	return make()
}

// scrolls are the roles of what shows a part of what is in it.
var scrolls = map[string]bool{"scrollarea": true, "list": true, "listbox": true, "table": true, "tree": true, "grid": true}

// everywhere is a place that holds all others.
var everywhere = extents{-1 << 24, -1 << 24, 1 << 25, 1 << 25}

// clips reports that the application tells what is scrolled away by its place
// only.
func (p *app) clips() bool { return p.kind == gtk4 || p.kind == qt }

// clipped takes SHOWING from an element that lies outside of what can be seen of what it is in, and
// returns what can be seen of what is in it.
func (nd *node) clipped(clip extents) extents {
	if !nd.box.real() {
		return clip
	}
	if !nd.box.meets(clip) {
		nd.states &^= stShowing
	}
	if scrolls[roleWord(nd.role)] {
		return nd.box.cut(clip)
	}
	return clip
}

// effective returns an element's states as they are, in what it is in. GTK 4 tells
// SHOWING of windows only and ENABLED of nothing, and does not tell an element
// that what it is in is disabled.
func (p *app) effective(nd *node, above uint64) uint64 {
	states := nd.states
	if nd.at == p.root {
		return states | stShowing | stEnabled | stSensitive
	}
	if p.kind != gtk4 {
		return states
	}
	states &^= stShowing | stEnabled
	if states&stVisible != 0 {
		states |= above & stShowing
	}
	if states&stSensitive != 0 {
		states |= above & stEnabled
	}
	return states
}

// ref returns the platform's name for a place.
func (s *session) ref(at place) string { return "atspi:" + s.id + at.bus + string(at.path) }

// place reads a ref. One of another bus, or of none, means nothing that exists.
func (s *session) place(ref string) (place, error) {
	rest, ok := strings.CutPrefix(ref, "atspi:"+s.id)
	slash := strings.IndexByte(rest, '/')
	if !ok || slash < 0 || len(ref) > 512 {
		return place{}, platform.ErrGone
	}
	p := place{rest[:slash], dbus.ObjectPath(rest[slash:])}
	if !validPlace(p) {
		return place{}, platform.ErrGone
	}
	return p, nil
}

// owner returns the application whose tree the elements of a name on the bus are in.
func (s *session) owner(bus string) *app {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.apps[bus]; p != nil {
		return p
	}
	return s.guests[bus]
}
