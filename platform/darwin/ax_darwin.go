package darwin

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"github.com/handrail-dev/handrail/platform"
)

// Kinds of AXValue.
const (
	axPoint = 1 // kAXValueCGPointType
	axSize  = 2 // kAXValueCGSizeType
)

const (
	perElement = 3 * time.Second
	perApp     = 2 * time.Second
	maxCalls   = 16 // under way at once, those given up counted
	maxRefs    = 30_000
)

// Accessibility reads and uses the elements that applications publish. Each
// question has its time; calls go to goroutines of their own, so that an
// application that hangs holds up nobody but itself. It implements
// platform.Accessibility.
type Accessibility struct {
	a       *api
	windows *Windows
	calls   chan struct{} // a token for each call under way

	mu     sync.Mutex // above what follows
	refs   map[string]*entry
	byHash map[uint][]*entry
	clock  uint64 // goes on with every use of an entry
	serial uint64
}

var _ platform.Accessibility = (*Accessibility)(nil)

// entry is an element that was told of.
type entry struct {
	ref     string
	element object
	hash    uint
	pid     int
	app     string
	window  string
	used    uint64
}

// NewAccessibility returns an Accessibility. *platform.MissingError without the
// permission.
func NewAccessibility(windows *Windows) (*Accessibility, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	if !a.trusted() {
		return nil, lacks(accessibility)
	}
	// On the element for everything it is the patience of this process with every
	// element; on another it would be that of one reference only.
	all := a.axEverything()
	defer a.drop(all)
	a.axPatience(all, float32(glance.Seconds()))
	return &Accessibility{
		a: a, windows: windows, calls: make(chan struct{}, maxCalls), refs: map[string]*entry{}, byHash: map[uint][]*entry{},
	}, nil
}

// Close forgets the elements.
func (x *Accessibility) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.refs {
		x.a.drop(e.element)
	}
	clear(x.refs)
	clear(x.byHash)
}

// run has work done, and waits for it for most at most: ErrHung then.
func (x *Accessibility) run(ctx context.Context, most time.Duration, work func() error) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case x.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return platform.ErrHung
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-x.calls }()
		done <- work()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return platform.ErrHung
	}
}

// keep notes an element, and returns the ref by which it is known: the same for the same element,
// as long as it is remembered.
func (x *Accessibility) keep(el object, pid int, app, window string) string {
	hash := x.a.hash(el)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clock++
	for _, e := range x.byHash[hash] {
		if x.a.equal(e.element, el) {
			e.used, e.app, e.window = x.clock, app, window
			return e.ref
		}
	}
	if len(x.refs) >= maxRefs {
		x.forgetLocked()
	}
	x.serial++
	e := &entry{ref: elementRef(pid, x.serial), element: x.a.retain(el), hash: hash, pid: pid, app: app, window: window, used: x.clock}
	x.refs[e.ref] = e
	x.byHash[hash] = append(x.byHash[hash], e)
	return e.ref
}

// forgetLocked drops those that were not used for the longest time.
func (x *Accessibility) forgetLocked() {
	for _, e := range x.refs {
		if x.clock-e.used > maxRefs/2 {
			x.dropLocked(e)
		}
	}
}

func (x *Accessibility) dropLocked(e *entry) {
	delete(x.refs, e.ref)
	same := x.byHash[e.hash]
	left := make([]*entry, 0, len(same))
	for _, other := range same {
		if other != e {
			left = append(left, other)
		}
	}
	if len(left) == 0 {
		delete(x.byHash, e.hash)
	} else {
		x.byHash[e.hash] = left
	}
	x.a.drop(e.element)
}

// with does something with the element of a ref.
func (x *Accessibility) with(ctx context.Context, ref string, do func(e entry) error) error {
	err := x.run(ctx, perElement, func() error {
		x.mu.Lock()
		e := x.refs[ref]
		if e == nil {
			x.mu.Unlock()
			return platform.ErrGone
		}
		x.clock++
		e.used = x.clock
		taken := *e
		x.a.retain(taken.element)
		x.mu.Unlock()
		defer x.a.drop(taken.element)
		return do(taken)
	})
	if err == platform.ErrGone {
		x.mu.Lock()
		defer x.mu.Unlock()
		if e := x.refs[ref]; e != nil {
			x.dropLocked(e)
		}
	}
	return err
}

// application returns an application's element, which waits no longer than that
// for an answer; release it.
func (a *api) application(pid int, patience time.Duration) object {
	app := a.axApplication(int32(pid))
	if app != 0 {
		a.axPatience(app, float32(patience.Seconds()))
	}
	return app
}

// attribute asks for one attribute; release it.
func (a *api) attribute(el object, name string) (object, error) {
	if el == 0 {
		return 0, platform.ErrGone
	}
	var value object
	code := a.axValue(el, a.word(name), &value)
	return value, axError("AXUIElementCopyAttributeValue", code)
}

func (a *api) truthOf(el object, name string) (is, known bool) {
	value, err := a.attribute(el, name)
	if err != nil {
		return false, false
	}
	defer a.drop(value)
	return a.truth(value)
}

func (a *api) textOf(el object, name string, most int) string {
	value, err := a.attribute(el, name)
	if err != nil {
		return ""
	}
	defer a.drop(value)
	return a.read(value, most)
}

// pair reads a point or a size from an AXValue.
func (a *api) pair(value object, kind uint32) (point, bool) {
	var p point
	ok := a.is(value, a.axValueType) && a.axValueRead(value, kind, unsafe.Pointer(&p))
	return p, ok
}

func (a *api) pointOf(el object, name string, kind uint32) (point, bool) {
	value, err := a.attribute(el, name)
	if err != nil {
		return point{}, false
	}
	defer a.drop(value)
	return a.pair(value, kind)
}

func (a *api) set(el object, name string, value object) error {
	return axError("AXUIElementSetAttributeValue", a.axSet(el, a.word(name), value))
}

func (a *api) setPoint(el object, name string, kind uint32, p point) error {
	value := a.axValueMake(kind, unsafe.Pointer(&p))
	defer a.drop(value)
	return a.set(el, name, value)
}

func (a *api) settable(el object, name string) bool {
	var can bool
	return a.axSettable(el, a.word(name), &can) == axSuccess && can
}

func (a *api) perform(el object, action string) error {
	return axError("AXUIElementPerformAction", a.axDo(el, a.word(action)))
}
