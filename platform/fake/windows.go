package fake

import (
	"context"
	"fmt"
	"slices"

	"github.com/handrail-dev/handrail/platform"
)

type windows struct{ d *Desktop }

// AddWindow opens a window on top, focused; w.Ref "" gets one. It returns the Ref.
func (d *Desktop) AddWindow(w platform.Window) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.Ref == "" {
		w.Ref = fmt.Sprintf("fake:w%d", len(d.windows)+int(d.seq)*100)
	}
	if w.Content.Empty() {
		w.Content = w.Bounds
	}
	d.windows = slices.Insert(d.windows, 0, w)
	d.focusWindowLocked(w.Ref)
	d.windowsChangedLocked()
	return w.Ref
}

// EditWindow changes a window; false if it is gone.
func (d *Desktop) EditWindow(ref string, edit func(w *platform.Window)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.windowLocked(ref)
	if i < 0 {
		return false
	}
	edit(&d.windows[i])
	d.windowsChangedLocked()
	return true
}

// RemoveWindow closes a window with its elements.
func (d *Desktop) RemoveWindow(ref string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.windowLocked(ref)
	if i < 0 {
		return
	}
	d.windows = slices.Delete(d.windows, i, i+1)
	d.elements = slices.DeleteFunc(d.elements, func(e element) bool { return e.Window == ref && e.Role != "application" })
	if len(d.windows) > 0 {
		d.focusWindowLocked(d.windows[0].Ref)
	}
	d.windowsChangedLocked()
}

func (d *Desktop) windowLocked(ref string) int {
	return slices.IndexFunc(d.windows, func(w platform.Window) bool { return w.Ref == ref })
}

func (d *Desktop) focusWindowLocked(ref string) {
	for i := range d.windows {
		d.windows[i].Focused = d.windows[i].Ref == ref && !d.windows[i].Minimized
	}
}

func (d *Desktop) windowsChangedLocked() {
	for i := range d.windows {
		d.windows[i].Z = i
	}
	d.windowWatch.send(struct{}{}, func(_, v struct{}) struct{} { return v })
	d.elementWatch.send(platform.ElementEvent{Kind: "window"}, joinEvents)
	d.changedLocked(d.layout.Whole())
}

// List returns the windows, the topmost first.
func (w *windows) List(ctx context.Context) ([]platform.Window, error) {
	if err := w.d.begin(ctx, "windows.list"); err != nil {
		return nil, err
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	return slices.Clone(w.d.windows), nil
}

// use runs f on a window that exists.
func (w *windows) use(ctx context.Context, op, ref string, to platform.Rect, f func(d *Desktop, i int)) error {
	if err := w.d.begin(ctx, op); err != nil {
		return err
	}
	w.d.mu.Lock()
	i := w.d.windowLocked(ref)
	if i < 0 {
		w.d.mu.Unlock()
		return fmt.Errorf("fake: %s: %w", ref, platform.ErrGone)
	}
	f(w.d, i)
	w.d.mu.Unlock()
	w.d.tell(Event{Op: op, Ref: ref, Rect: to})
	return nil
}

// Activate raises and focuses a window.
func (w *windows) Activate(ctx context.Context, ref string) error {
	return w.use(ctx, "windows.activate", ref, platform.Rect{}, func(d *Desktop, i int) {
		win := d.windows[i]
		win.Minimized = false
		d.windows = slices.Insert(slices.Delete(d.windows, i, i+1), 0, win)
		d.focusWindowLocked(ref)
		d.windowsChangedLocked()
	})
}

// Place moves and resizes a window.
func (w *windows) Place(ctx context.Context, ref string, to platform.Rect) error {
	return w.use(ctx, "windows.place", ref, to, func(d *Desktop, i int) {
		d.windows[i].Bounds, d.windows[i].Content = to, to
		d.windowsChangedLocked()
	})
}

// Minimize minimizes a window.
func (w *windows) Minimize(ctx context.Context, ref string) error {
	return w.use(ctx, "windows.minimize", ref, platform.Rect{}, func(d *Desktop, i int) {
		d.windows[i].Minimized, d.windows[i].Focused = true, false
		d.windowsChangedLocked()
	})
}

// Close asks a window to close. Only the script closes it (RemoveWindow), as
// only an application does.
func (w *windows) Close(ctx context.Context, ref string) error {
	return w.use(ctx, "windows.close", ref, platform.Rect{}, func(*Desktop, int) {})
}

// Launch returns a new process number; what starts is up to the script.
func (w *windows) Launch(ctx context.Context, app string, args []string) (int, error) {
	if err := w.d.begin(ctx, "windows.launch"); err != nil {
		return 0, err
	}
	w.d.mu.Lock()
	w.d.launched++
	pid := 10_000 + w.d.launched
	w.d.mu.Unlock()
	w.d.tell(Event{Op: "windows.launch", Ref: app, Text: fmt.Sprint(args)})
	return pid, nil
}

// Changes delivers that something changed.
func (w *windows) Changes(ctx context.Context) (<-chan struct{}, error) {
	if err := w.d.begin(ctx, "windows.changes"); err != nil {
		return nil, err
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	return add(w.d, &w.d.windowWatch, ctx, 1), nil
}
