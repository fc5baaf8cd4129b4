package desktop

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop/selector"
	"github.com/handrail-dev/handrail/platform"
)

// Bounds of one look for what has the focus.
const (
	describeElements = 1500
	describeWithin   = 600 * time.Millisecond
)

// Describe says which window a call would meet: the one under the place that it names, else
// the one that has the focus, and there what takes the keys. Nothing is touched and no
// picture is taken.
func (h *Handler) Describe(ctx context.Context, inv capabilities.Invocation) (capabilities.Scene, error) {
	ctx, inv, cancel := capabilities.Prepare(ctx, inv)
	defer cancel(nil)
	return (&call{h, &inv}).describe(ctx)
}

func (h *call) describe(ctx context.Context) (capabilities.Scene, error) {
	d, err := h.desktop(ctx)
	if err != nil || d.Windows == nil {
		return capabilities.Scene{}, err
	}
	args := struct {
		X, Y    *float64
		FrameID string           `json:"frame_id"`
		Text    *json.RawMessage `json:"text"`
		Key     *json.RawMessage `json:"key"`
		Target  *json.RawMessage `json:"target"`
	}{}
	if err := json.Unmarshal(h.inv.Args, &args); err != nil {
		return capabilities.Scene{}, err
	}
	all, err := d.Windows.List(ctx)
	if err != nil {
		return capabilities.Scene{}, err
	}
	switch {
	case args.Target != nil:
		return h.sceneOfTarget(ctx, d, all, *args.Target), nil
	case args.X != nil && args.Y != nil:
		at, err := h.point(ctx, args.FrameID, math.Floor(*args.X), math.Floor(*args.Y))
		if err != nil {
			return capabilities.Scene{}, err
		}
		for _, w := range all { // topmost first
			if !w.Minimized && w.Bounds.Has(at) {
				return sceneOf(w), nil
			}
		}
	case args.Text != nil || args.Key != nil:
		for _, w := range all {
			if w.Focused {
				s := sceneOf(w)
				s.Field, s.Password = focusedField(ctx, d, w)
				return s, nil
			}
		}
	}
	return capabilities.Scene{}, nil
}

func sceneOf(w platform.Window) capabilities.Scene {
	if w.Own { // what this program shows is not told to callers, nor to who answers them
		return capabilities.Scene{}
	}
	return capabilities.Scene{App: w.App, Window: w.Title}
}

// sceneOfTarget says what a ref means; of other selectors the arguments say it themselves.
func (h *call) sceneOfTarget(ctx context.Context, d *platform.Desktop, all []platform.Window, target json.RawMessage) capabilities.Scene {
	sel, err := selector.Decode(target)
	if err != nil || d.Accessibility == nil {
		return capabilities.Scene{}
	}
	ref := sel.RefIn()
	if ref == "" {
		return capabilities.Scene{}
	}
	for _, w := range all {
		if w.Ref == ref {
			return sceneOf(w)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	e, err := h.element(ctx, d, ref)
	if err != nil {
		return capabilities.Scene{}
	}
	s := capabilities.Scene{App: e.App}
	was, _ := h.refs.meant(ref)
	for _, w := range all {
		if w.Ref != "" && (w.Ref == e.Window || w.Ref == was.window) {
			if s = sceneOf(w); w.Own {
				return s
			}
		}
	}
	s.Field, s.Role, s.Password = e.Name, e.Role, is(&e, "protected")
	return s
}

// focusedField returns the name of what takes the keys in a window, and whether it hides what
// is typed; empty where the application does not say.
func focusedField(ctx context.Context, d *platform.Desktop, w platform.Window) (name string, password bool) {
	if d.Accessibility == nil || w.PID == 0 || w.Own {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	e, _ := focusedElement(ctx, d, w)
	return e.Name, is(&e, "protected")
}

// focusedElement returns what takes the keys in a window; false where the application does
// not say.
func focusedElement(ctx context.Context, d *platform.Desktop, w platform.Window) (platform.Element, bool) {
	tree, err := d.Accessibility.Tree(ctx, platform.TreeQuery{PID: w.PID, MaxElements: describeElements, PerApp: describeWithin})
	if err != nil {
		return platform.Element{}, false
	}
	for i := len(tree.Elements) - 1; i >= 0; i-- { // children after their parents: the innermost
		if e := &tree.Elements[i]; is(e, "focused") {
			return *e, true
		}
	}
	return platform.Element{}, false
}

var _ capabilities.Describer = (*Handler)(nil)
