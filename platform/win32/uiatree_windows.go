package win32

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

const (
	maxElements = 20_000 // of one reading, if nobody says otherwise
	maxDepth    = 128
	maxBranch   = 500 // children of one element that a reading by steps looks at
)

// frontier is a window that a reading begins at.
type frontier struct {
	hwnd  windows.HWND
	pid   int
	ref   string // the platform.Window it belongs to
	front bool
}

// frontiers lists the windows with elements, in the order of z: those of
// Windows.List, and menus and drop-downs, which belong to their owners.
func frontiers(pid int) ([]frontier, map[int]string, error) {
	found, err := topLevels()
	if err != nil {
		return nil, nil, err
	}
	front := windows.GetForegroundWindow()
	names := map[uint32]string{}
	apps := map[int]string{}
	listed := map[windows.HWND]bool{}
	var all []frontier
	for _, h := range found {
		if len(all) == maxWindows || !windows.IsWindowVisible(h) {
			continue
		}
		w, ok := describe(h, names)
		if !ok {
			var owner uint32
			windows.GetWindowThreadProcessId(h, &owner)
			prop, _, _ := procGetProp.Call(uintptr(h), uintptr(unsafe.Pointer(ownProperty())))
			bounds, _ := frameOf(h)
			w = platform.Window{PID: int(owner), Bounds: bounds, Own: int(owner) == os.Getpid() || prop != 0}
			if bounds.Empty() || cloaked(h) {
				continue
			}
			w.App = names[owner]
			if w.App == "" {
				w.App = programOf(owner)
				names[owner] = w.App
			}
		}
		// The contents of our own windows are nobody's to look into.
		if w.Own || pid != 0 && w.PID != pid {
			continue
		}
		listed[h] = ok
		apps[w.PID] = w.App
		all = append(all, frontier{h, w.PID, w.Ref, h == front})
	}
	for i, f := range all {
		for h := f.hwnd; all[i].ref == "" && h != 0; {
			const owner = 4 // GW_OWNER
			o, _, _ := procGetWindow.Call(uintptr(h), owner)
			if h = windows.HWND(o); listed[h] {
				all[i].ref = refOf(h)
			}
		}
	}
	return all, apps, nil
}

// part is what was read of an application.
type part struct {
	mu        sync.Mutex // above what follows
	elements  []platform.Element
	truncated bool
}

// Tree reads the elements of applications: each window's in one call, or, of one
// that is too large for that, step by step.
func (a *Accessibility) Tree(ctx context.Context, q platform.TreeQuery) (platform.Tree, error) {
	if q.MaxElements <= 0 {
		q.MaxElements = maxElements
	}
	if q.PerApp <= 0 {
		q.PerApp = perApp
	}
	if pid, ok := appOf(q.Root); ok {
		q.PID, q.Root = pid, ""
	}
	if q.Root != "" {
		return a.below(ctx, q)
	}
	all, apps, err := frontiers(q.PID)
	if err != nil {
		return platform.Tree{}, err
	}
	byApp := map[int][]frontier{}
	var order []int
	for _, f := range all {
		if byApp[f.pid] == nil {
			order = append(order, f.pid)
		}
		byApp[f.pid] = append(byApp[f.pid], f)
	}
	parts, errs := make([]part, len(order)), make([]error, len(order))
	var wait sync.WaitGroup
	for i, pid := range order {
		wait.Go(func() { errs[i] = a.readApp(ctx, q, apps[pid], byApp[pid], &parts[i]) })
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return platform.Tree{}, err
	}
	var tree platform.Tree
	for i, pid := range order {
		p := &parts[i]
		p.mu.Lock() // who was given up may still be reading
		if errors.Is(errs[i], platform.ErrHung) {
			tree.Hung = append(tree.Hung, apps[pid])
		}
		tree.Truncated = tree.Truncated || p.truncated
		first := len(tree.Elements)
		for _, e := range p.elements {
			if len(tree.Elements) == q.MaxElements {
				tree.Truncated = true
				break
			}
			if e.Parent >= 0 {
				e.Parent += first
			}
			tree.Elements = append(tree.Elements, e)
		}
		p.mu.Unlock()
	}
	return tree, nil
}

// application is the element that an application's windows hang below.
func application(pid int, name string) platform.Element {
	return platform.Element{
		Ref: appRef(pid), Parent: -1, Role: "application", Name: name, States: []string{"enabled", "visible"}, App: name, PID: pid,
	}
}

// readApp reads one application's windows, in the time that it has.
func (a *Accessibility) readApp(ctx context.Context, q platform.TreeQuery, app string, windowsOf []frontier, p *part) error {
	p.elements = []platform.Element{application(windowsOf[0].pid, app)}
	pid := windowsOf[0].pid
	a.mu.Lock()
	steps := a.large[pid]
	a.mu.Unlock()
	hung := false
	ctx, stop := context.WithTimeout(ctx, q.PerApp+time.Second) // after it, nobody waits
	defer stop()
	err := a.run(ctx, q.PerApp, func() error {
		for _, f := range windowsOf {
			if ctx.Err() != nil {
				return platform.ErrHung
			}
			if is, _, _ := procIsHungAppWindow.Call(uintptr(f.hwnd)); is != 0 {
				hung = true
				continue
			}
			r := reading{a: a, ctx: ctx, app: app, from: f, full: q.Bounds, most: q.MaxElements, steps: steps}
			r.window()
			p.mu.Lock()
			for _, e := range r.elements {
				if e.Parent < 0 {
					e.Parent = 0
				} else {
					e.Parent += len(p.elements) - r.placed
				}
				r.placed++
				p.elements = append(p.elements, e)
			}
			p.truncated = p.truncated || r.truncated
			p.mu.Unlock()
			if errors.Is(r.err, platform.ErrHung) {
				hung = true
			}
		}
		if hung {
			return platform.ErrHung
		}
		return nil
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case errors.Is(err, platform.ErrHung):
		if len(a.large) > maxWindows { // of processes that ended long ago
			clear(a.large)
		}
		a.large[pid] = true
	case err == nil && !p.truncated && len(p.elements) < maxBranch:
		delete(a.large, pid)
	}
	return err
}

// below reads what lies below an element.
func (a *Accessibility) below(ctx context.Context, q platform.TreeQuery) (platform.Tree, error) {
	var tree platform.Tree
	var p part
	err := a.run(ctx, q.PerApp, func() error {
		e, err := a.take(q.Root)
		if err != nil {
			return err
		}
		defer e.element.release()
		r := reading{
			a: a, ctx: ctx, app: programOf(uint32(e.pid)), full: q.Bounds, most: q.MaxElements,
			from: frontier{hwnd: e.hwnd, pid: e.pid, ref: windowRef(e.hwnd)},
		}
		var root object
		if err := e.element.call(elementUpdatedCache, uintptr(a.whole), uintptr(unsafe.Pointer(&root))); err != nil {
			return err
		}
		r.subtree(root, -1, 0, e.top)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.elements, p.truncated = r.elements, r.truncated
		return nil
	})
	switch {
	case errors.Is(err, platform.ErrHung):
		pid := 0
		if e, err := a.look(q.Root); err == nil {
			pid = e.pid
		}
		return platform.Tree{Hung: []string{programOf(uint32(pid))}}, nil
	case err != nil:
		return tree, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	tree.Elements, tree.Truncated = p.elements, p.truncated
	return tree, nil
}

// look returns what is known about a ref, without its element.
func (a *Accessibility) look(ref string) (entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.refs[ref]
	if e == nil {
		return entry{}, platform.ErrGone
	}
	return entry{pid: e.pid, hwnd: e.hwnd, top: e.top}, nil
}

// reading is the reading of one window.
type reading struct {
	a     *Accessibility
	ctx   context.Context
	app   string
	from  frontier
	full  bool
	most  int
	steps bool // element by element

	elements  []platform.Element
	placed    int // of them, those that stand in the application's list
	truncated bool
	err       error
}

func (r *reading) window() {
	request := r.a.whole
	if r.steps {
		request = r.a.one
	}
	var root object
	if r.err = r.a.automation.call(automationFromHandleCached, uintptr(r.from.hwnd), uintptr(request),
		uintptr(unsafe.Pointer(&root))); r.err != nil {
		return
	}
	if r.steps {
		r.walk(root, -1, 0, true)
	} else {
		r.subtree(root, -1, 0, true)
	}
}

// over reports whether the reading has to end here.
func (r *reading) over(depth int) bool {
	if len(r.elements) >= r.most || depth > maxDepth {
		r.truncated = true
		return true
	}
	return r.ctx.Err() != nil
}

// add tells of an element, whose reference becomes the table's, and returns its index.
func (r *reading) add(el object, parent int, top bool) int {
	f, runtime := factsOf(el)
	f.pid = r.from.pid
	f.active = top && r.from.front
	ref := r.a.keep(elementRef(f.pid, runtime), entry{element: el, pid: f.pid, hwnd: r.from.hwnd, top: top})
	r.elements = append(r.elements, f.element(ref, parent, r.app, r.from.ref, r.full))
	return len(r.elements) - 1
}

// subtree tells of an element that was fetched with all below it.
func (r *reading) subtree(el object, parent, depth int, top bool) {
	if el == 0 {
		return
	}
	if r.over(depth) {
		el.release()
		return
	}
	var children object
	if err := el.call(elementCachedChildren, uintptr(unsafe.Pointer(&children))); err != nil {
		children = 0 // a leaf
	}
	defer children.release()
	index := r.add(el, parent, top)
	if children == 0 {
		return
	}
	var n int32
	if err := children.call(arrayLength, uintptr(unsafe.Pointer(&n))); err != nil {
		return
	}
	for i := range n {
		var child object
		if r.over(depth+1) || children.call(arrayElement, uintptr(i), uintptr(unsafe.Pointer(&child))) != nil {
			return
		}
		r.subtree(child, index, depth+1, false)
	}
}

// walk tells of an element and fetches those below it one by one, so that it can
// end in the middle of ten thousand rows.
func (r *reading) walk(el object, parent, depth int, top bool) {
	if el == 0 {
		return
	}
	if r.over(depth) {
		el.release()
		return
	}
	index := r.add(el.hold(), parent, top)
	var child object
	err := r.a.walker.call(walkerFirstCached, uintptr(el), uintptr(r.a.one), uintptr(unsafe.Pointer(&child)))
	el.release()
	for n := 0; err == nil && child != 0; n++ {
		if n == maxBranch {
			r.truncated = true
		}
		if n >= maxBranch || r.over(depth+1) {
			child.release()
			return
		}
		r.walk(child.hold(), index, depth+1, false)
		var next object
		err = r.a.walker.call(walkerNextCached, uintptr(child), uintptr(r.a.one), uintptr(unsafe.Pointer(&next)))
		child.release()
		child = next
	}
	if err != nil && r.err == nil {
		r.err = err
	}
}

// factsOf reads what was fetched with an element, and its runtime id. It asks
// nobody: what was not fetched or is not there is as if it were not so.
func factsOf(el object) (facts, []int32) {
	property := func(id uintptr, read func(v *variant)) {
		var v variant
		if el.call(elementCached, id, uintptr(unsafe.Pointer(&v))) == nil {
			read(&v)
			v.clear()
		}
	}
	truth := func(id uintptr) (is bool) {
		property(id, func(v *variant) { is = v.bool() })
		return is
	}
	text := func(id uintptr) (s string) {
		property(id, func(v *variant) { s = v.text(maxText) })
		return s
	}
	number := func(id uintptr) (n int32) {
		property(id, func(v *variant) { n = v.int() })
		return n
	}
	var f facts
	var runtime []int32
	property(propRuntimeID, func(v *variant) { runtime = v.ints() })
	f.control, f.name, f.help = number(propControl), text(propName), text(propHelp)
	f.focused, f.focusable, f.enabled = truth(propFocused), truth(propFocusable), truth(propEnabled)
	f.password, f.offscreen, f.required = truth(propPassword), truth(propOffscreen), truth(propRequired)
	f.invokes = truth(propHasInvoke)
	if f.expands = truth(propHasExpand); f.expands {
		f.expand = number(propExpandState)
	}
	if f.flips = truth(propHasToggle); f.flips {
		f.toggle = number(propToggleState)
	}
	if f.selects = truth(propHasSelect); f.selects {
		f.selected = truth(propSelected)
	}
	if f.ranges = truth(propHasRange); f.ranges {
		f.rangeReadonly = truth(propRangeReadOnly)
		property(propNumber, func(v *variant) { f.number = v.float() })
	}
	if f.valued = truth(propHasValue); f.valued {
		f.readonly = truth(propReadOnly)
		if !f.password {
			f.value = text(propValue)
		}
	}
	f.multiselect, f.modal = truth(propMultiselect), truth(propModal)
	var area rect
	if el.call(elementCachedRect, uintptr(unsafe.Pointer(&area))) == nil {
		f.bounds = rectOf(area)
	}
	return f, runtime
}
