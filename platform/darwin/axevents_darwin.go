package darwin

import (
	"context"
	"os"
	"sync"

	"github.com/ebitengine/purego"

	"github.com/handrail-dev/handrail/platform"
)

// listeners are found by the number that their observers hand on.
var listeners struct {
	sync.Mutex
	all  map[uintptr]func(element, notification object)
	next uintptr
}

var observerCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(_, element, notification, user uintptr) {
		listeners.Lock()
		tell := listeners.all[user]
		listeners.Unlock()
		if tell != nil {
			tell(object(element), object(notification))
		}
	})
})

// Events tells of changes until ctx ends, each in an application; elements that
// were told of before are named. Applications that start later are listened to
// within a second.
func (x *Accessibility) Events(ctx context.Context) (<-chan platform.ElementEvent, error) {
	a := x.a
	c := make(chan platform.ElementEvent, 256)
	observers := map[int]object{} // only the loop's thread has it
	tell := func(element, notification object) {
		kind := notifications[a.read(notification, 128)]
		var pid int32
		if kind == "" || a.axPID(element, &pid) != axSuccess {
			return
		}
		hand(c, platform.ElementEvent{PID: int(pid), Ref: x.known(element), Kind: kind})
	}
	listeners.Lock()
	if listeners.all == nil {
		listeners.all = map[uintptr]func(element, notification object){}
	}
	listeners.next++
	number := listeners.next
	listeners.all[number] = tell
	listeners.Unlock()
	var loop object
	follow := func() {
		all, err := a.list()
		if err != nil {
			return
		}
		alive := map[int]bool{}
		for _, w := range all {
			alive[w.PID] = true
			if observers[w.PID] == 0 && w.PID != os.Getpid() {
				observers[w.PID] = a.observe(w.PID, loop, number)
			}
		}
		for pid, o := range observers {
			if !alive[pid] {
				a.unobserve(o, loop)
				delete(observers, pid)
			}
		}
	}
	err := a.looped(ctx, func(l object) error {
		loop = l
		follow()
		return nil
	}, follow, func(l object) {
		listeners.Lock()
		delete(listeners.all, number)
		listeners.Unlock()
		for _, o := range observers {
			a.unobserve(o, l)
		}
		close(c)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// observe listens to an application; 0 if it cannot be.
func (a *api) observe(pid int, loop object, number uintptr) object {
	var o object
	if a.axObserver(int32(pid), observerCallback(), &o) != axSuccess {
		return 0
	}
	app := a.application(pid, glance)
	defer a.drop(app)
	for name := range notifications {
		if a.axObserve(o, app, a.word(name), number) == axCannotComplete {
			break // it does not answer; what it took so far has to do
		}
	}
	a.loopAdd(loop, a.axObserverSource(o), a.defaultMode)
	return o
}

func (a *api) unobserve(o, loop object) {
	if o == 0 {
		return
	}
	a.loopRemove(loop, a.axObserverSource(o), a.defaultMode)
	a.drop(o)
}

// known returns the ref of an element that was told of, "" for another.
func (x *Accessibility) known(el object) string {
	hash := x.a.hash(el)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.byHash[hash] {
		if x.a.equal(e.element, el) {
			return e.ref
		}
	}
	return ""
}
