package darwin

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Windows lists and arranges the session's windows. It implements
// platform.Windows. Arranging them goes by AX, and needs its permission.
type Windows struct{ a *api }

// NewWindows returns a Windows.
func NewWindows() (*Windows, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	return &Windows{a}, nil
}

const (
	onScreenOnly   = 1  // kCGWindowListOptionOnScreenOnly
	withoutDesktop = 16 // kCGWindowListExcludeDesktopElements
	maxWindows     = 4096
	maxTitle       = 512
	normalLayer    = 0
	dockLayer      = 20 // what lies there and higher is the system's: the Dock, the menu bar, the pointer
)

// shown is a window as the window server tells it, without those of the system.
type shown struct {
	platform.Window
	points rect
}

// list asks for the windows on the screen, the top one first.
func (a *api) list() ([]shown, error) {
	l, err := a.arrangement()
	if err != nil {
		return nil, err
	}
	info := a.windowInfo(onScreenOnly|withoutDesktop, 0)
	if info == 0 { // the window server is not there for this process
		return nil, noSession()
	}
	defer a.release(info)
	front := a.frontmost()
	var all []shown
	focused := false
	for _, d := range a.items(info, maxWindows) {
		value := func(key string) ref { return a.dictionaryValue(d, a.word(key)) }
		number := func(key string) int { v, _ := a.number(value(key)); return int(v) }
		w := shown{}
		if layer := number("kCGWindowLayer"); layer < normalLayer || layer >= dockLayer {
			continue
		}
		if alpha, known := a.number(value("kCGWindowAlpha")); known && alpha == 0 {
			continue
		}
		bounds := value("kCGWindowBounds")
		if bounds == 0 || !a.rectOf(bounds, &w.points) || w.points.Width < 2 || w.points.Height < 2 {
			continue
		}
		w.Ref, w.PID = windowRef(number("kCGWindowNumber")), number("kCGWindowOwnerPID")
		w.App, w.Title = a.read(value("kCGWindowOwnerName"), maxTitle), a.read(value("kCGWindowName"), maxTitle)
		w.Bounds = l.toPixels(w.points)
		w.Content, w.Z, w.Own = w.Bounds, len(all), w.PID == os.Getpid()
		if (w.PID == front || front == 0) && !focused && number("kCGWindowLayer") == normalLayer {
			w.Focused, focused = true, true
		}
		all = append(all, w)
	}
	return all, nil
}

// frontmost returns the process of the application that has the keyboard, 0 if that
// is not told: then whose window is on top has it. AppKit would know, but learns of
// changes only where the main thread serves its loop.
func (a *api) frontmost() int {
	if !a.trusted() {
		return 0
	}
	all := a.axEverything()
	defer a.drop(all)
	app, err := a.attribute(all, "AXFocusedApplication")
	if err != nil {
		return 0
	}
	defer a.drop(app)
	var pid int32
	if a.axPID(app, &pid) != axSuccess {
		return 0
	}
	return int(pid)
}

// List returns the windows that a person could see. Minimised ones are in the Dock:
// the window server does not tell of them, and AX does, where it is allowed.
func (w *Windows) List(ctx context.Context) ([]platform.Window, error) {
	all, err := w.a.list()
	if err != nil {
		return nil, err
	}
	out := make([]platform.Window, 0, len(all))
	apps := map[int]string{}
	for _, one := range all {
		out = append(out, one.Window)
		apps[one.PID] = one.App
	}
	if !w.a.trusted() || w.a.axWindowOf == nil {
		return out, nil
	}
	for pid, name := range apps {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		out = append(out, w.a.minimized(pid, name, len(out))...)
	}
	return out, nil
}

// minimized lists an application's windows that are in the Dock.
func (a *api) minimized(pid int, name string, z int) []platform.Window {
	const short = 100 * time.Millisecond // one that hangs must not hold up the list
	app := a.application(pid, short)
	defer a.drop(app)
	array, err := a.attribute(app, "AXWindows")
	if err != nil {
		return nil
	}
	defer a.drop(array)
	var all []platform.Window
	for _, el := range a.items(array, maxWindows) {
		if is, _ := a.truthOf(el, "AXMinimized"); !is {
			continue
		}
		if n := a.numberOf(el); n != 0 {
			all = append(all, platform.Window{Ref: windowRef(n), Title: a.textOf(el, "AXTitle", maxTitle), App: name, PID: pid, Minimized: true,
				Z: z + len(all), Own: pid == os.Getpid()})
		}
	}
	return all
}

// numberOf returns the window server's number of a window of AX's, 0 if this macOS
// does not tell.
func (a *api) numberOf(el ref) int {
	var n uint32
	if a.axWindowOf == nil || a.axWindowOf(el, &n) != axSuccess {
		return 0
	}
	return int(n)
}

const glance = time.Second // how long an application may take over one question

// find returns AX's element of a window; release it, and its application's.
func (w *Windows) find(wanted string) (app, window ref, err error) {
	a := w.a
	if !a.trusted() {
		return 0, 0, lacks(accessibility)
	}
	number, ok := windowNumber(wanted)
	if !ok {
		return 0, 0, platform.ErrGone
	}
	all, err := a.list()
	if err != nil {
		return 0, 0, err
	}
	pids := []int{}
	var seen shown
	for _, one := range all {
		if one.Ref == wanted {
			pids, seen = []int{one.PID}, one
			break
		}
		if !slices.Contains(pids, one.PID) {
			pids = append(pids, one.PID) // it may be in the Dock
		}
	}
	for _, pid := range pids {
		app := a.application(pid, glance)
		array, err := a.attribute(app, "AXWindows")
		for _, el := range a.items(array, maxWindows) {
			same := a.numberOf(el) == number
			if a.axWindowOf == nil && seen.Ref != "" {
				at, okAt := a.pointOf(el, "AXPosition", axPoint)
				size, okSize := a.pointOf(el, "AXSize", axSize)
				same = okAt && okSize && seen.points == rect{at.X, at.Y, size.X, size.Y}
			}
			if same {
				a.retain(el)
				a.drop(array)
				return app, el, nil
			}
		}
		a.drop(array, app)
		if err == platform.ErrHung && seen.Ref != "" {
			return 0, 0, err
		}
	}
	return 0, 0, platform.ErrGone
}

// with does something with a window.
func (w *Windows) with(ref string, do func(app, window object) error) error {
	app, el, err := w.find(ref)
	if err != nil {
		return err
	}
	defer w.a.drop(app, el)
	return do(app, el)
}

// object is ref, where a parameter has that name.
type object = ref

// Activate brings a window to the front and gives it the keyboard.
func (w *Windows) Activate(ctx context.Context, ref string) error {
	a := w.a
	err := w.with(ref, func(app, el object) error {
		if is, _ := a.truthOf(el, "AXMinimized"); is {
			if err := a.set(el, "AXMinimized", a.no); err != nil {
				return err
			}
		}
		if err := a.perform(el, "AXRaise"); err != nil && err != platform.ErrCannot {
			return err
		}
		_ = a.set(el, "AXMain", a.yes) // some windows cannot be
		return a.set(app, "AXFrontmost", a.yes)
	})
	if err != nil {
		return err
	}
	// The window server needs a moment; there is no event for it.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		all, err := a.list()
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.Ref == ref && one.Focused {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return platform.ErrCannot
}

// Place moves and resizes a window.
func (w *Windows) Place(_ context.Context, ref string, to platform.Rect) error {
	l, err := w.a.arrangement()
	if err != nil {
		return err
	}
	r := l.toPoints(to)
	return w.with(ref, func(_, el object) error {
		// Twice: a window that is too large for its new place is moved back.
		for range 2 {
			if err := w.a.setPoint(el, "AXPosition", axPoint, point{r.X, r.Y}); err != nil {
				return err
			}
			if err := w.a.setPoint(el, "AXSize", axSize, point{r.Width, r.Height}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Minimize puts a window into the Dock.
func (w *Windows) Minimize(_ context.Context, ref string) error {
	return w.with(ref, func(_, el object) error { return w.a.set(el, "AXMinimized", w.a.yes) })
}

// Close presses a window's button for it.
func (w *Windows) Close(_ context.Context, ref string) error {
	return w.with(ref, func(_, el object) error {
		button, err := w.a.attribute(el, "AXCloseButton")
		if err != nil {
			return err
		}
		defer w.a.drop(button)
		if err := w.a.perform(button, "AXPress"); err != platform.ErrHung {
			return err
		}
		return nil // it asks whether to save, and answers afterwards
	})
}

// Changes looks at the list while somebody listens: macOS tells of windows only
// to those who ask each application.
func (w *Windows) Changes(ctx context.Context) (<-chan struct{}, error) {
	const look = 150 * time.Millisecond
	c := make(chan struct{}, 1)
	before, err := w.digest()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(c)
		tick := time.NewTicker(look)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, err := w.digest()
			if err != nil || now == before {
				continue
			}
			before = now
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	return c, nil
}

// digest is a text that differs when the windows do.
func (w *Windows) digest() (string, error) {
	all, err := w.a.list()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, one := range all {
		b.WriteString(one.Ref + "\x00" + one.Title + "\x00")
		for _, n := range []int{one.Bounds.X, one.Bounds.Y, one.Bounds.Width, one.Bounds.Height} {
			b.WriteString(windowRef(n))
		}
		if one.Focused {
			b.WriteByte('*')
		}
	}
	return b.String(), nil
}
