package darwin

import (
	"context"
	"sync"
	"time"

	"github.com/ebitengine/purego"

	"github.com/handrail-dev/handrail/platform"
)

// Person tells a person's input from programs': events of devices come from no
// process. It implements platform.Person.
type Person struct{ a *api }

// NewPerson returns a Person. *platform.MissingError without the permission.
func NewPerson() (*Person, error) {
	a, err := load()
	if err != nil {
		return nil, err
	}
	if a.mayListen != nil && !a.mayListen() {
		return nil, lacks(inputMonitoring)
	}
	return &Person{a}, nil
}

// watcher is one Watch.
type watcher struct {
	a       *api
	touched func(time.Time)
	stop    func()
	hot     bool // there are stop keys
	flags   uint64
	code    uint16
	tap     ref
}

// watchers are found by the number that their tap hands on: the system has no
// place for a Go pointer.
var watchers struct {
	sync.Mutex
	all  map[uintptr]*watcher
	next uintptr
}

const (
	tapSession   = 1 // kCGSessionEventTap
	tapTail      = 1 // kCGTailAppendEventTap
	tapListen    = 1 // kCGEventTapOptionListenOnly
	keyDown      = 10
	fieldKeyCode = 9  // kCGKeyboardEventKeycode
	fieldPID     = 41 // kCGEventSourceUnixProcessID
	tapTooSlow   = 0xFFFFFFFE
	tapByPerson  = 0xFFFFFFFF
)

// personEvents are the events of mouse and keyboard: buttons, moves, drags, keys,
// modifiers, the wheel.
const personEvents = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<10 | 1<<11 | 1<<12 | 1<<22 | 1<<25 | 1<<26 | 1<<27

var tapCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(_ uintptr, kind uint32, event, user uintptr) uintptr {
		watchers.Lock()
		w := watchers.all[user]
		watchers.Unlock()
		if w != nil {
			w.event(kind, ref(event))
		}
		return event
	})
})

// event looks at one event. A tap that is slow is switched off, so those who are
// told hand on at once.
func (w *watcher) event(kind uint32, event ref) {
	if kind == tapTooSlow || kind == tapByPerson {
		w.a.tapEnable(w.tap, true)
		return
	}
	if event == 0 || w.a.eventField(event, fieldPID) != 0 {
		return
	}
	w.touched(time.Now())
	if w.hot && kind == keyDown && uint16(w.a.eventField(event, fieldKeyCode)) == w.code && w.a.eventFlags(event)&flagAll == w.flags {
		w.stop()
	}
}

// Watch reports a person's events until ctx ends.
func (p *Person) Watch(ctx context.Context, hotkey string, touched func(time.Time), stop func()) error {
	w := &watcher{a: p.a, touched: touched, stop: stop}
	if hotkey != "" {
		var ok bool
		if w.flags, w.code, ok = hotkeyOf(hotkey); !ok {
			return &platform.MissingError{
				What: "The stop keys \"" + hotkey + "\" name a key that this keyboard does not have.",
				Fix:  "Choose others in node.json, such as ctrl+alt+escape.",
			}
		}
		w.hot = true
	}
	watchers.Lock()
	if watchers.all == nil {
		watchers.all = map[uintptr]*watcher{}
	}
	watchers.next++
	number := watchers.next
	watchers.all[number] = w
	watchers.Unlock()
	var source ref
	return p.a.looped(ctx, func(loop ref) error {
		w.tap = p.a.tapMake(tapSession, tapTail, tapListen, personEvents, tapCallback(), number)
		if w.tap == 0 {
			return lacks(inputMonitoring)
		}
		source = p.a.portSource(0, w.tap, 0)
		p.a.loopAdd(loop, source, p.a.defaultMode)
		p.a.tapEnable(w.tap, true)
		return nil
	}, func() {}, func(loop ref) {
		watchers.Lock()
		delete(watchers.all, number)
		watchers.Unlock()
		if w.tap != 0 {
			p.a.tapEnable(w.tap, false)
			p.a.loopRemove(loop, source, p.a.defaultMode)
			p.a.portInvalidate(w.tap)
			p.a.drop(source, w.tap)
		}
	})
}
