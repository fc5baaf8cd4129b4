package windows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// heed bounds how long a manager is waited for. It takes milliseconds; on a busy machine
// Openbox took two seconds while it read the keyboard anew for keys that were lent
// together, and more than eight where a server makes us lend them one by one.
const heed = 20 * time.Second

// heedless bounds how long a window is waited for that is not given the focus.
const heedless = time.Second

// fromPager is the source of a request that a person, not an application, makes.
const fromPager = 2

// Activate brings a window to the front and gives it the focus. One that takes no focus
// only comes to the front: ErrCannot says so.
func (w *Windows) Activate(ctx context.Context, ref string) error {
	id, managed, f, err := w.find(ctx, ref)
	if err != nil {
		return err
	}
	if !managed {
		return w.activateAlone(ctx, f)
	}
	given, err := w.givenFocus(ctx, id)
	if err != nil {
		return err
	}
	patience := heed
	if !given {
		patience = heedless
	}
	current, err := w.focused(ctx, true, nil)
	if err != nil {
		return err
	}
	workspace, err := w.cards(ctx, id, w.atom.workspace)
	if err != nil {
		return err
	}
	shown, err := w.cards(ctx, w.c.Root(), w.atom.shown)
	if err != nil {
		return err
	}
	return w.until(ctx, id, "activate the window", patience, func() error {
		const onAll = 0xffffffff
		if len(workspace) > 0 && len(shown) > 0 && workspace[0] != shown[0] && workspace[0] != onAll {
			// Not every manager changes to its workspace by itself.
			if err := w.tell(ctx, w.c.Root(), w.atom.shown, workspace[0], xproto.TimeCurrentTime); err != nil {
				return err
			}
		}
		return w.tell(ctx, id, w.atom.active, fromPager, xproto.TimeCurrentTime, uint32(current))
	}, func(f *facts) (bool, error) {
		active, err := w.focused(ctx, true, nil)
		return active == id && f.viewable, err
	})
}

// givenFocus reports whether the manager gives a window the focus. Else the window takes
// it by itself once it is told that it may, or never (ICCCM 4.1.7, "Globally Active" and
// "No Input"): it does not say which.
func (w *Windows) givenFocus(ctx context.Context, id xproto.Window) (bool, error) {
	const input = 1 // the flag of WM_HINTS' second value
	hints, err := w.cards(ctx, id, w.atom.hints)
	return len(hints) < 2 || hints[0]&input == 0 || hints[1] != 0, err
}

func (w *Windows) activateAlone(ctx context.Context, f facts) error {
	return gone(w.c.Do(ctx, func() error {
		if err := xproto.MapWindowChecked(w.c.X, f.id).Check(); err != nil {
			return err
		}
		if err := xproto.ConfigureWindowChecked(w.c.X, f.id, xproto.ConfigWindowStackMode, []uint32{xproto.StackModeAbove}).Check(); err != nil {
			return err
		}
		err := xproto.SetInputFocusChecked(w.c.X, xproto.InputFocusParent, f.id, xproto.TimeCurrentTime).Check()
		if _, ok := errors.AsType[xproto.MatchError](err); ok {
			return errors.Join(platform.ErrCannot, errors.New("the window is not shown"))
		}
		return err
	}))
}

// Place moves and resizes a window with its frame.
func (w *Windows) Place(ctx context.Context, ref string, to platform.Rect) error {
	if to.Empty() || to.Width > 1<<15 || to.Height > 1<<15 {
		return fmt.Errorf("no window is %d x %d pixels: %w", to.Width, to.Height, platform.ErrCannot)
	}
	id, managed, f, err := w.find(ctx, ref)
	if err != nil {
		return err
	}
	if f.bounds() == to {
		return nil
	}
	if !managed {
		_, inner := w.placing(&f, to)
		r := platform.Rect{X: to.X, Y: to.Y, Width: inner.Width, Height: inner.Height}
		return gone(w.c.Do(ctx, func() error { return xproto.ConfigureWindowChecked(w.c.X, id, placeMask, placeValues(r)).Check() }))
	}
	if err := w.unmaximize(ctx, &f); err != nil {
		return err
	}
	can, err := w.supports(ctx, w.atom.moveResize)
	if err != nil {
		return err
	}
	// The caller reads back what the manager made of it.
	return w.until(ctx, id, bent, heed, func() error {
		outer, inner := w.placing(&f, to)
		if can {
			const northWest, fields = 1, 0xf << 8
			return w.tell(ctx, id, w.atom.moveResize, northWest|fields|fromPager<<12,
				uint32(int32(outer.X)), uint32(int32(outer.Y)), uint32(inner.Width), uint32(inner.Height))
		}
		r := platform.Rect{X: outer.X, Y: outer.Y, Width: inner.Width, Height: inner.Height}
		return gone(w.c.Do(ctx, func() error { return xproto.ConfigureWindowChecked(w.c.X, id, placeMask, placeValues(r)).Check() }))
	}, func(f *facts) (bool, error) { return f.bounds() == to, nil })
}

// placing returns, for a window whose bounds shall be to, where the manager's frame
// begins and how large the window in it is.
func (w *Windows) placing(f *facts, to platform.Rect) (outer, inner platform.Rect) {
	if len(f.shadow) == 4 {
		r := around(to, f.shadow, 1)
		return r, r
	}
	outer, inner = to, to
	now := f.bounds()
	inner.Width = max(1, to.Width-(now.Width-f.content.Width))
	inner.Height = max(1, to.Height-(now.Height-f.content.Height))
	return outer, inner
}

const placeMask = xproto.ConfigWindowX | xproto.ConfigWindowY | xproto.ConfigWindowWidth | xproto.ConfigWindowHeight

func placeValues(r platform.Rect) []uint32 {
	return []uint32{uint32(int32(r.X)), uint32(int32(r.Y)), uint32(r.Width), uint32(r.Height)}
}

// unmaximize takes the states that fix a window's place away, and the frame of f
// is that afterwards.
func (w *Windows) unmaximize(ctx context.Context, f *facts) error {
	fixed := func(f *facts) bool {
		return slices.ContainsFunc(f.state, func(v uint32) bool {
			a := xproto.Atom(v)
			return a == w.atom.maxV || a == w.atom.maxH || a == w.atom.full
		})
	}
	if !fixed(f) {
		return nil
	}
	return w.until(ctx, f.id, "unmaximize the window", heed, func() error {
		const remove = 0
		if err := w.tell(ctx, f.id, w.atom.state, remove, uint32(w.atom.maxV), uint32(w.atom.maxH), fromPager); err != nil {
			return err
		}
		return w.tell(ctx, f.id, w.atom.state, remove, uint32(w.atom.full), 0, fromPager)
	}, func(now *facts) (bool, error) {
		*f = *now
		return !fixed(now), nil
	})
}

// Minimize puts a window away.
func (w *Windows) Minimize(ctx context.Context, ref string) error {
	id, managed, _, err := w.find(ctx, ref)
	if err != nil {
		return err
	}
	if !managed { // nobody could bring it back
		return fmt.Errorf("there is no window manager: %w", platform.ErrCannot)
	}
	return w.until(ctx, id, "minimize the window", heed, func() error {
		return w.tell(ctx, id, w.atom.changeState, stateIconic)
	}, func(f *facts) (bool, error) { return f.window(w).Minimized, nil })
}

// Close asks the window to close. The application may ask the person first.
func (w *Windows) Close(ctx context.Context, ref string) error {
	id, managed, _, err := w.find(ctx, ref)
	if err != nil {
		return err
	}
	if managed {
		return w.tell(ctx, id, w.atom.closeWindow, xproto.TimeCurrentTime, fromPager)
	}
	protocols, err := w.cards(ctx, id, w.atom.protocols)
	if err != nil {
		return err
	}
	return gone(w.c.Do(ctx, func() error {
		if !slices.Contains(protocols, uint32(w.atom.deleteWindow)) {
			return xproto.KillClientChecked(w.c.X, uint32(id)).Check()
		}
		e := xproto.ClientMessageEvent{Format: 32, Window: id, Type: w.atom.protocols,
			Data: xproto.ClientMessageDataUnionData32New([]uint32{uint32(w.atom.deleteWindow), xproto.TimeCurrentTime, 0, 0, 0})}
		return xproto.SendEventChecked(w.c.X, false, id, xproto.EventMaskNoEvent, string(e.Bytes())).Check()
	}))
}

// find reads the window of a ref.
func (w *Windows) find(ctx context.Context, ref string) (id xproto.Window, managed bool, f facts, err error) {
	if id, err = parseRef(ref); err != nil {
		return 0, false, f, err
	}
	if managed, err = w.manager(ctx); err != nil {
		return 0, false, f, err
	}
	f, err = w.one(ctx, id)
	return id, managed, f, err
}

// bent is what until asks for where something else than that may come of it. A
// manager answers every request for a place with a ConfigureNotify, also one that
// changes nothing; for settle after it, a better one may come.
const (
	bent   = ""
	settle = 100 * time.Millisecond
)

// until asks, and waits until it is done, by the window as it is then. Events say
// when to look.
func (w *Windows) until(ctx context.Context, id xproto.Window, what string, patience time.Duration, ask func() error,
	done func(*facts) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	root := w.c.Root()
	events := w.c.Subscribe(ctx, func(e wire.Event) bool {
		switch e.Code {
		case xproto.ConfigureNotify, xproto.DestroyNotify:
			return e.Window() == id
		case xproto.UnmapNotify, xproto.MapNotify: // of its frame, too
			return true
		case xproto.PropertyNotify:
			of := xproto.PropertyNotifyEventNew(e.Data).(xproto.PropertyNotifyEvent).Window
			return of == id || of == root
		}
		return false
	})
	if err := w.hear(ctx); err != nil {
		return err
	}
	if err := w.hearOf(ctx, id); err != nil {
		return err
	}
	if err := ask(); err != nil {
		return err
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		f, err := w.one(ctx, id)
		if err != nil {
			return err
		}
		if ok, err := done(&f); ok || err != nil {
			return err
		}
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return platform.ErrLost
			case e.Code == xproto.DestroyNotify:
				return platform.ErrGone
			case what == bent && e.Code == xproto.ConfigureNotify:
				limit.Reset(settle)
			}
		case <-limit.C:
			if what == bent {
				return nil
			}
			return errUnheeded(what)
		}
	}
}

// hear asks for the root's events, once.
func (w *Windows) hear(ctx context.Context) error {
	select {
	case w.ready <- struct{}{}:
		defer func() { <-w.ready }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.heard {
		return nil
	}
	err := w.c.Listen(ctx, xproto.EventMaskPropertyChange|xproto.EventMaskSubstructureNotify)
	w.heard = err == nil
	return err
}

// hearOf asks for the events of windows.
func (w *Windows) hearOf(ctx context.Context, ids ...xproto.Window) error {
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		xproto.ChangeWindowAttributes(w.c.X, id, xproto.CwEventMask, []uint32{xproto.EventMaskPropertyChange | xproto.EventMaskStructureNotify})
	}
	return w.c.Sync(ctx)
}

// Changes tells, joined, that the list or a window changed.
func (w *Windows) Changes(ctx context.Context) (<-chan struct{}, error) {
	root := w.c.Root()
	wake := make(chan struct{}, 1)
	kick := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	h := &hearing{heard: map[xproto.Window]bool{}}
	remove := w.c.Hook(func(e wire.Event) {
		switch e.Code {
		case xproto.DestroyNotify:
			h.drop(e.Window())
			kick()
		case xproto.CreateNotify, xproto.UnmapNotify, xproto.MapNotify, xproto.ReparentNotify, xproto.ConfigureNotify, xproto.CirculateNotify:
			kick()
		case xproto.PropertyNotify:
			p := xproto.PropertyNotifyEventNew(e.Data).(xproto.PropertyNotifyEvent)
			if p.Window != root || p.Atom == w.atom.stacking || p.Atom == w.atom.clients || p.Atom == w.atom.active {
				kick()
			}
		}
	})
	if err := w.hear(ctx); err != nil {
		remove()
		return nil, err
	}
	if err := w.hearAll(ctx, h); err != nil {
		remove()
		return nil, err
	}
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		defer remove()
		for {
			select {
			case <-wake:
			case <-ctx.Done():
				return
			case <-w.c.Lost():
				return
			}
			if w.hearAll(ctx, h) != nil { // of new windows, too
				return
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// hearing remembers of which windows the events were asked for. A number comes to
// mean another window once its own is destroyed.
type hearing struct {
	mu    sync.Mutex // above what follows
	heard map[xproto.Window]bool
}

func (h *hearing) drop(id xproto.Window) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.heard, id)
}

// add returns those that are new.
func (h *hearing) add(all []xproto.Window) (fresh []xproto.Window) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.heard) > 2*maxWindows {
		clear(h.heard)
	}
	for _, id := range all {
		if !h.heard[id] {
			h.heard[id] = true
			fresh = append(fresh, id)
		}
	}
	return fresh
}

func (w *Windows) hearAll(ctx context.Context, h *hearing) error {
	managed, err := w.manager(ctx)
	if err != nil {
		return err
	}
	order, err := w.order(ctx, managed)
	if err != nil {
		return err
	}
	return w.hearOf(ctx, h.add(order)...)
}
