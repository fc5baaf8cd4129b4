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
	call   capabilities.CallID
	grants []string // of its call; none: unknown
	acts   bool     // its tool can have a page leave a file
	// earlier takes what another call of the lane did, which has ended; nil: nobody does.
	earlier func(key, detail string, call capabilities.CallID, granted bool)

	mu      sync.Mutex
	observe func(key, detail string) // nil once the call is over
}

// reads are the tools that have no page leave a file, whatever it does meanwhile.
var reads = []capabilities.CapabilityID{
	"tyrum.browser.launch", "tyrum.browser.snapshot", "tyrum.browser.screenshot", "tyrum.browser.wait-for", "tyrum.browser.upload-file",
	"tyrum.browser.console-messages", "tyrum.browser.network-requests", "tyrum.browser.resize", "tyrum.browser.close", "tyrum.browser.read",
	"tyrum.browser.cookies", "tyrum.browser.storage", "tyrum.browser.pdf",
	"tyrum.browser.network-rules",
}

func newObserver(inv *capabilities.Invocation) *observer {
	return &observer{
		call: inv.Call, grants: inv.Grants, acts: !slices.Contains(reads, inv.Capability), observe: inv.Observe, earlier: inv.Earlier,
	}
}

// granted reports whether its call was granted a key.
func (o *observer) granted(key string) bool {
	return len(o.grants) == 0 || slices.Contains(o.grants, key)
}

// tell returns the call an observation; it reports false if it is over.
func (o *observer) tell(key, detail string) bool {
	if o == nil {
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
func (l *lane) observeInto(inv *capabilities.Invocation) (done func()) {
	o := newObserver(inv)
	l.mu.Lock()
	l.observer = o
	if o.acts {
		l.cause = o
	}
	waiting, late := l.unseen, l.late
	l.unseen, l.late = nil, nil
	l.mu.Unlock()
	for _, one := range late {
		if o.earlier != nil {
			o.earlier(observedDownload, one.name, one.cause.call, one.cause.granted(observedDownload))
		}
	}
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
func (l *lane) observeStep(inv *capabilities.Invocation) (done func()) {
	o := newObserver(inv)
	l.mu.Lock()
	before := l.observer
	l.observer = o
	if o.acts {
		l.cause = o
	}
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		if l.observer == o {
			l.observer = before
		}
		if l.cause == o && before != nil && before.acts { // the script goes on
			l.cause = before
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

// lateFile is a download that began when the call that caused it had ended.
type lateFile struct {
	name  string
	cause *observer
}

// acting is the latest call that could have a page ask for something; nil: there was none.
func (l *lane) acting() *observer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// sawDownload tells of a download that begins. It is of the call during which, or after which, its
// request was sent, whether that call still runs or not, and never of a later one that may (S1-45).
// Of one without a request, such as a blob's, it is of the latest call that could cause it.
func (l *lane) sawDownload(name string, o *observer) {
	if o == nil {
		o = l.acting()
	}
	switch {
	case o == nil: // nobody did anything in this lane
		l.saw(observedDownload, name)
	case o.tell(observedDownload, name):
	default: // whoever is there next carries the news, under the name of the call that did it
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.late) < maxUnseen {
			l.late = append(l.late, lateFile{name, o})
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
