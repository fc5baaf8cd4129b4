package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Windows lists and arranges the windows by the conventions of window managers
// (EWMH and ICCCM); without a manager it does what one would. It is a
// platform.Windows.
type Windows struct {
	c    *wire.Conn
	atom atoms
	own  int  // this process
	res  bool // the server tells which process a window is of

	ready chan struct{} // cap 1: held while the root's events are asked for
	heard bool
}

var _ platform.Windows = (*Windows)(nil)

// atoms are the names that are used here.
type atoms struct {
	checkWM, supported, stacking, clients, active, workspace, shown               xproto.Atom
	name, visible, utf8, pid, state, hidden, maxV, maxH, full, frame, gtkFrame    xproto.Atom
	moveResize, closeWindow, changeState, wmState, protocols, deleteWindow, hints xproto.Atom
}

// New prepares the list of c's windows.
func New(ctx context.Context, c *wire.Conn) (*Windows, error) {
	w := &Windows{c: c, own: os.Getpid(), ready: make(chan struct{}, 1)}
	a := &w.atom
	for name, to := range map[string]*xproto.Atom{
		"_NET_SUPPORTING_WM_CHECK": &a.checkWM, "_NET_SUPPORTED": &a.supported, "_NET_CLIENT_LIST_STACKING": &a.stacking,
		"_NET_CLIENT_LIST": &a.clients, "_NET_ACTIVE_WINDOW": &a.active, "_NET_WM_DESKTOP": &a.workspace, "_NET_CURRENT_DESKTOP": &a.shown,
		"_NET_WM_NAME": &a.name, "_NET_WM_VISIBLE_NAME": &a.visible, "UTF8_STRING": &a.utf8, "_NET_WM_PID": &a.pid, "_NET_WM_STATE": &a.state,
		"_NET_WM_STATE_HIDDEN": &a.hidden, "_NET_WM_STATE_MAXIMIZED_VERT": &a.maxV, "_NET_WM_STATE_MAXIMIZED_HORZ": &a.maxH,
		"_NET_WM_STATE_FULLSCREEN": &a.full, "_NET_FRAME_EXTENTS": &a.frame, "_GTK_FRAME_EXTENTS": &a.gtkFrame,
		"_NET_MOVERESIZE_WINDOW": &a.moveResize, "_NET_CLOSE_WINDOW": &a.closeWindow, "WM_CHANGE_STATE": &a.changeState, "WM_STATE": &a.wmState,
		"WM_PROTOCOLS": &a.protocols, "WM_DELETE_WINDOW": &a.deleteWindow, "WM_HINTS": &a.hints,
	} {
		var err error
		if *to, err = c.Atom(ctx, name); err != nil {
			return nil, err
		}
	}
	var err error
	if w.res, err = w.hasRes(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

const refPrefix = "x11:0x"

func refOf(w xproto.Window) string { return refPrefix + strconv.FormatUint(uint64(w), 16) }

// parseRef returns the window of a ref; one that is none names no window.
func parseRef(ref string) (xproto.Window, error) {
	hex, ok := strings.CutPrefix(ref, refPrefix)
	n, err := strconv.ParseUint(hex, 16, 32)
	if !ok || err != nil || n == 0 {
		return 0, platform.ErrGone
	}
	return xproto.Window(n), nil
}

// gone turns the server's answer for a window that is not there into ErrGone.
func gone(err error) error {
	if _, ok := errors.AsType[xproto.WindowError](err); ok {
		return platform.ErrGone
	}
	if _, ok := errors.AsType[xproto.DrawableError](err); ok {
		return platform.ErrGone
	}
	return err
}

// manager tells whether a window manager runs. Its property may outlive it, so the
// window that it names has to name itself.
func (w *Windows) manager(ctx context.Context) (bool, error) {
	ids, err := w.cards(ctx, w.c.Root(), w.atom.checkWM)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	self, err := w.cards(ctx, xproto.Window(ids[0]), w.atom.checkWM)
	if errors.Is(err, platform.ErrGone) {
		return false, nil
	}
	return len(self) > 0 && self[0] == ids[0], err
}

// supports tells whether the manager knows a convention.
func (w *Windows) supports(ctx context.Context, a xproto.Atom) (bool, error) {
	all, err := w.cards(ctx, w.c.Root(), w.atom.supported)
	return slices.Contains(all, uint32(a)), err
}

// cards reads a property of 32 bit values; none if it is not there.
func (w *Windows) cards(ctx context.Context, of xproto.Window, name xproto.Atom) ([]uint32, error) {
	r, err := wire.Ask(ctx, w.c, func() (*xproto.GetPropertyReply, error) { return w.property(of, name, maxCards).Reply() })
	if err != nil {
		return nil, gone(err)
	}
	return cards(r), nil
}

const (
	maxCards = 16 << 10 // values of a property
	maxText  = 4 << 10  // bytes of one
)

// property asks for at most words times 4 bytes.
func (w *Windows) property(of xproto.Window, name xproto.Atom, words uint32) xproto.GetPropertyCookie {
	return xproto.GetProperty(w.c.X, false, of, name, xproto.GetPropertyTypeAny, 0, words)
}

// order lists the managed windows, or without a manager those on the root, from
// the top.
func (w *Windows) order(ctx context.Context, managed bool) ([]xproto.Window, error) {
	var ids []uint32
	if managed {
		for _, list := range []xproto.Atom{w.atom.stacking, w.atom.clients} {
			var err error
			if ids, err = w.cards(ctx, w.c.Root(), list); err != nil {
				return nil, err
			}
			if len(ids) > 0 {
				break
			}
		}
	} else {
		tree, err := wire.Ask(ctx, w.c, func() (*xproto.QueryTreeReply, error) { return xproto.QueryTree(w.c.X, w.c.Root()).Reply() })
		if err != nil {
			return nil, err
		}
		for _, c := range tree.Children {
			ids = append(ids, uint32(c))
		}
	}
	all := make([]xproto.Window, 0, len(ids))
	for _, id := range slices.Backward(ids) {
		all = append(all, xproto.Window(id))
	}
	return all[:min(len(all), maxWindows)], nil
}

const maxWindows = 2000

// List returns the windows, the topmost first. One that is on another workspace
// counts as minimized: it has to be activated to be seen.
func (w *Windows) List(ctx context.Context) ([]platform.Window, error) {
	managed, err := w.manager(ctx)
	if err != nil {
		return nil, err
	}
	order, err := w.order(ctx, managed)
	if err != nil {
		return nil, err
	}
	facts, err := wire.Ask(ctx, w.c, func() ([]facts, error) { return w.look(order), nil })
	if err != nil {
		return nil, err
	}
	active, err := w.focused(ctx, managed, order)
	if err != nil {
		return nil, err
	}
	list := []platform.Window{}
	for _, f := range facts {
		if managed && !f.viewable && !f.placed {
			continue // it has not been shown yet, or is just going
		}
		if f.gone || f.inputOnly || !managed && (!f.viewable || f.override && !f.titled()) {
			continue
		}
		p := f.window(w)
		p.Focused, p.Z = f.id == active, len(list)
		p.Own = p.PID == w.own
		list = append(list, p)
	}
	select {
	case <-w.c.Lost(): // every window looked gone
		return nil, platform.ErrLost
	default:
		return list, nil
	}
}

// focused returns the active window, or without a manager the one with the focus.
func (w *Windows) focused(ctx context.Context, managed bool, order []xproto.Window) (xproto.Window, error) {
	if managed {
		ids, err := w.cards(ctx, w.c.Root(), w.atom.active)
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		return xproto.Window(ids[0]), nil
	}
	r, err := wire.Ask(ctx, w.c, func() (*xproto.GetInputFocusReply, error) { return xproto.GetInputFocus(w.c.X).Reply() })
	if err != nil || r.Focus <= xproto.InputFocusPointerRoot {
		return 0, err
	}
	// The focus is in a child as often as on the window itself.
	for at := r.Focus; at != 0 && at != w.c.Root(); {
		if slices.Contains(order, at) {
			return at, nil
		}
		tree, err := wire.Ask(ctx, w.c, func() (*xproto.QueryTreeReply, error) { return xproto.QueryTree(w.c.X, at).Reply() })
		if err != nil {
			if errors.Is(gone(err), platform.ErrGone) {
				return 0, nil
			}
			return 0, err
		}
		at = tree.Parent
	}
	return 0, nil
}

// one reads a single window.
func (w *Windows) one(ctx context.Context, id xproto.Window) (facts, error) {
	f, err := wire.Ask(ctx, w.c, func() (facts, error) { return w.look([]xproto.Window{id})[0], nil })
	if err == nil && f.gone {
		err = platform.ErrGone
		select {
		case <-w.c.Lost():
			err = platform.ErrLost
		default:
		}
	}
	return f, err
}

// tell sends the manager a request about a window, as it is told to any pager.
func (w *Windows) tell(ctx context.Context, id xproto.Window, kind xproto.Atom, data ...uint32) error {
	data = append(data, make([]uint32, 5-len(data))...)
	e := xproto.ClientMessageEvent{Format: 32, Window: id, Type: kind, Data: xproto.ClientMessageDataUnionData32New(data)}
	return w.c.Do(ctx, func() error {
		return xproto.SendEventChecked(w.c.X, false, w.c.Root(),
			xproto.EventMaskSubstructureRedirect|xproto.EventMaskSubstructureNotify, string(e.Bytes())).Check()
	})
}

// errUnheeded says that a manager did not do what it was asked.
func errUnheeded(what string) error {
	return fmt.Errorf("the window manager did not %s: %w", what, platform.ErrCannot)
}
