package desktop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// arrangeWait bounds the wait until a window is as it was asked to be, or says
// otherwise. Window managers answer within milliseconds.
const arrangeWait = time.Second

// arrange activates, moves, resizes, minimizes or closes the window that the
// target is, or is in.
func (c *deed) arrange(ctx context.Context) error {
	if c.d.Windows == nil {
		return missing(c.d, platform.PartWindows)
	}
	w, err := c.targetWindow(ctx)
	if err != nil {
		return err
	}
	if !w.Minimized {
		c.h.acts(w.Bounds)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.seen = c.h.trace(ctx, c.d, platform.Element{Window: w.Ref, PID: w.PID}, c.windows)
	defer c.seen.stop()
	c.route, c.window, c.keep = routeWindow, &w, true
	to, wm := w.Bounds, c.d.Windows
	switch c.a.Kind {
	case "activate":
		if w.Focused {
			return c.done("it was the active window already")
		}
		err := wm.Activate(ctx, w.Ref)
		if cannot(err) {
			return unsupported("The window does not take the focus.").WithHint("Work its elements: a click needs no focus.")
		}
		return c.have(ctx, w.Ref, "it is the active window", func(now *platform.Window) bool { return now.Focused }, err)
	case "minimize":
		if w.Minimized {
			return c.done("it was minimized already")
		}
		return c.have(ctx, w.Ref, "it is minimized", func(now *platform.Window) bool { return now.Minimized }, wm.Minimize(ctx, w.Ref))
	case "close":
		return c.close(ctx, w)
	case "move":
		p, err := c.h.point(ctx, c.a.FrameID, *c.a.X, *c.a.Y)
		if err != nil {
			return err
		}
		to.X, to.Y = p.X, p.Y
	case "resize":
		to.Width, to.Height = c.a.Width, c.a.Height
	}
	if to == w.Bounds {
		return c.done("it had that place and size already")
	}
	err = c.have(ctx, w.Ref, "its place and size were read back", func(now *platform.Window) bool { return now.Bounds == to },
		wm.Place(ctx, w.Ref, to))
	if err == nil && c.verdict.effect != capabilities.EffectConfirmed && c.window.Bounds != w.Bounds {
		c.verdict = verdict{capabilities.EffectPartial, "it moved, but the window manager gave it another place or size; window.bounds has them"}
	}
	return err
}

// have waits until the window is as asked, after err of asking for it.
func (c *deed) have(ctx context.Context, ref, how string, so func(now *platform.Window) bool, err error) error {
	if err != nil {
		return c.windowGone(err)
	}
	ok, err := c.until(ctx, arrangeWait, func() (bool, error) {
		now, err := c.h.list(ctx, c.d)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(now, func(w platform.Window) bool { return w.Ref == ref })
		if i < 0 {
			return false, c.windowGone(platform.ErrGone)
		}
		c.window = &now[i]
		return so(c.window), nil
	})
	if err != nil {
		return err
	}
	if c.verdict = sure(how); !ok {
		c.verdict = verdict{capabilities.EffectSuspectNoop, "the window manager did not do it"}
	}
	return nil
}

func (c *deed) windowGone(err error) error {
	if isGone(err) {
		return &capabilities.Error{Code: capabilities.CodeWindowNotFound, Message: "The window is gone."}
	}
	return err
}

// close asks the window to close: it may ask back.
func (c *deed) close(ctx context.Context, w platform.Window) error {
	if err := c.d.Windows.Close(ctx, w.Ref); err != nil {
		return c.windowGone(err)
	}
	closed := false
	_, err := c.until(ctx, arrangeWait, func() (bool, error) {
		now, err := c.h.list(ctx, c.d)
		if err != nil {
			return false, err
		}
		closed = !slices.ContainsFunc(now, func(o platform.Window) bool { return o.Ref == w.Ref })
		if !closed {
			for i := range now {
				if !now[i].Own && !slices.ContainsFunc(c.windows, func(o platform.Window) bool { return o.Ref == now[i].Ref }) {
					c.seen.appeared = &now[i]
				}
			}
		}
		return closed || c.seen.appeared != nil, nil
	})
	switch {
	case err != nil:
		return err
	case closed:
		c.verdict = sure("the window was closed")
	case c.seen.appeared != nil:
		c.window = c.seen.appeared
		c.verdict = verdict{capabilities.EffectPartial, "the window is still there; another one appeared, which may ask something"}
	default:
		c.verdict = verdict{capabilities.EffectSuspectNoop, "the window was asked to close and is still there; it may ask something in itself"}
	}
	return nil
}

// targetWindow returns the window that the target is, or is in.
func (c *deed) targetWindow(ctx context.Context) (platform.Window, error) {
	known := slices.DeleteFunc(slices.Clone(c.windows), func(w platform.Window) bool { return w.Own })
	if ref := c.sel.OnlyRef(); ref != "" {
		if i := slices.IndexFunc(c.windows, func(w platform.Window) bool { return w.Ref == ref }); i >= 0 {
			if c.windows[i].Own {
				return platform.Window{}, errOwnWindow
			}
			return c.windows[i], nil
		}
	} else if found, ok := c.sel.Windows(known); ok {
		if len(found) == 1 {
			return found[0], nil
		} else if len(found) > 1 {
			return platform.Window{}, (&capabilities.Error{Code: capabilities.CodeElementNotUnique, Hint: "Use the ref of one of details.windows."}).
				WithDetails(map[string]any{"windows": listed(found)})
		}
	}
	none := (&capabilities.Error{Code: capabilities.CodeWindowNotFound}).WithDetails(map[string]any{"windows": listed(known)})
	if c.d.Accessibility == nil {
		return platform.Window{}, none
	}
	e, err := c.h.resolve(ctx, c.d, c.sel)
	if err != nil {
		if capabilities.CodeOf(err) == capabilities.CodeElementNotFound {
			return platform.Window{}, none
		}
		return platform.Window{}, err
	}
	var ofApp []platform.Window
	for _, w := range known {
		if w.Ref == e.Window && e.Window != "" {
			return w, nil
		}
		if w.PID == e.PID && e.PID != 0 {
			ofApp = append(ofApp, w)
		}
	}
	if len(ofApp) == 1 {
		return ofApp[0], nil
	}
	return platform.Window{}, none
}

// launch starts an application. Its window is waited for by then_wait; without it
// the first sign of the application counts.
func (c *deed) launch(ctx context.Context) error {
	if allow := c.h.o.LaunchAllow; len(allow) > 0 && !has(allow, c.a.App) {
		return capabilities.Errorf(capabilities.CodeDeniedByNode, "The owner of the device does not let calls start that application.").
			WithHint("Ask the owner, who can add it to the desktop section of the node's settings.")
	}
	if c.d.Windows == nil {
		return missing(c.d, platform.PartWindows)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.seen = c.h.trace(ctx, c.d, platform.Element{}, c.windows)
	defer c.seen.stop()
	c.seen.events = nil // every application's would count
	pid, err := c.d.Windows.Launch(ctx, c.a.App, c.a.Args)
	if err != nil {
		var lacks *platform.MissingError
		if errors.As(err, &lacks) {
			return capabilities.Wrap(capabilities.CodeAppNotFound, err, lacks.What).WithHint(lacks.Fix)
		}
		if isGone(err) {
			return capabilities.Wrap(capabilities.CodeAppNotFound, err, "")
		}
		return err
	}
	c.route, c.pid, c.keep = routeSystem, pid, true
	c.verdict = verdict{capabilities.EffectPartial, "the application was started; its window was not waited for"}
	if pid == 0 {
		c.verdict = verdict{capabilities.EffectUnverifiable, "the system was asked to start it, and does not tell more"}
	}
	if w := c.seen.checkWindows(ctx); w != "" && c.seen.appeared != nil {
		c.verdict = sure("it was started, and a window appeared")
	}
	return nil
}
