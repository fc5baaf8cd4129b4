package atspi

import (
	"context"

	"github.com/handrail-dev/handrail/platform"
)

// frames starts to list the windows, beside whatever else is read. get waits for
// the list; stop ends what is under way.
func (s *session) frames(ctx context.Context) (get func(context.Context) []platform.Window, stop func()) {
	if s.options.Windows == nil {
		return func(context.Context) []platform.Window { return nil }, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var list []platform.Window
	done := make(chan struct{})
	go func() {
		defer close(done)
		list, _ = s.options.Windows.List(ctx) // without it bounds of GTK 4 are missing, no more
	}()
	get = func(ctx context.Context) []platform.Window {
		select {
		case <-done:
			return list
		case <-ctx.Done():
			return nil
		}
	}
	return get, func() { cancel(); <-done }
}

// settle returns elements the window they are in, and their bounds on the desktop.
func (p *app) settle(nodes []node, list []platform.Element, windows []platform.Window, bounds bool) {
	p.mu.Lock()
	pid, kind := p.pid, p.kind
	p.mu.Unlock()
	var own []platform.Window
	for _, w := range windows {
		if pid != 0 && w.PID == pid {
			own = append(own, w)
		}
	}
	relative := kind == gtk4 || p.s.options.InWindows
	type frame struct {
		ref  string
		x, y int
		ok   bool
	}
	in := make([]frame, len(list))
	taken := map[string]bool{}
	for i := range nodes {
		nd, e := &nodes[i], &list[i]
		var f frame
		if e.Parent >= 0 {
			f = in[e.Parent]
		}
		if e.Parent >= 0 && list[e.Parent].Role == "application" || e.Parent < 0 && e.Role != "application" {
			if w, ok := match(own, e.Name, nd.box, relative, taken); ok {
				taken[w.Ref] = true
				origin := w.Content
				if int32(w.Content.Width) != nd.box[2] && int32(w.Bounds.Width) == nd.box[2] && int32(w.Bounds.Height) == nd.box[3] {
					origin = w.Bounds
				}
				f = frame{w.Ref, origin.X, origin.Y, true}
			}
		}
		in[i] = f
		e.Window = f.ref
		if !bounds || nd.states&stShowing == 0 || !nd.box.real() {
			continue
		}
		r := platform.Rect{X: int(nd.box[0]), Y: int(nd.box[1]), Width: int(nd.box[2]), Height: int(nd.box[3])}
		if relative {
			if !f.ok {
				continue
			}
			r.X, r.Y = r.X+f.x, r.Y+f.y
		}
		e.Bounds = r
	}
}

// match finds the window of a top element: by its title, by its size, and if
// there is but one left, by being that.
func match(own []platform.Window, title string, box extents, relative bool, taken map[string]bool) (platform.Window, bool) {
	best, score := -1, 0
	left := 0
	for i, w := range own {
		if taken[w.Ref] {
			continue
		}
		left++
		n := 0
		if title != "" && w.Title == title {
			n += 4
		}
		if box.real() {
			for _, r := range []platform.Rect{w.Content, w.Bounds} {
				if int(box[2]) == r.Width && int(box[3]) == r.Height {
					n += 2
					break
				}
			}
			if !relative && (int(box[0]) == w.Content.X && int(box[1]) == w.Content.Y || int(box[0]) == w.Bounds.X && int(box[1]) == w.Bounds.Y) {
				n += 3
			}
		}
		if n > score {
			best, score = i, n
		}
	}
	if best < 0 && left == 1 {
		for i, w := range own {
			if !taken[w.Ref] {
				best = i
			}
		}
	}
	if best < 0 {
		return platform.Window{}, false
	}
	return own[best], true
}
