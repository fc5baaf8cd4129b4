package darwin

import (
	"context"
	"errors"
	"os"
	"sync"

	"github.com/handrail-dev/handrail/platform"
)

const (
	maxElements = 20_000 // of one reading, if nobody says otherwise
	maxBranch   = 500    // children of one element that are looked at
	maxDepth    = 128
)

// asked are the attributes of an element: all of them in one question, by these
// places.
var asked = [...]string{
	"AXRole", "AXSubrole", "AXTitle", "AXDescription", "AXHelp", "AXValue", "AXEnabled", "AXFocused", "AXSelected", "AXExpanded",
	"AXDisclosing", "AXPosition", "AXSize", "AXModal", "AXMain", "AXMinimized", "AXChildren",
}

const (
	askRole = iota
	askSubrole
	askTitle
	askDescription
	askHelp
	askValue
	askEnabled
	askFocused
	askSelected
	askExpanded
	askDisclosing
	askPosition
	askSize
	askModal
	askMain
	askMinimized
	askChildren
)

var askedNames struct {
	sync.Once
	array object
}

// names is the array of asked; it is kept.
func (a *api) names() object {
	askedNames.Do(func() {
		var all []object
		for _, name := range asked {
			all = append(all, a.word(name))
		}
		askedNames.array = a.array(all...)
	})
	return askedNames.array
}

// look asks an element for everything; the array of its children is to be
// released.
func (a *api) look(el object, l layout, pid int, full bool) (facts, object, error) {
	var values object
	if err := axError("AXUIElementCopyMultipleAttributeValues", a.axValues(el, a.names(), 0, &values)); err != nil {
		return facts{}, 0, err
	}
	defer a.drop(values)
	v := a.items(values, len(asked))
	if len(v) != len(asked) {
		return facts{}, 0, platform.ErrGone
	}
	f := facts{
		role: a.read(v[askRole], maxText), subrole: a.read(v[askSubrole], maxText), title: a.read(v[askTitle], maxText),
		description: a.read(v[askDescription], maxText), help: a.read(v[askHelp], maxText), pid: pid,
	}
	if f.role == "" {
		return facts{}, 0, platform.ErrGone // everything that lives has one
	}
	if !f.protected() {
		f.text = a.read(v[askValue], maxText)
	}
	f.number, f.numbered = a.number(v[askValue])
	f.enabled, f.knowsEnabled = a.truth(v[askEnabled])
	f.focused, _ = a.truth(v[askFocused])
	f.selected, f.knowsSelected = a.truth(v[askSelected])
	if f.expanded, f.knowsExpands = a.truth(v[askExpanded]); !f.knowsExpands {
		if f.expanded, f.knowsExpands = a.truth(v[askDisclosing]); f.knowsExpands && !f.expanded {
			f.knowsExpands = a.settable(el, "AXDisclosing") // rows without any below them say it, too
		}
	}
	f.modal, _ = a.truth(v[askModal])
	f.main, _ = a.truth(v[askMain])
	f.minimized, _ = a.truth(v[askMinimized])
	at, okAt := a.pair(v[askPosition], axPoint)
	size, okSize := a.pair(v[askSize], axSize)
	if okAt && okSize {
		f.bounds = l.toPixels(rect{at.X, at.Y, size.X, size.Y})
	}
	if full {
		if f.word() == "textbox" || f.role == "AXComboBox" {
			f.settable = a.settable(el, "AXValue")
		}
		var names object
		if a.axActions(el, &names) == axSuccess {
			for _, name := range a.items(names, 64) {
				f.actions = append(f.actions, a.read(name, 128))
			}
			a.drop(names)
		}
	}
	children := object(0)
	if c := v[askChildren]; a.is(c, a.arrayType) {
		children = a.retain(c)
	}
	return f, children, nil
}

// reading is the reading of one application.
type reading struct {
	x    *Accessibility
	l    layout
	ctx  context.Context
	pid  int
	app  string
	full bool
	most int
	// front tells that it is the application in front: its menus can be used.
	front bool
	// windows are the window server's, for those whose number AX does not tell.
	windows []shown

	mu        sync.Mutex // above what follows
	elements  []platform.Element
	truncated bool
}

// windowOf returns the ref of the window that an element of AX's is.
func (r *reading) windowOf(el object) string {
	if n := r.x.a.numberOf(el); n != 0 {
		return windowRef(n)
	}
	at, okAt := r.x.a.pointOf(el, "AXPosition", axPoint)
	size, okSize := r.x.a.pointOf(el, "AXSize", axSize)
	for _, w := range r.windows {
		if okAt && okSize && w.PID == r.pid && w.points == (rect{at.X, at.Y, size.X, size.Y}) {
			return w.Ref
		}
	}
	return ""
}

func (r *reading) add(f facts, el object, parent int, window string) int {
	ref := r.x.keep(el, r.pid, r.app, window)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.elements = append(r.elements, f.element(ref, parent, r.app, window, r.full))
	return len(r.elements) - 1
}

// walk tells of an element and those below it. ErrHung ends the reading: who did
// not answer in a second is not asked again.
func (r *reading) walk(el object, parent, depth int, window string) error {
	r.mu.Lock()
	n := len(r.elements)
	if n >= r.most || depth > maxDepth {
		r.truncated = true
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	if err := r.ctx.Err(); err != nil {
		return platform.ErrHung
	}
	f, children, err := r.x.a.look(el, r.l, r.pid, r.full)
	if err != nil {
		if errors.Is(err, platform.ErrHung) {
			return err
		}
		return nil // it went away meanwhile
	}
	defer r.x.a.drop(children)
	if f.role == "AXWindow" || f.role == "AXSheet" {
		if w := r.windowOf(el); w != "" {
			window = w
		}
	}
	index := r.add(f, el, parent, window)
	switch {
	case f.role == "AXMenuBar" && !r.front:
		return nil // nobody sees it
	case f.role == "AXMenuBarItem" && !f.selected, f.role == "AXMenuItem" && !f.selected:
		return nil // the menu below it is closed
	}
	all := r.x.a.items(children, maxBranch+1)
	for i, child := range all {
		if i == maxBranch {
			r.mu.Lock()
			r.truncated = true
			r.mu.Unlock()
			break
		}
		if err := r.walk(child, index, depth+1, window); err != nil {
			return err
		}
	}
	return nil
}

// Tree reads the elements of the applications that show a window: one question
// for each element, since AX has none for more.
func (x *Accessibility) Tree(ctx context.Context, q platform.TreeQuery) (platform.Tree, error) {
	if q.MaxElements <= 0 {
		q.MaxElements = maxElements
	}
	if q.PerApp <= 0 {
		q.PerApp = perApp
	}
	l, err := x.a.arrangement()
	if err != nil {
		return platform.Tree{}, err
	}
	all, err := x.a.list()
	if err != nil {
		return platform.Tree{}, err
	}
	if q.Root != "" {
		return x.below(ctx, q, l, all)
	}
	names := map[int]string{}
	var order []int
	for _, w := range all {
		if _, known := names[w.PID]; !known && w.PID != os.Getpid() && (q.PID == 0 || w.PID == q.PID) {
			names[w.PID] = w.App
			order = append(order, w.PID)
		}
	}
	front := x.a.frontmost()
	readings, errs := make([]*reading, len(order)), make([]error, len(order))
	var wait sync.WaitGroup
	for i, pid := range order {
		limited, stop := context.WithTimeout(ctx, q.PerApp)
		defer stop()
		r := &reading{x: x, l: l, ctx: limited, pid: pid, app: names[pid], full: q.Bounds, most: q.MaxElements, front: pid == front, windows: all}
		readings[i] = r
		wait.Go(func() {
			errs[i] = x.run(ctx, q.PerApp, func() error {
				app := x.a.application(pid, min(glance, q.PerApp))
				defer x.a.drop(app)
				// Programs that are built on Chromium make their tree for whoever asks for it;
				// others do not know the word.
				_ = x.a.set(app, "AXManualAccessibility", x.a.yes)
				return r.walk(app, -1, 0, "")
			})
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return platform.Tree{}, err
	}
	var tree platform.Tree
	for i, r := range readings {
		if errors.Is(errs[i], platform.ErrHung) {
			tree.Hung = append(tree.Hung, r.app)
		}
		r.mu.Lock() // who was given up may still be reading
		tree.Truncated = tree.Truncated || r.truncated
		first := len(tree.Elements)
		for _, e := range r.elements {
			if len(tree.Elements) == q.MaxElements {
				tree.Truncated = true
				break
			}
			if e.Parent >= 0 {
				e.Parent += first
			}
			tree.Elements = append(tree.Elements, e)
		}
		r.mu.Unlock()
	}
	return tree, nil
}

// below reads what lies below an element.
func (x *Accessibility) below(ctx context.Context, q platform.TreeQuery, l layout, all []shown) (platform.Tree, error) {
	limited, stop := context.WithTimeout(ctx, q.PerApp)
	defer stop()
	r := &reading{x: x, l: l, ctx: limited, full: q.Bounds, most: q.MaxElements, front: true, windows: all}
	name := ""
	x.mu.Lock()
	if e := x.refs[q.Root]; e != nil {
		r.pid, r.app, name = e.pid, e.app, e.app
	}
	x.mu.Unlock()
	err := x.with(limited, q.Root, func(e entry) error { return r.walk(e.element, -1, 0, e.window) })
	if ctx.Err() != nil {
		return platform.Tree{}, ctx.Err()
	}
	tree := platform.Tree{}
	switch {
	case errors.Is(err, platform.ErrHung), errors.Is(err, context.DeadlineExceeded):
		tree.Hung = []string{name}
	case err != nil:
		return tree, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	tree.Elements, tree.Truncated = append(tree.Elements, r.elements...), r.truncated
	if len(tree.Elements) == 0 && len(tree.Hung) == 0 {
		return tree, platform.ErrGone
	}
	return tree, nil
}
