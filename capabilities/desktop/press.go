package desktop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// pressed roles do on a click what their main action does.
var pressed = []string{
	"button", "checkbox", "radio", "switch", "togglebutton", "link", "menuitem", "menuitemcheckbox", "menuitemradio", "menu", "tab",
	"combobox", "option",
}

// written roles take the keyboard on a click.
var written = []string{"textbox", "spinbutton", "terminal"}

// pressable reports whether the element's main action is what a click does. Of
// rows and fields it is something else: opening, or ending the input.
func pressable(e *platform.Element) bool {
	main := func(name string) bool {
		return has([]string{"press", "click", "jump", "dodefault", "clickancestor"}, name)
	}
	if has(pressed, e.Role) {
		return len(e.Actions) > 0 && slices.ContainsFunc(e.Actions, func(a string) bool {
			return main(a) || has([]string{"activate", "toggle", "open", "select"}, a)
		})
	}
	return !has(written, e.Role) && slices.ContainsFunc(e.Actions, main)
}

// cannot reports whether a route is not open, so that the next one is to be taken.
func cannot(err error) bool { return errors.Is(err, platform.ErrCannot) }

// click does what a click of the left button does.
func (c *deed) click(ctx context.Context) error {
	if c.spot == nil {
		e := &c.e
		acc := c.d.Accessibility
		var err error = platform.ErrCannot
		switch {
		case pressable(e):
			err = c.try(ctx, nil, func(ctx context.Context) error { return acc.Do(ctx, e.Ref, platform.Press) })
		case has(written, e.Role) && is(e, "focusable") && e.Role != "terminal":
			err = c.focusNative(ctx)
		case is(e, "selectable") && !is(e, "multiselectable"):
			if is(e, "selected") {
				break // a click on it may do more than select: a real one tells
			}
			err = c.try(ctx, holds("selected", "it is selected"), func(ctx context.Context) error { return acc.Select(ctx, e.Ref, false) })
			if err == nil && c.verdict.effect != capabilities.EffectConfirmed {
				err = platform.ErrCannot
			}
		}
		if !cannot(err) {
			return err
		}
	}
	return c.pointer(ctx, platform.ButtonLeft, 1)
}

// holds is the goal that the element is in a state; "!" before it is for its
// absence.
func holds(state, how string) func(e *platform.Element) string {
	return func(e *platform.Element) string {
		if selector.InState(e, state) {
			return how
		}
		return ""
	}
}

// doubleClick opens rows by their own action, and clicks twice on everything else.
func (c *deed) doubleClick(ctx context.Context) error {
	rows := []string{"row", "cell", "listitem", "treeitem"}
	if c.spot == nil && has(rows, c.e.Role) && has(c.e.Actions, "activate") {
		err := c.try(ctx, nil, func(ctx context.Context) error { return c.d.Accessibility.Do(ctx, c.e.Ref, "activate") })
		if !cannot(err) {
			return err
		}
	}
	return c.pointer(ctx, platform.ButtonLeft, 2)
}

// contextMenu opens the element's own menu.
func (c *deed) contextMenu(ctx context.Context) error {
	if c.spot == nil && has(c.e.Actions, "show_menu") {
		err := c.try(ctx, nil, func(ctx context.Context) error { return c.d.Accessibility.Do(ctx, c.e.Ref, "show_menu") })
		if !cannot(err) {
			return err
		}
	}
	return c.pointer(ctx, platform.ButtonRight, 1)
}

// noInput says that only real input would do.
func (c *deed) noInput() error {
	return unsupported("The element offers no such action itself, and this desktop gives no mouse and keyboard.")
}

// pointer clicks with the real mouse. A window that is clicked gets the focus
// anyway: it is given to it before, so that it can be put back.
func (c *deed) pointer(ctx context.Context, b platform.Button, count int) error {
	return c.pointerFor(ctx, b, count, nil)
}

// pointerFor is pointer with a goal to be read back.
func (c *deed) pointerFor(ctx context.Context, b platform.Button, count int, goal func(e *platform.Element) string) error {
	if c.in == nil {
		return c.noInput()
	}
	if err := c.h.hands.isUp(b); err != nil {
		return err
	}
	if err := c.frontTarget(ctx); err != nil {
		return err
	}
	at, err := c.reach(ctx)
	if err != nil {
		return err
	}
	home, err := c.in.Pointer(ctx)
	if err != nil {
		return err
	}
	m := gesture{h: c.h, args: mouseArgs{Count: count}}
	if err := m.travel(ctx, c.in, []platform.Point{at}, 0); err != nil {
		return err
	}
	c.moved, c.route = home != at, routeInput
	c.seen.forget()
	if err := m.click(ctx, c.in, b); err != nil {
		return err
	}
	if c.verdict, err = c.seen.await(ctx, goal, nil); err != nil {
		return err
	}
	return c.pointerBack(ctx, home)
}

// pointerBack takes the pointer where it was, once the application has had the click: window
// managers hold the pointer while they look at a press, and what is let go after that is sent with
// the place where the pointer is by then. So it goes one pixel first, which shows that it is free,
// and the application is asked for the element once more. A step that was carried out is done,
// whether it can be put back or not.
func (c *deed) pointerBack(ctx context.Context, home platform.Point) error {
	if !c.moved || c.keep {
		return nil
	}
	at, err := c.in.Pointer(ctx)
	if err != nil {
		return err
	}
	free, err := c.until(ctx, settle, func() (bool, error) {
		err := c.in.Move(ctx, platform.Point{X: at.X - 1, Y: at.Y})
		if err != nil && (ctx.Err() != nil || errors.Is(err, platform.ErrLost)) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	if c.e.Ref != "" && c.d.Accessibility != nil {
		bounded, cancel := context.WithTimeout(ctx, readTime)
		_, _ = c.d.Accessibility.Element(bounded, c.e.Ref) // only that it answers counts
		cancel()
	}
	if free {
		err = c.in.Move(ctx, home)
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, platform.ErrLost)) {
		return err
	}
	if err != nil || !free {
		c.verdict.evidence += "; the pointer could not be put back"
	}
	return nil
}

// hover leaves the pointer over the element.
func (c *deed) hover(ctx context.Context) error {
	at, err := c.reach(ctx)
	if err != nil {
		return err
	}
	c.moved, c.route, c.keep = true, routeInput, true
	m := gesture{h: c.h}
	if err := m.travel(ctx, c.in, []platform.Point{at}, 0); err != nil {
		return err
	}
	c.verdict = sure("the pointer was read back over it")
	return nil
}

// settle bounds the wait for a window to come to the front, or an element into
// view.
const settle = time.Second

// reach returns a point of the target that a click would hit: it is brought into
// view, and its window to the front, if need be.
func (c *deed) reach(ctx context.Context) (platform.Point, error) {
	if c.in == nil {
		return platform.Point{}, c.noInput()
	}
	if c.spot != nil {
		_, err := mayTouch(ctx, c.d, *c.spot)
		return *c.spot, err
	}
	return c.reachOf(ctx, &c.e)
}

func (c *deed) reachOf(ctx context.Context, e *platform.Element) (platform.Point, error) {
	if err := c.intoView(ctx, e); err != nil {
		return platform.Point{}, err
	}
	at, err := c.within(ctx, e.Bounds)
	if err != nil {
		return platform.Point{}, err
	}
	if _, err := mayTouch(ctx, c.d, at); err != nil {
		return platform.Point{}, err
	}
	c.h.acts(e.Bounds)
	if c.hits(c.windows, e, at) && !c.fronted {
		return at, nil
	}
	raise := time.Duration(0)
	if err := c.front(ctx, e.Window); cannot(err) {
		raise = settle // without the focus; nothing says when
	} else if err != nil {
		return platform.Point{}, err
	}
	if now, err := c.d.Accessibility.Element(ctx, e.Ref); err == nil && now.Bounds != e.Bounds {
		now.Window = firstOf(now.Window, e.Window)
		*e = now
		if at, err = c.within(ctx, e.Bounds); err != nil {
			return platform.Point{}, err
		}
	}
	free, err := c.until(ctx, raise, func() (bool, error) {
		windows, err := c.h.list(ctx, c.d)
		return err == nil && c.hits(windows, e, at), err
	})
	if err != nil {
		return platform.Point{}, err
	}
	if !free {
		return platform.Point{}, capabilities.Errorf(capabilities.CodeElementObscured, "Another window covers the element and stays in front.").
			WithHint("Move or minimize that window with act, or close what it asks.")
	}
	return at, nil
}

// within returns the middle of what shows of bounds.
func (c *deed) within(ctx context.Context, bounds platform.Rect) (platform.Point, error) {
	at := bounds.Center()
	if c.d.Screen == nil {
		return at, nil
	}
	layout, err := c.d.Screen.Layout(ctx)
	if err != nil {
		return at, err
	}
	best := platform.Rect{}
	for _, display := range layout.Displays {
		if part := display.Bounds.Intersect(bounds); part.Width*part.Height > best.Width*best.Height {
			best = part
		}
	}
	if best.Empty() {
		return at, capabilities.Errorf(capabilities.CodeOutsideDesktop, "The element is on no display.").
			WithHint("Move its window onto a display with act move, or scroll it into view.")
	}
	return best.Center(), nil
}

// hits reports whether a click at a point would go to the element's window, as far
// as the desktop tells.
func (c *deed) hits(windows []platform.Window, e *platform.Element, at platform.Point) bool {
	if !slices.ContainsFunc(windows, func(w platform.Window) bool { return w.Ref == e.Window }) || e.Window == "" {
		return true // a menu, or nobody knows
	}
	for _, w := range windows {
		if !w.Minimized && w.Bounds.Has(at) {
			return w.Ref == e.Window
		}
	}
	return false
}

// intoView has the element scrolled into view, if it is not in view.
func (c *deed) intoView(ctx context.Context, e *platform.Element) error {
	if selector.Visible(e) && !is(e, "offscreen") && !e.Bounds.Empty() {
		return nil
	}
	if w := c.windowNow(e.Window); w != nil && w.Minimized {
		if err := c.front(ctx, e.Window); err != nil {
			return err
		}
	}
	if err := c.d.Accessibility.Reveal(ctx, e.Ref); err != nil && !cannot(err) {
		return err
	}
	ok, err := c.until(ctx, settle, func() (bool, error) {
		now, err := c.d.Accessibility.Element(ctx, e.Ref)
		if err != nil {
			return false, err
		}
		now.Window = firstOf(now.Window, e.Window)
		*e = now
		return selector.Visible(e) && !is(e, "offscreen") && !e.Bounds.Empty(), nil
	})
	if err == nil && !ok {
		err = unsupported("The element does not show, and cannot be scrolled into view.").
			WithHint("Open what holds it first: a menu, a tab, a collapsed part.")
	}
	return err
}

func (c *deed) windowNow(ref string) *platform.Window {
	for i := range c.windows {
		if c.windows[i].Ref == ref && ref != "" {
			return &c.windows[i]
		}
	}
	return nil
}

// front brings a window to the front, and notes that the focus has to be put back.
func (c *deed) front(ctx context.Context, ref string) error {
	if ref == "" || c.d.Windows == nil {
		return nil
	}
	if ref == c.aloof {
		return platform.ErrCannot
	}
	err := c.d.Windows.Activate(ctx, ref)
	if cannot(err) {
		c.aloof = ref
	}
	if err != nil {
		return err
	}
	_, err = c.until(ctx, settle, func() (bool, error) {
		windows, err := c.h.list(ctx, c.d)
		for _, w := range windows {
			if w.Ref == ref && w.Focused {
				c.fronted = c.fronted || !focusedIn(c.windows, ref)
				return true, nil
			}
		}
		return false, err
	})
	return err
}

// frontTarget brings the target's window to the front, if it has one of its own. A
// window that does not take the focus is worked without.
func (c *deed) frontTarget(ctx context.Context) error {
	w := c.windowNow(c.e.Window)
	if c.spot != nil || w == nil || w.Focused || c.fronted {
		return nil
	}
	if !c.e.Bounds.Empty() { // nothing is brought before a window of this program
		if _, err := mayTouch(ctx, c.d, c.e.Bounds.Center()); err != nil {
			return err
		}
	}
	if err := c.front(ctx, w.Ref); !cannot(err) {
		return err
	}
	return nil
}

func focusedIn(windows []platform.Window, ref string) bool {
	return slices.ContainsFunc(windows, func(w platform.Window) bool { return w.Ref == ref && w.Focused })
}

// until waits for a condition: it asks at once, at each sign of a change, and now
// and then for what gives none.
func (c *deed) until(ctx context.Context, most time.Duration, so func() (bool, error)) (bool, error) {
	began, slowest := time.Now(), time.Duration(0)
	every := 5 * time.Millisecond
	for {
		looked := time.Now()
		if ok, err := so(); ok || err != nil {
			return ok, err
		}
		slowest = max(slowest, time.Since(looked))
		left := patient(most, slowest) - time.Since(began)
		if left <= 0 {
			return false, nil
		}
		var events <-chan platform.ElementEvent
		var changes <-chan struct{}
		if c.seen != nil {
			events, changes = c.seen.events, c.seen.changes
		}
		again := time.NewTimer(min(every, left))
		every = min(2*every, 100*time.Millisecond)
		select {
		case <-again.C:
		case _, ok := <-events:
			if !ok {
				c.seen.events = nil
			}
		case _, ok := <-changes:
			if !ok {
				c.seen.changes = nil
			}
		case <-ctx.Done():
			again.Stop()
			return false, ctx.Err()
		}
		again.Stop()
	}
}

// putBack returns the focus back to the window that had it, unless the act opened
// another one.
func (c *deed) putBack(ctx context.Context) error {
	if !c.fronted || c.keep || c.seen.appeared != nil || ctx.Err() != nil {
		return nil
	}
	for _, w := range c.windows {
		if w.Focused && !w.Minimized && !w.Own {
			if err := c.d.Windows.Activate(ctx, w.Ref); err != nil && !isGone(err) {
				return err
			}
		}
	}
	return nil
}

// focus returns the element the keyboard; it keeps it.
func (c *deed) focus(ctx context.Context) error {
	c.keep = true
	if c.focused() {
		return c.done("it had the focus already")
	}
	err := c.focusNative(ctx)
	if !cannot(err) {
		return err
	}
	if !is(&c.e, "focusable") && !has(written, c.e.Role) {
		return unsupported("The element cannot have the focus.")
	}
	if err := c.pointer(ctx, platform.ButtonLeft, 1); err != nil {
		return err
	}
	now, err := c.d.Accessibility.Element(ctx, c.e.Ref)
	if err == nil && is(&now, "focused") {
		c.verdict = sure("it has the focus")
	}
	return err
}

// focusNative brings the window to the front and has the element take the focus.
// ErrCannot if it does not take it that way.
func (c *deed) focusNative(ctx context.Context) error {
	if c.e.Window != "" && !focusedIn(c.windows, c.e.Window) {
		if err := c.front(ctx, c.e.Window); err != nil {
			return err
		}
		c.keep = true // a focus that is given back at once would be none
	}
	err := c.try(ctx, holds("focused", "it has the focus"), func(ctx context.Context) error { return c.d.Accessibility.Focus(ctx, c.e.Ref) })
	if err == nil && c.verdict.effect != capabilities.EffectConfirmed {
		return platform.ErrCannot
	}
	return err
}
