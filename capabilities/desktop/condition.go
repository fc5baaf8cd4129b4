package desktop

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// holdsPixels compares pictures: a redraw that shows the same is no change.
func (w *waiter) holdsPixels(ctx context.Context) (bool, time.Time, error) {
	now, err := w.d.Screen.Frame(ctx, w.area, false)
	if err != nil {
		return false, time.Time{}, err
	}
	same := samePixels(w.last, now)
	if !same {
		w.last, now, w.calm = now, w.last, time.Now()
	}
	now.Release()
	if !same && w.state == "changed" {
		return true, time.Time{}, nil
	}
	if w.state == "changed" {
		return false, time.Time{}, nil
	}
	still := w.calm.Add(time.Duration(w.args.StableMS) * time.Millisecond)
	if !time.Now().Before(still) {
		return true, time.Time{}, nil
	}
	if w.pixels == nil { // nobody tells: look often enough to see a change
		still = earlier(still, time.Now().Add(time.Duration(w.args.PollMS)*time.Millisecond))
	}
	return false, still, nil
}

func samePixels(a, b *platform.Frame) bool {
	if a == b || a.Seq == b.Seq && a.Area == b.Area && a.Epoch == b.Epoch {
		return true
	}
	if a.Area != b.Area || a.Epoch != b.Epoch {
		return false
	}
	for y := range a.Area.Height {
		if !bytes.Equal(a.Pix[y*a.Stride:][:a.Area.Width*4], b.Pix[y*b.Stride:][:b.Area.Width*4]) {
			return false
		}
	}
	return true
}

// holdsLaunched waits for a window of the application that was started: of its
// process, or else a new one.
func (w *waiter) holdsLaunched(ctx context.Context) (bool, error) {
	now, err := w.h.windows(ctx)
	if err != nil {
		return false, err
	}
	w.window = nil
	for i := range now {
		if slices.ContainsFunc(w.before, func(o platform.Window) bool { return o.Ref == now[i].Ref }) {
			continue
		}
		if w.window == nil || now[i].PID == w.pid && w.pid != 0 {
			w.window = &now[i]
		}
	}
	return w.window != nil, nil
}

func (w *waiter) holdsWindow(ctx context.Context) (bool, error) {
	now, err := w.h.windows(ctx)
	if err != nil {
		return false, err
	}
	found, _ := selector.OfWindow(w.args.Window).Windows(now)
	w.window = nil
	for i := range found {
		if w.window == nil || found[i].Focused {
			w.window = &found[i]
		}
	}
	shows := slices.ContainsFunc(found, func(o platform.Window) bool { return !o.Minimized })
	switch w.state {
	case "exists":
		return w.window != nil, nil
	case "gone":
		return w.window == nil, nil
	case "visible":
		return shows, nil
	case "hidden":
		return !shows, nil
	}
	return w.window != nil && w.window.Focused, nil
}

// holdsElement looks at what the selector matches. Of several, one in the state
// is enough; for hidden and gone, none may be left.
func (w *waiter) holdsElement(ctx context.Context) (bool, error) {
	list, err := w.matches(ctx)
	if err != nil {
		return false, err
	}
	w.found = nil
	if len(list) > 0 {
		w.found = &list[0]
	}
	so := func(e *platform.Element) bool { return true }
	switch w.state {
	case "gone":
		return len(list) == 0 && len(w.hung) == 0, nil
	case "hidden":
		return !slices.ContainsFunc(list, func(e platform.Element) bool { return selector.Visible(&e) }) && len(w.hung) == 0, nil
	case "visible":
		so = selector.Visible
	case "enabled", "focused":
		so = func(e *platform.Element) bool { return is(e, w.state) }
	case "disabled":
		so = func(e *platform.Element) bool { return !is(e, "enabled") }
	case "checked":
		so = on
	case "unchecked":
		so = func(e *platform.Element) bool { return !on(e) && !is(e, "mixed") }
	case "value":
		so = func(e *platform.Element) bool { return w.shows(ctx, e) }
	}
	for i := range list {
		if so(&list[i]) {
			w.found = &list[i]
			return true, nil
		}
	}
	return false, nil
}

// shows reports whether the element's value, or what it is labelled with, is the
// one that is waited for.
func (w *waiter) shows(ctx context.Context, e *platform.Element) bool {
	want := selector.Simple(*w.args.Value)
	if selector.Simple(e.Value) == want || e.Value == "" && selector.Simple(e.Name) == want {
		return true
	}
	if is(e, "protected") || !is(e, "editable") {
		return false
	}
	text, err := w.d.Accessibility.Text(ctx, e.Ref, readMost)
	return err == nil && selector.Simple(text) == want
}

// matches returns what the selector matches now, what shows first.
func (w *waiter) matches(ctx context.Context) ([]platform.Element, error) {
	w.hung = nil
	if w.sel.OnlyRef() != "" {
		e, err := w.h.resolve(ctx, w.d, w.sel)
		switch code := capabilities.CodeOf(err); {
		case err == nil:
			return []platform.Element{e}, nil
		case isGone(err), errors.Is(err, errOldRef), code == capabilities.CodeElementNotFound:
			return nil, nil
		case code == capabilities.CodeAppHung:
			w.hung = hungNames(err)
		}
		return nil, err
	}
	s, err := w.h.scene(ctx, w.d, w.sel)
	if err != nil {
		return nil, err
	}
	w.hung, w.looked = s.Names(), s
	var list []platform.Element
	for _, i := range shownFirst(s, s.Find(w.sel)) {
		e := s.Elements[i]
		if len(list) < 16 && !w.sel.Measures() {
			if now, err := w.d.Accessibility.Element(ctx, e.Ref); err == nil {
				now.Window = firstOf(now.Window, e.Window)
				e = now
			} else if isGone(err) {
				continue
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// hungNames returns the names that hungError put into an error.
func hungNames(err error) []string {
	if names := capabilities.DetailsOf[hungApps](err).Hung; len(names) > 0 {
		return names
	}
	return []string{"unknown"}
}
