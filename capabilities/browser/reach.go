package browser

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// reaching is a question about one element, in whatever document it is. It has no
// effect where it is refused.
type reaching struct {
	ref, selector string
	function      inpage.Function
	ask           func(known *outline.Former) any // the question; known: what the ref once stood for
	into          any
}

// errTwoNames is for callers that name an element in two ways, which may disagree.
var errTwoNames = capabilities.Errorf(capabilities.CodeInvalidArguments, "The element is named in more than one way.").
	WithHint("Leave out all but one of ref, selector, and x with y; the ref of a snapshot is the surest.")

var refPattern = regexp.MustCompile(`^\[?(?:ref=)?(f\d+)?(e\d+)\]?$`)

// reach asks the page script of the document that holds the element, and returns its
// world. A ref says itself which document that is. A selector is looked for in the
// tab's document with all its shadow roots, then in foreign frames, then waits, for
// a while, for frames that still load.
func (c *call) reach(r reaching) (world, error) {
	if r.ref != "" && r.selector != "" {
		return world{}, errTwoNames
	}
	given := r.ref
	if given == "" && strings.HasPrefix(r.selector, "ref=") {
		given = r.selector
	}
	if m := refPattern.FindStringSubmatch(strings.TrimSpace(given)); m != nil {
		return c.reachRef(r, m[1], m[1]+m[2])
	}
	before, _ := c.tab.look()
	w, err := c.tab.ask(c.ctx, r.function, r.ask(nil), r.into)
	if r.selector == "" || !isCode(err, capabilities.CodeElementNotFound) {
		return w, err
	}
	return c.reachSelector(r, before.frameDocuments, err)
}

func (c *call) reachRef(r reaching, prefix, ref string) (world, error) {
	var w world
	err := error(errFrameAway)
	if prefix == "" {
		w, err = c.tab.ask(c.ctx, r.function, r.ask(nil), r.into)
	} else if f := c.byPrefix(prefix); f != nil {
		w, err = c.tab.askFrameFor(c.ctx, meantFrameWait, f, r.function, r.ask(nil), r.into)
		if errors.Is(err, context.DeadlineExceeded) && c.ctx.Err() == nil {
			err = errFrameHangs
		}
	}
	if !isCode(err, capabilities.CodeStaleRef) || c.ctx.Err() != nil {
		return w, err
	}
	// Its document is gone; if the tab is at the same address again (back, reload),
	// what has the same role and name now is meant.
	address, _, other := c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx))
	if other != nil {
		return w, err
	}
	known := c.lane.memory.Former(string(c.tab.id), ref, address)
	if known == nil {
		return w, err
	}
	if prefix == "" {
		return c.tab.ask(c.ctx, r.function, r.ask(known), r.into)
	}
	return c.reachAgain(r, known, err)
}

// reachAgain looks in every foreign frame for the element that a ref was of. It waits, for
// a while, for frames of a page that still loads: after going back they come one by one.
// gone says that the ref's own frame is gone.
func (c *call) reachAgain(r reaching, known *outline.Former, gone error) (w world, err error) {
	bounded, cancel := context.WithTimeout(c.ctx, frameLoadWait)
	defer cancel()
	for {
		loading, changed := c.tab.loadingFrames()
		before, _ := c.tab.look()
		err = gone
		c.tab.everyFrame(c.ctx, func(f *frame) bool {
			again, failed := c.tab.askFrame(c.ctx, f, r.function, r.ask(known), r.into)
			if failed == nil || !isCode(failed, capabilities.CodeStaleRef) {
				w, err = again, failed
				return true
			}
			return false
		})
		if c.ctx.Err() != nil || !isCode(err, capabilities.CodeStaleRef) {
			return w, err
		}
		now, _ := c.tab.look()
		if before.loaded && !loading && now.frameDocuments == before.frameDocuments && !c.tab.framesAwaited(c.ctx) {
			return w, err
		}
		if now.frameDocuments == before.frameDocuments {
			c.tab.pause(bounded, changed, nil)
		}
		if bounded.Err() != nil {
			return w, err
		}
	}
}

// byPrefix returns the foreign frame whose document issued refs of that prefix, looked
// for among all frames if need be.
func (c *call) byPrefix(prefix string) (found *frame) {
	if found = c.tab.byPrefix(prefix); found != nil {
		return found
	}
	c.tab.everyFrame(c.ctx, func(f *frame) bool {
		bounded, cancel := context.WithTimeout(c.ctx, frameWait)
		defer cancel()
		if w, err := c.tab.inFrame(bounded, f); err == nil && w.prefix == prefix {
			found = f
		}
		return found != nil
	})
	return found
}

// reachSelector looks for a selector that the tab's document does not match so far;
// notFound says so. documents is how many frames had shown by then.
func (c *call) reachSelector(r reaching, documents int, notFound error) (world, error) {
	if c.tab.searchShadows(c.ctx, nil) {
		w, err := c.tab.ask(c.ctx, r.function, r.ask(nil), r.into)
		if !isCode(err, capabilities.CodeElementNotFound) {
			return w, err
		}
	}
	bounded, cancel := context.WithTimeout(c.ctx, frameLoadWait)
	defer cancel()
	for {
		loading, changed := c.tab.loadingFrames()
		var w world
		err := notFound
		failed := c.tab.everyFrame(c.ctx, func(f *frame) bool {
			again, failed := c.tab.askFrame(c.ctx, f, r.function, r.ask(nil), r.into)
			if isCode(failed, capabilities.CodeElementNotFound) && c.tab.searchShadows(c.ctx, f) {
				again, failed = c.tab.askFrame(c.ctx, f, r.function, r.ask(nil), r.into)
			}
			switch {
			case isCode(failed, capabilities.CodeElementNotFound), errors.Is(failed, errFrameAway),
				errors.Is(failed, context.DeadlineExceeded) && c.ctx.Err() == nil, contextLost(failed):
				return false
			}
			w, err = again, failed
			return true
		})
		if c.ctx.Err() != nil {
			return world{}, c.ctx.Err()
		}
		if failed != nil || !isCode(err, capabilities.CodeElementNotFound) {
			return w, err
		}
		now, _ := c.tab.look()
		if !loading && now.frameDocuments == documents && !c.tab.framesAwaited(c.ctx) {
			return w, err
		}
		if now.frameDocuments == documents {
			c.tab.pause(bounded, changed, nil)
		}
		if bounded.Err() != nil {
			return w, err
		}
		// A frame that can be looked into belongs to the document itself.
		now, _ = c.tab.look()
		documents = now.frameDocuments
		if again, failed := c.tab.ask(c.ctx, r.function, r.ask(nil), r.into); !isCode(failed, capabilities.CodeElementNotFound) {
			return again, failed
		}
	}
}

func isCode(err error, code capabilities.Code) bool {
	var coded *capabilities.Error
	return errors.As(err, &coded) && coded.Code == code
}

// aim is part 1. It returns the world of the document that the element is in, and its
// place in the tab's viewport.
func (c *call) aim(a aimArgs) (w world, at aimed, err error) {
	function := inpage.Aim
	if a.Kind == "fill" || a.Kind == "choose" {
		function = inpage.Function(a.Kind)
	}
	a.Within = c.softly()
	w, err = c.reach(reaching{ref: a.Ref, selector: a.Selector, function: function, into: &at, ask: func(known *outline.Former) any {
		return struct {
			aimArgs
			Was *outline.Former `json:"was,omitempty"`
		}{a, known}
	}})
	if err == nil && at.Foreign {
		w, at = c.into(w, at, a)
	} else if err == nil && w.frame != nil && (at.X != 0 || at.Y != 0 || at.Width != 0) {
		if err = c.lift(w, &at, a.Kind == "rect"); err == nil && pointerKinds[a.Kind] {
			err = c.point(w, at)
		}
	}
	c.in = w
	return w, at, err
}

// into follows a point of the viewport, or the focus, into the foreign frame that
// has it. One that does not answer stays foreign.
func (c *call) into(w world, at aimed, a aimArgs) (world, aimed) {
	for n := 0; at.Foreign && n < maxShadowDepth; n++ {
		var under struct {
			Slots     []cdp.FrameID `json:"slots"`
			Strangers int           `json:"strangers"`
			X         float64       `json:"x"`
			Y         float64       `json:"y"`
		}
		function := inpage.FrameFocused
		if a.X != nil && a.Y != nil {
			function = inpage.FrameAt
		}
		again, err := c.tab.askAny(c.ctx, w.frame, function, map[string]any{"x": a.X, "y": a.Y}, &under)
		if err != nil || len(under.Slots) == 0 {
			return w, at
		}
		f := c.tab.slots(c.ctx, again, under.Slots, under.Strangers)[0]
		if f == nil {
			return w, at
		}
		a.Ref, a.Selector = "", ""
		if a.X != nil {
			a.X, a.Y = &under.X, &under.Y
		}
		var inner aimed
		below, err := c.tab.askFrame(c.ctx, f, inpage.Aim, a, &inner)
		if err != nil {
			return w, at
		}
		inner.X, inner.Y = at.X, at.Y
		w, at = below, inner
	}
	return w, at
}

// lift takes a place in a foreign frame's viewport to the tab's, document by
// document outwards. Each brings the point into view and refuses what is covered. A
// rectangle is given in the coordinates of the page, as without frames.
func (c *call) lift(w world, at *aimed, rect bool) error {
	if rect {
		at.X, at.Y = at.X-at.ScrollX, at.Y-at.ScrollY
	}
	for f := w.frame; f != nil; f = f.parent {
		var up struct {
			X       float64 `json:"x"`
			Y       float64 `json:"y"`
			Width   float64 `json:"width"`
			Height  float64 `json:"height"`
			ScrollX float64 `json:"scroll_x"`
			ScrollY float64 `json:"scroll_y"`
			Moved   bool    `json:"moved"`
		}
		args := map[string]any{
			"frame": f.id, "x": at.X, "y": at.Y, "width": at.Width, "height": at.Height, "rect": rect, "moved": at.Moved, "within": c.softly(),
		}
		if _, err := c.tab.askAny(c.ctx, f.parent, inpage.Lift, args, &up); err != nil {
			return err
		}
		at.X, at.Y, at.Moved = up.X, up.Y, at.Moved || up.Moved
		if rect {
			at.Width, at.Height = up.Width, up.Height
			if f.parent == nil {
				at.X, at.Y = at.X+up.ScrollX, at.Y+up.ScrollY
			}
		}
	}
	return nil
}

// pointerKinds are the aims that a press or move of the pointer follows.
var pointerKinds = map[string]bool{"click": true, "down": true, "hover": true, "wheel": true, "drag": true}

// point moves the pointer to a place in a frame of another process, and waits until
// that arrives there. Chrome finds the process below a point by the last picture
// that it drew: just after a frame came or was scrolled it still takes the one that
// was there before.
func (c *call) point(w world, at aimed) error {
	process, pointed := c.tab.pointedAt(w.frame)
	if process == nil || pointed && !at.Moved {
		return nil
	}
	var seen struct {
		Arrived bool `json:"arrived"`
	}
	for try := 0; try < 20 && !seen.Arrived; try++ {
		asked := w.put(c.ctx, inpage.Pointed, map[string]int{"wait": 60})
		move := devtools.Start(c.ctx, c.tab.s, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: input.DispatchMouseEventTypeMouseMoved, X: at.X + float64(try%2), Y: at.Y, PointerType: input.DispatchMouseEventPointerTypeMouse,
		})
		if err := asked.get(c.ctx, &seen); err != nil {
			return err
		}
		if _, err := move.Wait(c.ctx); err != nil {
			return err
		}
	}
	c.tab.sawPointed(process, seen.Arrived)
	return nil
}
