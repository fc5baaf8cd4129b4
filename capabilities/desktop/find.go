package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
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
func (h *call) scene(ctx context.Context, d *platform.Desktop, sel *selector) (*scene, error) {
	windows, err := h.list(ctx, d)
	if err != nil {
		return nil, err
	}
	q := platform.TreeQuery{MaxElements: maxElements, PerApp: perApp, PID: onlyApp(sel, windows), Bounds: sel.measures()}
	tree, err := h.tree(ctx, q)
	if err == nil && q.PID != 0 && len(tree.Elements) == 0 && len(tree.Hung) == 0 {
		q.PID = 0 // in a container of its own, an application has another number there
		tree, err = h.tree(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	return newScene(tree, windows, h.refs.full), nil
}

// onlyApp returns the process of the windows that the first step names, if it names
// any and they are of one process; else 0.
func onlyApp(sel *selector, windows []platform.Window) int {
	if len(sel.steps) == 0 {
		return 0
	}
	list, ok := sel.steps[0].filter.(both)
	if !ok {
		list = both{sel.steps[0].filter}
	}
	for _, e := range list {
		t, ok := e.(term)
		if !ok || t.field != "window" {
			continue
		}
		s := &scene{windows: windows, scopes: map[string]map[string]bool{}}
		meant, pid := s.scope(t), 0
		for _, w := range windows {
			if w.Own || !meant[w.Title] && w.Ref != t.value {
				continue
			}
			if w.PID == 0 || pid != 0 && pid != w.PID {
				return 0
			}
			pid = w.PID
		}
		return pid
	}
	return 0
}

// measures reports whether matching needs more than names and states.
func (sel *selector) measures() bool {
	return slices.ContainsFunc(sel.steps, func(st step) bool { return len(st.relations) > 0 || measures(st.filter) })
}

func measures(e expr) bool {
	switch e := e.(type) {
	case both:
		return slices.ContainsFunc(e, measures)
	case either:
		return slices.ContainsFunc(e, measures)
	case negated:
		return measures(e.of)
	case holding:
		return e.of.measures()
	case term:
		return e.field == "text" || e.field == "value"
	}
	return false
}

// resolve returns the one element that a selector means, read just now.
func (h *call) resolve(ctx context.Context, d *platform.Desktop, sel *selector) (platform.Element, error) {
	if ref := sel.onlyRef(); ref != "" {
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
		if sel.measures() {
			return s.elements[i], nil
		}
		e, err := d.Accessibility.Element(ctx, s.elements[i].Ref)
		if err == nil {
			e.Window = firstOf(e.Window, s.elements[i].Window)
			return e, nil
		}
		if err := h.gone(ctx, err, s.elements[i].PID); err != nil {
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
func (h *Handler) single(s *scene, sel *selector) (int, error) {
	found := s.find(sel)
	if i, ok := s.one(sel, found); ok {
		return i, nil
	}
	if len(found) > 0 {
		return 0, (&capabilities.Error{Code: capabilities.CodeElementNotUnique,
			Message: fmt.Sprintf("%d elements match.", len(found)),
			Hint:    "Use the ref of one of details.candidates, or narrow the selector: window:, state:visible, nth:, near:.",
		}).WithDetails(map[string]any{"candidates": h.outlines(s, shownFirst(s, found)[:min(len(found), 5)])})
	}
	if len(s.hung) > 0 {
		return 0, (&capabilities.Error{
			Code: capabilities.CodeAppHung, Message: "Nothing matches in the applications that answer; one or more do not answer.",
		}).
			WithDetails(hungApps{s.names()})
	}
	missed := &capabilities.Error{Code: capabilities.CodeElementNotFound}
	if near := s.nearest(sel); len(near) > 0 {
		missed.Hint = "details.nearest has what comes closest."
		missed.Details = map[string]any{"nearest": h.outlines(s, near)}
	}
	return 0, missed
}

// shownFirst puts the elements that show before those that do not.
func shownFirst(s *scene, found []int) []int {
	list := slices.Clone(found)
	slices.SortStableFunc(list, func(a, b int) int {
		switch va, vb := visible(&s.elements[a]), visible(&s.elements[b]); {
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
func (h *Handler) outlines(s *scene, places []int) []string {
	lines := []string{}
	for _, i := range places {
		e := &s.elements[i]
		line := h.refs.name(*e) + " " + e.Role
		if e.Name != "" {
			line += " " + quote(capabilities.Clip(simple(e.Name), 80))
		}
		if e.Value != "" && e.Value != e.Name {
			line += " = " + quote(capabilities.Clip(simple(e.Value), 40))
		}
		if !visible(e) {
			line += " (not visible)"
		}
		if w := s.windowOf(i); w >= 0 && w != i {
			line += " in " + quote(capabilities.Clip(simple(s.titleOf(w)), 60))
		}
		lines = append(lines, line)
	}
	return lines
}

// names returns the applications that hang, as results do.
func (s *scene) names() []string {
	var list []string
	for _, name := range s.hung[:min(len(s.hung), 32)] {
		list = append(list, capabilities.Clip(name, 256))
	}
	return list
}
