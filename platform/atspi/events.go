package atspi

import (
	"context"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// DeliverSignal takes each signal in the order it came, before answers that came
// after it are handed out. It must not wait for anything.
func (s *session) DeliverSignal(iface, member string, signal *dbus.Signal) {
	if iface == ifBus {
		if signal.Sender == ifBus && member == "NameOwnerChanged" {
			s.left(signal.Body)
		}
		return
	}
	kind, ours := strings.CutPrefix(iface, "org.a11y.atspi.Event.")
	if !ours || len(signal.Body) < 4 {
		return
	}
	detail, _ := signal.Body[0].(string)
	one, _ := signal.Body[1].(int32)
	var value any
	if v, ok := signal.Body[3].(dbus.Variant); ok {
		value = v.Value()
	}
	at := place{signal.Sender, signal.Path}
	if !validPlace(at) {
		return
	}
	kid, hasKid := place{}, false
	if member == "ChildrenChanged" {
		kid, hasKid = decodePlace(value)
	}
	p := s.owner(at.bus)
	pid := 0
	if p != nil {
		pid = p.changed(kind, member, detail, one, at, kid)
	}
	e := platform.ElementEvent{PID: pid, Ref: s.ref(at)}
	switch {
	case kind == "Window":
		e.Kind = "window"
	case member == "ChildrenChanged":
		e.Kind = "added"
		if strings.HasPrefix(detail, "remove") {
			e.Kind = "removed"
		}
		if hasKid {
			e.Ref = s.ref(kid)
		}
	case member == "TextChanged":
		e.Kind = "text"
	case member == "StateChanged" && detail == "focused" && one != 0:
		e.Kind = "focused"
	default:
		e.Kind = "changed"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		l.put(e)
	}
}

// left forgets an application that left the bus.
func (s *session) left(body []any) {
	name, _ := body[0].(string)
	s.mu.Lock()
	p := s.apps[name]
	delete(s.apps, name)
	delete(s.guests, name)
	if p != nil {
		for bus, host := range s.guests {
			if host == p {
				delete(s.guests, bus)
			}
		}
	}
	var pid int
	if p != nil {
		p.mu.Lock()
		p.gone = true
		pid = p.pid
		clear(p.nodes)
		p.mu.Unlock()
		p.hangUp()
	}
	for l := range s.listeners {
		if p != nil {
			l.put(platform.ElementEvent{PID: pid, Ref: s.ref(p.root), Kind: "removed"})
		}
	}
	lines := s.lines[name]
	delete(s.lines, name)
	s.mu.Unlock()
	for _, c := range lines {
		go c.Close() // signals are not to wait for it
	}
}

// changed brings the mirror up to an event; kid is the child that it is about, if it is about one.
// It returns the application's process.
func (p *app) changed(kind, member, detail string, one int32, at, kid place) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	if kind == "Document" || member == "StateChanged" && strings.HasPrefix(detail, "busy") && one == 0 {
		// A page was loaded, of which nothing else is told.
		p.upset, p.loaded = p.reading, false
	}
	nd := p.nodes[at]
	if nd == nil || kind == "Window" {
		return p.pid
	}
	switch member {
	case "ChildrenChanged":
		nd.kidsStale = p.count
		if p.kind == web && strings.HasPrefix(detail, "add") {
			p.renewLocked(kid)
		}
	case "StateChanged":
		bit := stateNames[strings.TrimSuffix(detail, ":system")]
		nd.told, nd.acts = p.count, false // what checks a box that is not checked unchecks one that is
		if p.reading || bit == 0 || p.kind == web {
			nd.stale = p.count // Chromium says "enabled", and nothing of "focusable", which goes with it
		}
		switch {
		case p.reading:
		case one != 0:
			nd.states |= bit
		default:
			nd.states &^= bit
		}
	case "PropertyChange":
		nd.stale, nd.told, nd.acts = p.count, p.count, false
		switch detail {
		case "accessible-role":
			nd.basics = false
		case "accessible-description":
			nd.faced = false
		}
	}
	return p.pid
}

// renewLocked has an element and all in it asked for anew. Chromium puts one of another role where
// one was, under the same name on the bus, and tells only that it was added: a link that goes
// nowhere any more is another element. A change that is told of again before anybody asked is not
// gone through again.
func (p *app) renewLocked(at place) {
	top := p.nodes[at]
	if top == nil || top.renewed > p.round {
		return
	}
	top.renewed = p.count
	p.walkLocked(at, func(nd *node, _ int) bool {
		nd.stale, nd.kidsStale, nd.told, nd.acts = p.count, p.count, p.count, false
		return true
	})
}

// maxWaiting is how many events wait for a receiver before they are joined.
const maxWaiting = 64

// listener is one receiver of events.
type listener struct {
	mu      sync.Mutex // guards what follows
	waiting []platform.ElementEvent
	ended   bool

	wake chan struct{}
}

func (l *listener) put(e platform.ElementEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 && l.waiting[n-1] == e {
		return
	}
	if len(l.waiting) >= maxWaiting {
		l.waiting = append(l.waiting[:0], platform.ElementEvent{Kind: "changed"})
	} else {
		l.waiting = append(l.waiting, e)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *listener) take() (events []platform.ElementEvent, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, l.waiting = l.waiting, nil
	return events, l.ended
}

// Events delivers what changes. The channel is closed when ctx ends or the
// connection does.
func (a *Accessibility) Events(ctx context.Context) (<-chan platform.ElementEvent, error) {
	s, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	l := &listener{wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	drop := func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}
	if err := s.follow(ctx); err != nil {
		drop()
		return nil, err
	}
	if _, err := s.applications(ctx); err != nil {
		drop()
		return nil, err
	}
	out := make(chan platform.ElementEvent)
	go func() {
		defer close(out)
		defer drop()
		for {
			select {
			case <-l.wake:
			case <-s.bus.Context().Done():
				return
			case <-ctx.Done():
				return
			}
			events, ended := l.take()
			for _, e := range events {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			if ended {
				return
			}
		}
	}()
	return out, nil
}
