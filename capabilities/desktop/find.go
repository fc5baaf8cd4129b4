package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// Bounds of a reading that looks for something.
const (
	maxElements = 50_000
	perApp      = 3 * time.Second
)

// parts returns the desktop with what finding elements takes.
func (h *call) parts(ctx context.Context) (*platform.Desktop, error) {
	d, err := h.desktop(ctx)
	if err != nil {
		return nil, err
	}
	if d.Accessibility == nil {
		return nil, missing(d, platform.PartAccessibility)
	}
	return d, nil
}

// list returns every window, this program's own ones too; nil where the desktop
// does not tell.
func (h *call) list(ctx context.Context, d *platform.Desktop) ([]platform.Window, error) {
	if d.Windows == nil {
		return nil, nil
	}
	return d.Windows.List(ctx)
}

// scene reads what a selector may mean. If it names windows of one application,
// only that one is asked: another one that hangs costs nothing then.
func (h *call) scene(ctx context.Context, d *platform.Desktop, sel *selector.Selector) (*selector.Scene, error) {
	windows, err := h.list(ctx, d)
	if err != nil {
		return nil, err
	}
	q := platform.TreeQuery{MaxElements: maxElements, PerApp: perApp, PID: sel.OnlyApp(windows), Bounds: sel.Measures()}
	tree, err := h.tree(ctx, q)
	if err == nil && q.PID != 0 && len(tree.Elements) == 0 && len(tree.Hung) == 0 {
		q.PID = 0 // in a container of its own, an application has another number there
		tree, err = h.tree(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	return selector.NewScene(tree, windows, h.refs.full), nil
}

// resolve returns the one element that a selector means, read just now.
func (h *call) resolve(ctx context.Context, d *platform.Desktop, sel *selector.Selector) (platform.Element, error) {
	if ref := sel.OnlyRef(); ref != "" {
		windows, err := h.list(ctx, d)
		if err != nil {
			return platform.Element{}, err
		}
		if !slices.ContainsFunc(windows, func(w platform.Window) bool { return w.Ref == ref }) {
			e, err := h.element(ctx, d, ref)
			if err == nil && isOwn(windows, e) {
				err = errOwnWindow
			}
			return e, err
		}
	}
	for try := 0; ; try++ {
		s, err := h.scene(ctx, d, sel)
		if err != nil {
			return platform.Element{}, err
		}
		i, err := h.single(s, sel)
		if err != nil {
			return platform.Element{}, err
		}
		if sel.Measures() {
			return s.Elements[i], nil
		}
		e, err := d.Accessibility.Element(ctx, s.Elements[i].Ref)
		if err == nil {
			e.Window = firstOf(e.Window, s.Elements[i].Window)
			return e, nil
		}
		if err := h.gone(ctx, err, s.Elements[i].PID); err != nil {
			return platform.Element{}, err
		}
		if try == 2 {
			return platform.Element{}, err
		}
		// It went while it was looked at; look again.
	}
}

// gone passes over the error of an element that went, names the application of
// one that hangs, and returns every other error.
func (h *call) gone(ctx context.Context, err error, pid int) error {
	switch {
	case isGone(err):
		return nil
	case isHung(err):
		return h.hungApp(ctx, pid)
	}
	return err
}

func isGone(err error) bool { return errors.Is(err, platform.ErrGone) }

func isHung(err error) bool { return errors.Is(err, platform.ErrHung) }

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// isOwn reports whether an element is in this program's own windows.
func isOwn(windows []platform.Window, e platform.Element) bool {
	return slices.ContainsFunc(windows, func(w platform.Window) bool {
		return w.Own && (w.Ref == e.Window && e.Window != "" || w.PID == e.PID && e.PID != 0)
	})
}

// single returns the place of the one element that a selector means in a scene, or
// says why there is not just one.
func (h *Handler) single(s *selector.Scene, sel *selector.Selector) (int, error) {
	found := s.Find(sel)
	if i, ok := s.One(sel, found); ok {
		return i, nil
	}
	if len(found) > 0 {
		return 0, (&capabilities.Error{Code: capabilities.CodeElementNotUnique,
			Message: fmt.Sprintf("%d elements match.", len(found)),
			Hint:    "Use the ref of one of details.candidates, or narrow the selector: window:, state:visible, nth:, near:.",
		}).WithDetails(map[string]any{"candidates": h.outlines(s, shownFirst(s, found)[:min(len(found), 5)])})
	}
	if len(s.Hung) > 0 {
		return 0, (&capabilities.Error{
			Code: capabilities.CodeAppHung, Message: "Nothing matches in the applications that answer; one or more do not answer.",
		}).
			WithDetails(hungApps{s.Names()})
	}
	missed := &capabilities.Error{Code: capabilities.CodeElementNotFound}
	if near := s.Nearest(sel); len(near) > 0 {
		missed.Hint = "details.nearest has what comes closest."
		missed.Details = map[string]any{"nearest": h.outlines(s, near)}
	}
	return 0, missed
}

// shownFirst puts the elements that show before those that do not.
func shownFirst(s *selector.Scene, found []int) []int {
	list := slices.Clone(found)
	slices.SortStableFunc(list, func(a, b int) int {
		switch va, vb := selector.Visible(&s.Elements[a]), selector.Visible(&s.Elements[b]); {
		case va == vb:
			return 0
		case va:
			return -1
		}
		return 1
	})
	return list
}

// outlines tells elements in a line each, such as e12 button "Save" in "Notes".
func (h *Handler) outlines(s *selector.Scene, places []int) []string {
	lines := []string{}
	for _, i := range places {
		e := &s.Elements[i]
		line := h.refs.name(*e) + " " + e.Role
		if e.Name != "" {
			line += " " + selector.Quote(capabilities.Clip(selector.Simple(e.Name), 80))
		}
		if e.Value != "" && e.Value != e.Name {
			line += " = " + selector.Quote(capabilities.Clip(selector.Simple(e.Value), 40))
		}
		if !selector.Visible(e) {
			line += " (not visible)"
		}
		if w := s.WindowOf(i); w >= 0 && w != i {
			line += " in " + selector.Quote(capabilities.Clip(selector.Simple(s.TitleOf(w)), 60))
		}
		lines = append(lines, line)
	}
	return lines
}
