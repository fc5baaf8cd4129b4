package browser

import (
	"slices"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// observedKey is the capability key of a connection that a page made.
const observedKey = capabilities.KeyPages

// observedDownload is that of a file that a page left on the node.
const observedDownload = "data.write.temp"

// observer takes what happens during one call.
type observer struct {
	grants []string // of its call; none: unknown

	mu      sync.Mutex
	observe func(key, detail string) // nil once the call is over
}

// takes reports whether an observation is for this call. A download ends when it
// ends: one that an earlier call began is none of a call that only reads.
func (o *observer) takes(key string) bool {
	return o != nil && (key != observedDownload || len(o.grants) == 0 || slices.Contains(o.grants, key))
}

// tell returns the call an observation; it reports false if it is over, or has no
// part in it.
func (o *observer) tell(key, detail string) bool {
	if !o.takes(key) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.observe == nil {
		return false
	}
	o.observe(key, detail)
	return true
}

// end waits for what is being told; later it is the next call's.
func (o *observer) end() {
	o.mu.Lock()
	o.observe = nil
	o.mu.Unlock()
}

// maxUnseen bounds, of each key, the observations that wait for the next call: a
// page that goes to many hosts leaves room for a download.
const maxUnseen = 64

// observeInto makes what happens from now on, and what happened since the last
// call, a matter of this one, until done.
func (l *lane) observeInto(observe func(key, detail string), grants []string) (done func()) {
	o := &observer{observe: observe, grants: grants}
	l.mu.Lock()
	l.observer = o
	waiting := l.unseen
	l.unseen = nil
	l.mu.Unlock()
	for _, saw := range waiting {
		l.saw(saw[0], saw[1])
	}
	return func() {
		l.mu.Lock()
		if l.observer == o {
			l.observer = nil
		}
		l.mu.Unlock()
		o.end()
	}
}

// observeStep is observeInto for a step of a call: what the step has no part in is its
// call's.
func (l *lane) observeStep(observe func(key, detail string), grants []string) (done func()) {
	o := &observer{observe: observe, grants: grants}
	l.mu.Lock()
	before := l.observer
	l.observer = o
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		if l.observer == o {
			l.observer = before
		}
		waiting := l.unseen
		l.unseen = nil
		l.mu.Unlock()
		o.end()
		for _, saw := range waiting {
			l.saw(saw[0], saw[1])
		}
	}
}

// sawHost reports a host that the lane's pages really connected to.
func (l *lane) sawHost(host string) { l.saw(observedKey, host) }

// saw reports what really happened to the call at work, or to the next one. It
// comes before what a result says of it, so that no call tells of a thing that
// none was seen to do.
func (l *lane) saw(key, detail string) {
	l.mu.Lock()
	o := l.observer
	l.mu.Unlock()
	for !o.tell(key, detail) {
		l.mu.Lock()
		if l.observer == o {
			l.keepLocked([2]string{key, detail})
			l.mu.Unlock()
			return
		}
		o = l.observer // a call began meanwhile
		l.mu.Unlock()
	}
}

// keepLocked keeps an observation for the next call.
func (l *lane) keepLocked(saw [2]string) {
	same := 0
	for _, other := range l.unseen {
		if other == saw {
			return
		}
		if other[0] == saw[0] {
			same++
		}
	}
	if same < maxUnseen {
		l.unseen = append(l.unseen, saw)
	}
}
