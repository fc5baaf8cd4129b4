package desktop

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

var _ capabilities.Shower = (*Handler)(nil)

// lookTime bounds finding out whether a window is still there.
const lookTime = 2 * time.Second

// window is one that somebody pasted into; without a ref it is the whole desktop, where
// windows cannot be told apart.
type window struct {
	h   *Handler
	ref string
}

// Here reports whether the window is still open. Where that cannot be found out, it is.
func (w window) Here() bool {
	ctx, cancel := context.WithTimeout(w.h.life, lookTime)
	defer cancel()
	d, err := w.h.desktop(ctx)
	if err != nil || d.Windows == nil || w.ref == "" {
		return true
	}
	all, err := d.Windows.List(ctx)
	return err != nil || slices.ContainsFunc(all, func(o platform.Window) bool { return o.Ref == w.ref })
}

// Shows reports whether p is on the screen.
func (h *Handler) Shows(_ capabilities.LaneID, p capabilities.Place) bool {
	s, tells := p.(interface{ OnScreen() bool })
	return !tells || s.OnScreen()
}

// focused is where input goes now; nil where nothing has the focus.
func (h *call) focused(ctx context.Context) capabilities.Place {
	d, err := h.desktop(ctx)
	if err != nil || d.Windows == nil {
		return window{h.Handler, ""}
	}
	all, err := d.Windows.List(ctx)
	if err != nil {
		return window{h.Handler, ""}
	}
	if i := slices.IndexFunc(all, func(w platform.Window) bool { return w.Focused }); i >= 0 {
		return window{h.Handler, all[i].Ref}
	}
	return nil
}

// noteFocus notes where a call's input may have pasted: a menu and a button do so, too.
func (h *call) noteFocus(ctx context.Context) {
	_ = h.inv.BeforePaste(func() capabilities.Place { return h.focused(ctx) }) // only chords are refused
}

// pastes reports whether keys that are pressed together paste.
func pastes(keys []string) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(names, k) })
	}
	return has("v", "V") && has("Control", "Meta", "Super", "Command") || has("Insert") && has("Shift") || has("Paste", "XF86Paste")
}
