package win32

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// The classes of UI Automation's client, and what they are asked for by.
const (
	classAutomation8 = "e22ad333-b25f-460c-83d0-0581107395c9" // CUIAutomation8, since Windows 8
	idAutomation2    = "34723aff-0c9d-49d0-9896-7ab52df8cd8a" // IUIAutomation2
)

const (
	perElement = 3 * time.Second // how long an application may take over one element
	perApp     = 2 * time.Second // and over its tree, if nobody says otherwise
	// patience is how long Windows waits for an application before it gives a call
	// up: a call that this package gave up earlier ends then.
	connectPatience, callPatience = 2 * time.Second, 5 * time.Second
	maxCalls                      = 16 // under way at once, those given up counted
	maxRefs                       = 30_000
	scopeElement, scopeSubtree    = 1, 7
)

// Accessibility reads and uses the elements that applications publish through UI
// Automation. Calls go to threads of their own, so that an application that hangs
// holds up nobody but itself. It implements platform.Accessibility.
type Accessibility struct {
	automation object
	whole, one object // what is fetched: of a subtree, of one element
	walker     object

	calls        chan struct{} // a token for each call under way
	closing, end chan struct{} // closed by Close, first and last
	ended        sync.Once

	mu     sync.Mutex // above what follows
	refs   map[string]*entry
	clock  uint64       // goes on with every use of an entry
	serial uint64       // names elements that have no name of their own
	large  map[int]bool // applications whose tree did not come in one piece in time
}

var _ platform.Accessibility = (*Accessibility)(nil)

// entry is an element that was told of.
type entry struct {
	element object
	pid     int
	hwnd    windows.HWND
	top     bool // it is the window itself
	used    uint64
}

// NewAccessibility opens UI Automation. *platform.MissingError if this Windows has
// none. Close ends it.
func NewAccessibility() (*Accessibility, error) {
	end := make(chan struct{})
	made := make(chan error, 1)
	var automation object
	// One thread keeps the apartment that all others enter and leave.
	go func() {
		runtime.LockOSThread()
		if err := enter(); err != nil {
			made <- err
			return // the thread ends with the goroutine
		}
		var err error
		automation, err = create(classAutomation8, idAutomation2)
		made <- err
		if err == nil {
			<-end
		}
		windows.CoUninitialize()
	}()
	if err := <-made; err != nil {
		return nil, &platform.MissingError{
			What: "This Windows has no UI Automation: " + err.Error() + ".",
			Fix:  "Use Windows 8 or newer; until then work by screenshot, mouse and keyboard.",
		}
	}
	a := newAccessibility(automation, end)
	err := a.run(context.Background(), perElement, a.prepare)
	if err == nil {
		return a, nil
	}
	a.Close()
	if errors.Is(err, platform.ErrCannot) { // as that of Wine since version 9, which is not whole
		return nil, &platform.MissingError{
			What: "The UI Automation of this Windows is not whole: " + err.Error() + ".",
			Fix:  "Use Windows 8 or newer; until then work by screenshot, mouse and keyboard.",
		}
	}
	return nil, fmt.Errorf("win32: UI Automation did not start: %w", err)
}

func newAccessibility(automation object, end chan struct{}) *Accessibility {
	return &Accessibility{
		automation: automation, calls: make(chan struct{}, maxCalls), closing: make(chan struct{}), end: end, refs: map[string]*entry{},
		large: map[int]bool{},
	}
}

// enter makes the thread one of the multithreaded apartment: a window's thread
// must not wait for UI Automation.
func enter() error {
	err := windows.CoInitializeEx(0, windows.COINIT_MULTITHREADED)
	const already = syscall.Errno(1) // S_FALSE
	if err != nil && !errors.Is(err, already) {
		return fmt.Errorf("win32: CoInitializeEx: %w", err)
	}
	return nil
}

// prepare makes what every reading needs.
func (a *Accessibility) prepare() error {
	// A reading must not take the focus, and an application that hangs must let go.
	for m, v := range map[int]uintptr{
		automationAutoFocus: 0, automationConnectionTimeout: uintptr(connectPatience.Milliseconds()),
		automationTransactionTimeout: uintptr(callPatience.Milliseconds()),
	} {
		if err := a.automation.call(m, v); err != nil {
			return preparing(m, err)
		}
	}
	if err := a.automation.call(automationControlWalker, uintptr(unsafe.Pointer(&a.walker))); err != nil {
		return preparing(automationControlWalker, err)
	}
	for request, scope := range map[*object]uintptr{&a.whole: scopeSubtree, &a.one: scopeElement} {
		if err := a.automation.call(automationCacheRequest, uintptr(unsafe.Pointer(request))); err != nil {
			return preparing(automationCacheRequest, err)
		}
		for _, property := range fetched {
			if err := request.call(requestAddProperty, property); err != nil {
				return preparing(requestAddProperty, err)
			}
		}
		if err := request.call(requestScope, scope); err != nil {
			return preparing(requestScope, err)
		}
	}
	return nil
}

// preparing names the method that every reading needs and this system refused.
func preparing(m int, err error) error {
	return fmt.Errorf("%s.%s: %w", methods[m].of, methods[m].name, err)
}

// Close lets go of everything, and waits, bounded, for calls that an application
// still holds up.
func (a *Accessibility) Close() {
	a.ended.Do(func() {
		close(a.closing)
		defer close(a.end)
		late := time.NewTimer(callPatience + time.Second)
		defer late.Stop()
		for range maxCalls {
			select {
			case a.calls <- struct{}{}:
			case <-late.C:
				return // a call uses them still: what it uses stays
			}
		}
		released := make(chan struct{})
		go func() {
			defer close(released)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			if enter() != nil {
				return
			}
			defer windows.CoUninitialize()
			a.mu.Lock()
			all := []object{a.whole, a.one, a.walker, a.automation}
			for _, e := range a.refs {
				all = append(all, e.element)
			}
			clear(a.refs)
			a.mu.Unlock()
			releaseAll(all)
		}()
		select {
		case <-released:
		case <-late.C:
		}
	})
}

// run has work done on a thread of the apartment, and waits for it for most at
// most: ErrHung then, and the work ends when Windows gives up.
func (a *Accessibility) run(ctx context.Context, most time.Duration, work func() error) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-a.closing:
		return platform.ErrLost
	case a.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return platform.ErrHung
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-a.calls }()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := enter(); err != nil {
			done <- err
			return
		}
		defer windows.CoUninitialize()
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

// keep notes an element under its ref; the reference to it becomes the table's.
func (a *Accessibility) keep(ref string, e entry) string {
	var old []object
	// A release may go to the application, and must not hold up others.
	defer func() { releaseAll(old) }()
	a.mu.Lock()
	defer a.mu.Unlock()
	if ref == "" {
		a.serial++
		ref = fmt.Sprintf("%s%d:n%d", elementPrefix, e.pid, a.serial)
	}
	if was := a.refs[ref]; was != nil {
		old = append(old, was.element)
	} else if len(a.refs) >= maxRefs {
		for r, was := range a.refs {
			if a.clock-was.used > maxRefs/2 {
				old = append(old, was.element)
				delete(a.refs, r)
			}
		}
	}
	a.clock++
	e.used = a.clock
	a.refs[ref] = &e
	return ref
}

func releaseAll(all []object) {
	for _, o := range all {
		o.release()
	}
}

// take returns the element of a ref; release it.
func (a *Accessibility) take(ref string) (entry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.refs[ref]
	if e == nil {
		return entry{}, platform.ErrGone
	}
	a.clock++
	e.used = a.clock
	taken := *e
	taken.element.hold()
	return taken, nil
}

// with does something with the element of a ref.
func (a *Accessibility) with(ctx context.Context, ref string, do func(e entry) error) error {
	if _, ok := appOf(ref); ok {
		return platform.ErrCannot
	}
	err := a.run(ctx, perElement, func() error {
		e, err := a.take(ref)
		if err != nil {
			return err
		}
		defer e.element.release()
		return do(e)
	})
	if errors.Is(err, platform.ErrGone) {
		a.drop(ref)
	}
	return err
}

// drop forgets an element that is gone.
func (a *Accessibility) drop(ref string) {
	a.mu.Lock()
	e := a.refs[ref]
	delete(a.refs, ref)
	a.mu.Unlock()
	if e != nil {
		e.element.release()
	}
}
