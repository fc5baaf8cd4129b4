//go:build linux

package wayland

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/platform"
)

// toplevels are the windows by wlr-foreign-toplevel: their titles and states, and
// nothing of where they are.
type toplevels struct {
	c    *Conn
	seat *object

	mu     sync.Mutex  // above what follows
	all    []*toplevel // the last activated first
	number int
	next   map[*func()]bool
}

type toplevel struct {
	ref          string
	object       *object
	now, pending toplevelFacts
	known        bool
}

type toplevelFacts struct {
	title, app        string
	minimized, active bool
}

const topRef = "wlr:"

func newToplevels(ctx context.Context, c *Conn) (*toplevels, error) {
	t := &toplevels{c: c, next: map[*func()]bool{}}
	return t, t.open(ctx)
}

func (t *toplevels) open(ctx context.Context) error {
	if t.c.Offers(toplevelManager.name) == 0 || t.c.Offers(wlSeat.name) == 0 {
		return missing("lists and arranges windows", toplevelManager.name)
	}
	var err error
	if t.seat, err = t.c.bindOne(wlSeat, nil); err != nil {
		return err
	}
	version := min(toplevelManager.version, t.c.Offers(toplevelManager.name))
	if _, err = t.c.bindOne(toplevelManager, func(m *message) {
		if m.opcode == managerToplevel {
			t.add(m.uint(), version)
		}
	}); err != nil {
		return err
	}
	for range 2 {
		if err := t.c.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// maxToplevels bounds what a compositor may make known.
const maxToplevels = 2000

func (t *toplevels) add(id, version uint32) {
	top := &toplevel{}
	object := t.c.adopt(id, toplevelHandle, version, func(m *message) { t.told(top, m) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	top.ref, top.object = topRef+strconv.Itoa(t.number), object
	if len(t.all) < maxToplevels {
		t.all = append(t.all, top)
	}
}

func (t *toplevels) told(top *toplevel, m *message) {
	t.mu.Lock()
	p := &top.pending
	var tell []*func()
	gone := false
	switch m.opcode {
	case toplevelTitle:
		p.title = m.string()
	case toplevelApp:
		p.app = m.string()
	case toplevelState:
		p.minimized, p.active = false, false
		states := m.array()
		for ; len(states) >= 4; states = states[4:] {
			switch order.Uint32(states) {
			case stateMinimized:
				p.minimized = true
			case stateActivated:
				p.active = true
			}
		}
	case toplevelClosed:
		gone = true
		t.all = slices.DeleteFunc(t.all, func(o *toplevel) bool { return o == top })
	case toplevelDone:
		if i := slices.Index(t.all, top); i > 0 && p.active && !top.now.active {
			t.all = slices.Insert(slices.Delete(t.all, i, i+1), 0, top)
		}
		top.now, top.known = *p, true
	}
	if gone || m.opcode == toplevelDone {
		for f := range t.next {
			tell = append(tell, f)
		}
	}
	t.mu.Unlock()
	if gone {
		t.c.destroy(top.object, toplevelDestroy)
	}
	for _, f := range tell {
		(*f)()
	}
}

func (t *toplevels) list(ctx context.Context) ([]platform.Window, error) {
	if err := t.c.Sync(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []platform.Window{}
	for _, top := range t.all {
		if top.known {
			list = append(list, platform.Window{Ref: top.ref, Title: top.now.title, App: top.now.app, Focused: top.now.active,
				Minimized: top.now.minimized, Z: len(list)})
		}
	}
	return list, nil
}

// do sends a window one of its requests.
func (t *toplevels) do(ctx context.Context, ref string, what uint16) error {
	if !strings.HasPrefix(ref, topRef) {
		return platform.ErrGone
	}
	if err := t.c.Sync(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	i := slices.IndexFunc(t.all, func(top *toplevel) bool { return top.ref == ref })
	var all []request
	if i >= 0 {
		object := t.all[i].object
		var args []any
		if what == toplevelActivate {
			args = []any{t.seat.id}
			if t.all[i].now.minimized {
				all = append(all, request{object, toplevelUnminimize, nil})
			}
		}
		all = append(all, request{object, what, args})
	}
	t.mu.Unlock()
	if i < 0 {
		return platform.ErrGone
	}
	return errors.Join(t.c.sendAll(all...), t.c.Sync(ctx))
}

// follow calls changed, where the connection is read, until ctx ends.
func (t *toplevels) follow(ctx context.Context, changed func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next[&changed] = true
	context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.next, &changed)
	})
	return nil
}
