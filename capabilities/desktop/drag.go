package desktop

import (
	"context"
	"math"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// drag takes the element by the mouse to another one, or to a point.
func (c *deed) drag(ctx context.Context) error {
	if err := c.h.hands.isUp(platform.ButtonLeft); err != nil {
		return err
	}
	if err := c.frontTarget(ctx); err != nil {
		return err
	}
	from, err := c.reach(ctx)
	if err != nil {
		return err
	}
	to, err := c.destination(ctx)
	if err != nil {
		return err
	}
	if _, err := mayTouch(ctx, c.d, to); err != nil {
		return err
	}
	home, err := c.in.Pointer(ctx)
	if err != nil {
		return err
	}
	c.h.acts(pixel(from), pixel(to))
	c.moved, c.route = true, routeInput
	c.seen.forget()
	m := gesture{h: c.h}
	if err := m.drag(ctx, c.in, platform.ButtonLeft, []platform.Point{from, to}); err != nil {
		return err
	}
	if c.verdict, err = c.seen.await(ctx, nil, nil); err != nil {
		return err
	}
	return c.pointerBack(ctx, home)
}

// destination returns the point where a drag ends.
func (c *deed) destination(ctx context.Context) (platform.Point, error) {
	if c.a.To == "" {
		return c.h.point(ctx, c.a.FrameID, *c.a.X, *c.a.Y)
	}
	sel, err := selector.Parse(c.a.To)
	if err != nil {
		return platform.Point{}, err
	}
	if sel.OCR != nil {
		return c.seenAt(ctx, sel.OCR)
	}
	e, err := c.h.resolve(ctx, c.d, sel)
	if err != nil {
		return platform.Point{}, err
	}
	if e.Bounds.Empty() || !selector.Visible(&e) {
		return platform.Point{}, unsupported("The element to drag to does not show.").
			WithHint("Scroll it into view first, with act scroll into_view.")
	}
	return c.within(ctx, e.Bounds)
}

// Of scrolling by the wheel: a click of it is three lines nearly everywhere, of
// about this many pixels.
const (
	linesPerClick = 3
	clickPixels   = 57
)

// scroll brings the element into view, or turns the wheel over it.
func (c *deed) scroll(ctx context.Context) error {
	if c.a.IntoView {
		return c.scrollIntoView(ctx)
	}
	at, err := c.reach(ctx)
	if err != nil {
		return err
	}
	clicks := int(math.Ceil(float64(c.a.Lines) / linesPerClick))
	if c.a.Pages > 0 {
		size := c.e.Bounds.Height
		if c.a.Direction == "left" || c.a.Direction == "right" {
			size = c.e.Bounds.Width
		}
		clicks += max(1, c.a.Pages*size*9/10/clickPixels)
	}
	right, down := 0, 0
	switch c.a.Direction {
	case "up":
		down = -clicks
	case "left":
		right = -clicks
	case "right":
		right = clicks
	default:
		down = clicks
	}
	home, err := c.in.Pointer(ctx)
	if err != nil {
		return err
	}
	m := gesture{h: c.h}
	if err := m.travel(ctx, c.in, []platform.Point{at}, 0); err != nil {
		return err
	}
	c.moved, c.route = home != at, routeInput
	c.seen.forget()
	if err := c.in.Scroll(ctx, right, down); err != nil {
		return err
	}
	if c.verdict, err = c.seen.await(ctx, nil, nil); err != nil {
		return err
	}
	return c.pointerBack(ctx, home)
}

func (c *deed) scrollIntoView(ctx context.Context) error {
	shows := func(e *platform.Element) string {
		if selector.Visible(e) && !is(e, "offscreen") && !e.Bounds.Empty() && c.unclipped(ctx, e) {
			return "it shows: its place was read back"
		}
		return ""
	}
	if shows(&c.e) != "" {
		return c.done("it was in view already")
	}
	err := c.try(ctx, shows, func(ctx context.Context) error { return c.d.Accessibility.Reveal(ctx, c.e.Ref) })
	if !cannot(err) {
		return err
	}
	return unsupported("The element cannot be scrolled into view by itself.").
		WithHint("Scroll what holds it, with act scroll and direction, until query says that it is visible.")
}

// unclipped reports whether the middle of an element is inside its window, as far
// as that is known: some toolkits say of rows far below that they show.
func (c *deed) unclipped(ctx context.Context, e *platform.Element) bool {
	w := c.windowNow(firstOf(e.Window, c.e.Window))
	if w == nil {
		return true
	}
	return w.Bounds.Has(e.Bounds.Center())
}

// findSeen finds the target by its text in the pixels.
func (c *deed) findSeen(ctx context.Context) error {
	at, err := c.seenAt(ctx, c.sel.OCR)
	if err != nil {
		return err
	}
	c.spot = &at
	return nil
}

// seenAt returns the middle of the one place where a text is seen.
func (c *deed) seenAt(ctx context.Context, o *selector.OCR) (platform.Point, error) {
	found, err := c.h.see(ctx, o)
	if err != nil {
		return platform.Point{}, err
	}
	switch len(found) {
	case 0:
		return platform.Point{}, (&capabilities.Error{Code: capabilities.CodeElementNotFound, Message: "That text is not seen there."})
	case 1:
		return found[0].Bounds.Center(), nil
	}
	places := []rect{}
	for _, f := range found[:min(len(found), 5)] {
		places = append(places, rectOf(f.Bounds))
	}
	return platform.Point{}, (&capabilities.Error{Code: capabilities.CodeElementNotUnique, Hint: "Give bounds around the one that is meant."}).
		WithDetails(map[string]any{"candidates": places})
}
