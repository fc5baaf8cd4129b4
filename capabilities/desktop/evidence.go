package desktop

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// actWait bounds the wait for the first sign of what an act did; a sign ends it at
// once.
const actWait = 250 * time.Millisecond

// goalWait bounds the wait for what was asked, once something else was seen to
// happen: the application is at it.
const goalWait = time.Second

// patient returns the bound of a wait in which the slowest look took so long. Where
// looks are slow, because the machine is busy, what is looked for is slow to come.
func patient(most, slowest time.Duration) time.Duration {
	const looks, enough = 10, 5 * time.Second
	return max(most, min(looks*slowest, enough))
}

// rereads are when the element itself is read again, after the act, for toolkits
// that tell nobody of a change.
var rereads = []time.Duration{0, 15 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, actWait}

// trace looks for what an act does. It is begun before the act, so that nothing
// is missed: it holds what the element and the windows were, and listens to the
// application, to the windows and to the screen. Evidence never holds a word of
// the screen's or the caller's.
type trace struct {
	h       *call
	d       *platform.Desktop
	target  platform.Element  // what is acted on; without Ref there is none
	windows []platform.Window // before
	menus   map[string]bool   // refs of menus and their items, if the target is one: that they open and close is no effect
	stop    context.CancelFunc

	events  <-chan platform.ElementEvent
	changes <-chan struct{}
	pixels  <-chan platform.Rect

	slowest  time.Duration     // reading of the target and the windows
	after    *platform.Element // the target when it was last read
	appeared *platform.Window  // that was not there before
}

// verdict is what an act was seen to do.
type verdict struct {
	effect   capabilities.Effect
	evidence string
}

func sure(evidence string) verdict { return verdict{capabilities.EffectConfirmed, evidence} }

// trace begins to look.
func (h *call) trace(ctx context.Context, d *platform.Desktop, target platform.Element, windows []platform.Window) *trace {
	ctx, stop := context.WithCancel(ctx)
	t := &trace{h: h, d: d, target: target, windows: windows, stop: stop}
	if d.Accessibility != nil {
		t.events, _ = d.Accessibility.Events(ctx)
	}
	if d.Windows != nil {
		t.changes, _ = d.Windows.Changes(ctx)
	}
	if area := t.area(); d.Screen != nil && !area.Empty() {
		t.pixels, _ = d.Screen.Changes(ctx, area)
	}
	return t
}

// area is where pixels would change: the target's window, or about the target.
func (t *trace) area() platform.Rect {
	for _, w := range t.windows {
		if w.Ref == t.target.Window && w.Ref != "" {
			return w.Bounds
		}
	}
	if b := t.target.Bounds; !b.Empty() {
		return platform.Rect{X: b.X - nearby/2, Y: b.Y - nearby/2, Width: b.Width + nearby, Height: b.Height + nearby}
	}
	return platform.Rect{}
}

// forget drops what was seen so far: the act begins now.
func (t *trace) forget() {
	drop(t.events)
	drop(t.changes)
	drop(t.pixels)
}

func drop[T any](c <-chan T) {
	for {
		select {
		case _, ok := <-c:
			if ok {
				continue
			}
		default:
		}
		return
	}
}

// weak signs are not enough to end the search, but better than none.
type weak struct{ focus, pixels, elsewhere bool }

// await waits until goal holds of the element (or, without one, until anything
// shows that the act did something). done, if not nil, tells when the application
// has answered; an error there counts only if nothing was seen, since some
// applications answer when the dialog they opened is closed again.
func (t *trace) await(ctx context.Context, goal func(e *platform.Element) string, done <-chan error) (verdict, error) {
	var seen weak
	began, next := time.Now(), 0
	timer := time.NewTimer(rereads[0])
	defer timer.Stop()
	if done != nil {
		timer.Stop()
	}
	for {
		look := false
		select {
		case err := <-done:
			if err != nil {
				if v, ok := t.check(ctx, goal); ok {
					return v, nil
				}
				return verdict{}, err
			}
			done, began, look = nil, time.Now(), true
			if goal == nil && seen.elsewhere {
				return t.changedElsewhere(ctx), nil
			}
			next = 1
			timer.Reset(rereads[next])
		case <-timer.C:
			look = true
			again := actWait / 2
			if next++; next < len(rereads) {
				again = rereads[next] - time.Since(began)
			}
			timer.Reset(again)
		case e, ok := <-t.events:
			if !ok {
				t.events = nil
				continue
			}
			look = t.tells(e, &seen) || e.Kind == "window"
			if goal == nil && seen.elsewhere && done == nil {
				return t.changedElsewhere(ctx), nil
			}
		case _, ok := <-t.changes:
			if !ok {
				t.changes = nil
				continue
			}
			look = true
		case _, ok := <-t.pixels:
			if !ok {
				t.pixels = nil
				continue
			}
			seen.pixels = true
		case <-ctx.Done():
			return verdict{}, ctx.Err()
		}
		if look {
			if v, ok := t.check(ctx, goal); ok {
				return v, nil
			}
		}
		most := actWait
		if goal != nil && seen != (weak{}) {
			most = goalWait
		}
		if done == nil && time.Since(began) >= patient(most, t.slowest) {
			return t.nothing(seen, goal != nil), nil
		}
	}
}

// changedElsewhere is the verdict when another element changed and the application
// has answered: what it was busy with before shows while it has not.
func (t *trace) changedElsewhere(ctx context.Context) verdict {
	if v, ok := t.check(ctx, nil); ok { // what is the element's own says more
		return v
	}
	return sure("the application changed another of its elements")
}

// tells notes what an event says, and reports whether the element is to be read
// again.
func (t *trace) tells(e platform.ElementEvent, seen *weak) bool {
	if e.PID != t.target.PID && e.PID != 0 {
		return false
	}
	own := e.Ref == t.target.Ref
	switch {
	case e.Kind == "focused":
		seen.focus = true
	case !own && e.Ref != "" && !t.menus[e.Ref]:
		seen.elsewhere = true
	}
	return own || e.Ref == ""
}

// nothing is the verdict when no evidence came in time.
func (t *trace) nothing(seen weak, aimed bool) verdict {
	switch {
	case seen.elsewhere:
		return verdict{capabilities.EffectPartial, "the application changed another of its elements, but not what was asked"}
	case seen.focus && !aimed:
		return verdict{capabilities.EffectPartial, "the focus moved; nothing else was seen to change"}
	case seen.pixels:
		return verdict{capabilities.EffectPartial, "the screen changed there; the element did not"}
	case t.events == nil && t.pixels == nil && t.changes == nil:
		return verdict{capabilities.EffectUnverifiable, "this desktop does not tell what changed"}
	}
	return verdict{
		capabilities.EffectSuspectNoop, "nothing was seen to change: not the element, not its application, not its part of the screen",
	}
}

// readTime bounds one reading of the element while an act is under way.
const readTime = 800 * time.Millisecond

// check reads the element and the windows.
func (t *trace) check(ctx context.Context, goal func(e *platform.Element) string) (verdict, bool) {
	began := time.Now()
	defer func() { t.slowest = max(t.slowest, time.Since(began)) }()
	gone := false
	if t.target.Ref != "" && t.d.Accessibility != nil {
		bounded, cancel := context.WithTimeout(ctx, readTime)
		e, err := t.d.Accessibility.Element(bounded, t.target.Ref)
		cancel()
		switch {
		case err == nil && e.Role == "unknown" && t.target.Role != "unknown":
			gone = true // GTK 3 still answers for what it is taking down, without role and name
		case err == nil:
			e.Window = firstOf(e.Window, t.target.Window)
			t.after = &e
			if goal != nil {
				if how := goal(&e); how != "" {
					return sure(how), true
				}
			} else if how := changed(&t.target, &e); how != "" {
				return sure(how), true
			}
		case isGone(err):
			gone = true
		}
	}
	if how := t.checkWindows(ctx); how != "" && goal == nil {
		return sure(how), true
	}
	if gone && goal == nil {
		return sure("the element went away"), true
	}
	return verdict{}, false
}

// checkWindows says what happened to the windows, "" for nothing.
func (t *trace) checkWindows(ctx context.Context) string {
	now, err := t.h.list(ctx, t.d)
	if err != nil || t.d.Windows == nil {
		return ""
	}
	old := map[string]platform.Window{}
	for _, w := range t.windows {
		old[w.Ref] = w
	}
	focus := ""
	for i, w := range now {
		if w.Own {
			continue
		}
		was, ok := old[w.Ref]
		delete(old, w.Ref)
		switch {
		case !ok:
			t.appeared = &now[i]
			return "a window appeared"
		case w.Focused && !was.Focused:
			focus = "another window has the focus"
		case w.Title != was.Title && w.Ref == t.target.Window:
			focus = "the window's title changed"
		}
	}
	for _, w := range old {
		if !w.Own {
			return "a window was closed"
		}
	}
	return focus
}

// passing states come and go with being used, without more behind them.
var passing = []string{"focused", "active", "pressed", "busy"}

// ofMenus are states that an item of a menu has by its menu being open, or by being
// the current one: they say nothing of what the item does.
var ofMenus = []string{"selected", "visible", "offscreen", "hidden"}

// changed says what changed of an element, "" for nothing that counts.
func changed(was, now *platform.Element) string {
	if on(was) != on(now) {
		return "its state changed"
	}
	idle := func(s string) bool {
		return has(passing, s) || strings.HasPrefix(now.Role, "menuitem") && has(ofMenus, s)
	}
	for _, s := range now.States {
		if !has(was.States, s) && !idle(s) {
			return "its state changed: it is " + s + " now"
		}
	}
	for _, s := range was.States {
		if !has(now.States, s) && !idle(s) {
			return "its state changed: it is not " + s + " any more"
		}
	}
	switch {
	case now.Value != was.Value:
		return "its value changed"
	case now.Name != was.Name:
		return "its name changed"
	}
	return ""
}

// on reports whether a checkbox, switch or toggle button is on.
func on(e *platform.Element) bool {
	return has(e.States, "checked") || e.Role == "togglebutton" && has(e.States, "pressed")
}

// has reports whether a list of words has one. It stands in more than a hundred
// places, of which none needs a copy of it.
func has(list []string, word string) bool { return slices.Contains(list, word) }

func is(e *platform.Element, state string) bool { return has(e.States, state) }
