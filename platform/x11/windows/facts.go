package windows

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"context"

	"github.com/jezek/xgb/res"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// facts is what the server knows of a window.
type facts struct {
	id                            xproto.Window
	gone                          bool
	inputOnly, viewable, override bool
	title, class                  string
	pid                           int
	content                       platform.Rect
	frame, shadow                 []uint32 // left, right, top, bottom
	state                         []uint32 // _NET_WM_STATE
	iconic, placed                bool     // what WM_STATE says; a window that never showed has none
	parent                        xproto.Window
	outer                         platform.Rect // the frame's, where the manager does not tell its width; or with the server's border
}

func (f *facts) titled() bool { return f.title != "" && f.class != "" }

// look asks for everything about all windows before it waits for the first
// answer: a list costs a round trip or two, however long it is.
func (w *Windows) look(ids []xproto.Window) []facts {
	type asked struct {
		attributes                                                 xproto.GetWindowAttributesCookie
		geometry                                                   xproto.GetGeometryCookie
		place                                                      xproto.TranslateCoordinatesCookie
		tree                                                       xproto.QueryTreeCookie
		name, visible, old, class, pid, state, wmState, frame, gtk xproto.GetPropertyCookie
		process                                                    res.QueryClientIdsCookie
	}
	x, root := w.c.X, w.c.Root()
	all := make([]facts, len(ids))
	// The library holds a thousand unanswered requests, and stops to wait then.
	const together = 64
	for from := 0; from < len(ids); from += together {
		part := ids[from:min(len(ids), from+together)]
		cookies := make([]asked, len(part))
		for i, id := range part {
			c := &cookies[i]
			c.attributes = xproto.GetWindowAttributes(x, id)
			c.geometry = xproto.GetGeometry(x, xproto.Drawable(id))
			c.place = xproto.TranslateCoordinates(x, id, root, 0, 0)
			c.tree = xproto.QueryTree(x, id)
			c.name = w.property(id, w.atom.name, maxText/4)
			c.visible = w.property(id, w.atom.visible, maxText/4)
			c.old = w.property(id, xproto.AtomWmName, maxText/4)
			c.class = w.property(id, xproto.AtomWmClass, maxText/4)
			c.pid = w.property(id, w.atom.pid, 1)
			c.state = w.property(id, w.atom.state, 64)
			c.wmState = w.property(id, w.atom.wmState, 2)
			c.frame = w.property(id, w.atom.frame, 4)
			c.gtk = w.property(id, w.atom.gtkFrame, 4)
			if w.res {
				c.process = res.QueryClientIds(x, 1, []res.ClientIdSpec{{Client: uint32(id), Mask: res.ClientIdMaskLocalClientPID}})
			}
		}
		for i, id := range part {
			c, f := &cookies[i], &all[from+i]
			f.id = id
			attributes, err1 := c.attributes.Reply()
			geometry, err2 := c.geometry.Reply()
			place, err3 := c.place.Reply()
			tree, err4 := c.tree.Reply()
			name, _ := c.name.Reply()
			visible, _ := c.visible.Reply()
			old, _ := c.old.Reply()
			class, _ := c.class.Reply()
			pid, _ := c.pid.Reply()
			state, _ := c.state.Reply()
			wmState, _ := c.wmState.Reply()
			frame, _ := c.frame.Reply()
			gtk, _ := c.gtk.Reply()
			if w.res {
				if r, err := c.process.Reply(); err == nil && len(r.Ids) > 0 && len(r.Ids[0].Value) > 0 {
					f.pid = int(r.Ids[0].Value[0])
				}
			}
			if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
				f.gone = true
				continue
			}
			f.inputOnly = attributes.Class == xproto.WindowClassInputOnly
			f.viewable = attributes.MapState == xproto.MapStateViewable
			f.override = attributes.OverrideRedirect
			f.content = platform.Rect{X: int(place.DstX), Y: int(place.DstY), Width: int(geometry.Width), Height: int(geometry.Height)}
			f.parent = tree.Parent
			if b := uint32(geometry.BorderWidth); f.parent == root {
				f.outer = around(f.content, []uint32{b, b, b, b}, 1)
			}
			for _, r := range []*xproto.GetPropertyReply{name, visible, old} {
				if f.title == "" {
					f.title = text(r, w.atom.utf8)
				}
			}
			f.class = className(class)
			if v := cards(pid); f.pid == 0 && len(v) > 0 {
				f.pid = int(v[0])
			}
			f.state, f.frame, f.shadow = cards(state), cards(frame), cards(gtk)
			if v := cards(wmState); len(v) > 0 {
				f.iconic, f.placed = v[0] == stateIconic, v[0] != stateWithdrawn
			}
		}
	}
	w.frames(all)
	return all
}

// frames finds the frames of windows whose manager does not tell their width: the
// ancestor below the root.
func (w *Windows) frames(all []facts) {
	for i := range all {
		f := &all[i]
		if f.gone || len(f.frame) == 4 || f.parent == w.c.Root() || f.parent == 0 {
			continue
		}
		at := f.parent
		for range 8 {
			tree, err := xproto.QueryTree(w.c.X, at).Reply()
			if err != nil {
				break
			}
			if tree.Parent != w.c.Root() {
				at = tree.Parent
				continue
			}
			if g, err := xproto.GetGeometry(w.c.X, xproto.Drawable(at)).Reply(); err == nil {
				border := 2 * int(g.BorderWidth)
				f.outer = platform.Rect{X: int(g.X), Y: int(g.Y), Width: int(g.Width) + border, Height: int(g.Height) + border}
			}
			break
		}
	}
}

// The values of WM_STATE (ICCCM 4.1.3.1).
const (
	stateWithdrawn = 0
	stateIconic    = 3
)

// around returns r with borders of left, right, top, bottom.
func around(r platform.Rect, b []uint32, sign int) platform.Rect {
	if len(b) != 4 {
		return r
	}
	for _, v := range b {
		if v > 4096 {
			return r // nonsense
		}
	}
	left, right, top, bottom := sign*int(b[0]), sign*int(b[1]), sign*int(b[2]), sign*int(b[3])
	out := platform.Rect{X: r.X - left, Y: r.Y - top, Width: r.Width + left + right, Height: r.Height + top + bottom}
	if out.Empty() {
		return r
	}
	return out
}

// bounds is the window with its frame; without the invisible border in which
// programs that draw their own frame put its shadow.
func (f *facts) bounds() platform.Rect {
	switch {
	case len(f.shadow) == 4:
		return around(f.content, f.shadow, -1)
	case len(f.frame) == 4:
		return around(f.content, f.frame, 1)
	case !f.outer.Empty():
		return f.outer
	}
	return f.content
}

func (f *facts) window(w *Windows) platform.Window {
	p := platform.Window{Ref: refOf(f.id), Title: f.title, App: f.class, PID: f.pid, Bounds: f.bounds(), Content: f.content}
	if len(f.shadow) == 4 {
		p.Content = p.Bounds
	}
	p.Minimized = f.iconic || !f.viewable || slices.Contains(f.state, uint32(w.atom.hidden))
	if p.App == "" && f.pid > 0 {
		p.App = processName(f.pid)
	}
	return p
}

func cards(r *xproto.GetPropertyReply) []uint32 {
	if r == nil || r.Format != 32 {
		return nil
	}
	out := make([]uint32, 0, len(r.Value)/4)
	for b := r.Value; len(b) >= 4; b = b[4:] {
		out = append(out, binary.LittleEndian.Uint32(b))
	}
	return out
}

// text reads a property in UTF-8, or else in Latin-1, which is what STRING is.
// COMPOUND_TEXT switches between character sets by escape sequences; what is not in
// Latin-1 or UTF-8 is lost, and what looks for such old text finds the managers'
// rendering of it first.
func text(r *xproto.GetPropertyReply, utf8String xproto.Atom) string {
	if r == nil || r.Format != 8 {
		return ""
	}
	v := r.Value
	if i := slices.Index(v, 0); i >= 0 {
		v = v[:i]
	}
	if r.Type == utf8String || utf8.Valid(v) && !slices.Contains(v, 0x1b) {
		return strings.ToValidUTF8(string(v), "\ufffd")
	}
	var b strings.Builder
	const latin, unicode, other = 0, 1, 2
	for set := latin; len(v) > 0; {
		if v[0] == 0x1b {
			n := 1
			for n < len(v) && v[n] >= 0x20 && v[n] < 0x30 {
				n++
			}
			n = min(n+1, len(v))
			switch seq := string(v[1:n]); seq {
			case "%G":
				set = unicode
			case "%@", "-A", "(B":
				set = latin
			default:
				set = other
				b.WriteRune(utf8.RuneError)
			}
			v = v[n:]
			continue
		}
		switch set {
		case unicode:
			c, n := utf8.DecodeRune(v)
			b.WriteRune(c)
			v = v[n:]
			continue
		case latin:
			b.WriteRune(rune(v[0]))
		}
		v = v[1:]
	}
	return b.String()
}

// className takes the class of "instance\0Class\0".
func className(r *xproto.GetPropertyReply) string {
	if r == nil || r.Format != 8 {
		return ""
	}
	instance, class, _ := strings.Cut(string(r.Value), "\x00")
	class, _, _ = strings.Cut(class, "\x00")
	if class == "" {
		class = instance
	}
	return strings.ToValidUTF8(class, "\ufffd")
}

// processName is for windows that do not say what they are of.
func processName(pid int) string {
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(name)), "\ufffd")
}

// hasRes tells whether the server knows the process behind a window: what it says
// cannot be made up, as a property can.
func (w *Windows) hasRes(ctx context.Context) (bool, error) {
	e, err := w.c.Extension(ctx, "X-Resource")
	if err != nil || !e.Present {
		return false, err
	}
	v, err := wire.Ask(ctx, w.c, func() (*res.QueryVersionReply, error) { return res.QueryVersion(w.c.X, 1, 2).Reply() })
	if err != nil {
		return false, err
	}
	return v.ServerMajor > 1 || v.ServerMinor >= 2, nil
}
