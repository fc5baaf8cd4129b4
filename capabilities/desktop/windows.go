package desktop

import (
	"context"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

var errOwnWindow = &capabilities.Error{Code: capabilities.CodeOwnWindow}

// windows lists the windows that calls may know of, topmost first: all but this
// program's own.
func (h *call) windows(ctx context.Context) ([]platform.Window, error) {
	d, err := h.desktop(ctx)
	if err != nil {
		return nil, err
	}
	if d.Windows == nil {
		return nil, missing(d, platform.PartWindows)
	}
	h.observe(keyScreen, "windows")
	all, err := d.Windows.List(ctx)
	if err != nil {
		return nil, err
	}
	known := all[:0:0]
	for _, w := range all {
		if !w.Own {
			known = append(known, w)
		}
	}
	return known, nil
}

// window finds the one window that a ref or a title means: the title itself, or
// else a part of it in any case.
func (h *call) window(ctx context.Context, spec string) (platform.Window, error) {
	all, err := h.windows(ctx)
	if err != nil {
		return platform.Window{}, err
	}
	var exact, part []platform.Window
	for _, w := range all {
		switch {
		case w.Ref == spec:
			return w, nil
		case w.Title == spec:
			exact = append(exact, w)
		case spec != "" && strings.Contains(strings.ToLower(w.Title), strings.ToLower(spec)):
			part = append(part, w)
		}
	}
	found := exact
	if len(found) == 0 {
		found = part
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return platform.Window{}, capabilities.Errorf(capabilities.CodeWindowNotFound, "No window has that ref or title.").
			WithDetails(map[string]any{"windows": listed(all)})
	}
	return platform.Window{}, capabilities.Errorf(capabilities.CodeElementNotUnique, "%d windows have that in their title.", len(found)).
		WithHint("Use the ref of one of them.").WithDetails(map[string]any{"windows": listed(found)})
}

// listed names at most eight windows, for refusals.
func listed(all []platform.Window) []map[string]string {
	list := []map[string]string{}
	for _, w := range all[:min(len(all), 8)] {
		list = append(list, map[string]string{"ref": w.Ref, "title": capabilities.Clip(w.Title, 80), "app": capabilities.Clip(w.App, 40)})
	}
	return list
}

// mayTouch refuses a point whose topmost window is this program's own. It returns that window, the
// zero one where there is none. The other elements stay untold: the list is not shown to the
// caller.
func mayTouch(ctx context.Context, d *platform.Desktop, p platform.Point) (platform.Window, error) {
	if d.Windows == nil {
		return platform.Window{}, nil
	}
	all, err := d.Windows.List(ctx)
	if err != nil {
		return platform.Window{}, err
	}
	for _, w := range all { // topmost first
		if !w.Minimized && w.Bounds.Has(p) {
			if w.Own {
				return platform.Window{}, errOwnWindow
			}
			return w, nil
		}
	}
	return platform.Window{}, nil
}

// mayType refuses while the focus is in a window of this program. It returns the focused window, if
// that is known.
func mayType(ctx context.Context, d *platform.Desktop) (focused platform.Window, err error) {
	if d.Windows == nil {
		return focused, nil
	}
	all, err := d.Windows.List(ctx)
	if err != nil {
		return focused, err
	}
	for _, w := range all {
		if w.Focused {
			if w.Own {
				return w, errOwnWindow
			}
			return w, nil
		}
	}
	return focused, nil
}
