package withhold

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/handrail-dev/handrail/capabilities"
)

// Book knows the secrets that were delivered to this device, where they were pasted, and
// the calls that could see them. The zero value is ready. All methods are safe for
// concurrent use.
type Book struct {
	mu     sync.Mutex
	clock  uint64 // counts what begins and ends
	holds  []*heldSecret
	pasted []pasted
	calls  map[*Call]struct{}
	// earlier is what was open when the node ended last; keep makes what is open durable.
	earlier []Open
	keep    func([]Open) error
	names   map[string]bool // see Names

	keeping sync.Mutex // one writing of what is open at a time; taken before mu
}

// heldSecret is one secret from before it is on the device until it is gone from the clipboard
// and the lane that it was delivered to has ended.
type heldSecret struct {
	principal capabilities.PrincipalID
	lane      capabilities.LaneID
	forms     *forms
	cleared   uint64 // the clock when it left the clipboard; 0: it is still there
	ended     uint64 // the clock when its lane ended; 0: it has not
}

// gone is the clock since which nothing of it is kept back; 0: it still is.
func (h *heldSecret) gone() uint64 {
	if h.cleared == 0 || h.ended == 0 {
		return 0
	}
	return max(h.cleared, h.ended)
}

// pasted is a place that a secret may be in.
type pasted struct {
	principal capabilities.PrincipalID
	lane      capabilities.LaneID
	place     capabilities.Place
}

// maxPasted bounds the places that are remembered of one principal. Beyond it the whole
// screen is a place of the lane that pastes: none is ever forgotten for another.
const maxPasted = 256

// Call is one call on this node, from before it may look until its answer left.
type Call struct {
	book      *Book
	began     uint64
	lane      capabilities.LaneID
	shows     func(capabilities.Place) bool
	principal func() capabilities.PrincipalID
	looked    atomic.Bool // it could look at the screen while there was a secret
}

// Enter notes that a call of a lane begins. shows tells which places the call can look at.
// shows and principal are asked only if there is a secret. The caller calls Leave.
func (b *Book) Enter(lane capabilities.LaneID, shows func(capabilities.Place) bool, principal func() capabilities.PrincipalID) *Call {
	b.mu.Lock()
	if b.calls == nil {
		b.calls = map[*Call]struct{}{}
	}
	b.clock++
	c := &Call{book: b, began: b.clock, lane: lane, shows: shows, principal: sync.OnceValue(principal)}
	b.calls[c] = struct{}{}
	secrets := len(b.holds) > 0
	b.mu.Unlock()
	if secrets {
		c.looks()
	}
	return c
}

// looks reports whether the call can look at the screen, or could when it was asked before:
// its lane may end, and its handler forget it, before the answer leaves.
func (c *Call) looks() bool {
	if c.shows(screen{}) { // outside the book's lock: it asks the handler
		c.looked.Store(true)
	}
	return c.looked.Load()
}

// Leave notes that the call's answer has left.
func (c *Call) Leave() {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	delete(c.book.calls, c)
	c.book.forgetLocked()
}

// forgetLocked drops secrets that are gone and that no running call can have seen.
func (b *Book) forgetLocked() {
	b.holds = slices.DeleteFunc(b.holds, func(h *heldSecret) bool {
		gone := h.gone()
		if gone == 0 {
			return false
		}
		for c := range b.calls {
			if c.began < gone {
				return false
			}
		}
		h.forms.wipe()
		return true
	})
}

// Hold keeps s back from the call's principal from now on, until its lane ends; release
// says that it is not in the clipboard any more. release is idempotent.
func (c *Call) Hold(s capabilities.Secret) (release func()) {
	h := &heldSecret{principal: c.principal(), lane: c.lane, forms: formsOf(s)}
	b := c.book
	b.mu.Lock()
	// The same once more in the same lane replaces the one before.
	b.holds = slices.DeleteFunc(b.holds, func(o *heldSecret) bool {
		return o.cleared != 0 && o.ended == 0 && o.principal == h.principal && o.lane == h.lane && o.forms.same(h.forms)
	})
	b.holds = append(b.holds, h)
	running := slices.Collect(maps.Keys(b.calls))
	b.mu.Unlock()
	for _, o := range running {
		o.looks()
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if h.cleared == 0 {
			b.clock++
			h.cleared = b.clock
			b.forgetLocked()
		}
	}
}

// CloseLane notes that a lane has ended: what was delivered to it is kept back no longer
// than it lies in the clipboard.
func (b *Book) CloseLane(lane capabilities.LaneID) {
	b.Done(lane)
	b.mu.Lock()
	ended := false
	for _, h := range b.holds {
		if h.lane == lane && h.ended == 0 {
			b.clock++
			h.ended = b.clock
			ended = true
		}
	}
	b.forgetLocked()
	b.mu.Unlock()
	if ended {
		_ = b.keepOpen() // else it is closed once more than needed after a start
	}
}

// Done takes a person's word that nothing of what a lane pasted is to be seen any more.
func (b *Book) Done(lane capabilities.LaneID) {
	b.mu.Lock()
	before := len(b.earlier)
	b.earlier = slices.DeleteFunc(b.earlier, func(o Open) bool { return o.Lane == lane })
	told := len(b.earlier) != before
	defer func() {
		b.mu.Unlock()
		if told {
			_ = b.keepOpen()
		}
	}()
	b.pasted = slices.DeleteFunc(b.pasted, func(p pasted) bool { return p.lane == lane })
}

// seen returns the secrets of the call's principal for which want holds.
func (c *Call) seen(want func(*heldSecret) bool) []*heldSecret {
	b := c.book
	b.mu.Lock()
	var maybe []*heldSecret
	for _, h := range b.holds {
		if want(h) {
			maybe = append(maybe, h)
		}
	}
	b.mu.Unlock()
	if len(maybe) == 0 {
		return nil
	}
	// Asked outside the lock: it may have to read an envelope.
	who := c.principal()
	return slices.DeleteFunc(maybe, func(h *heldSecret) bool { return h.principal != who })
}

// kept returns the secrets that the call's texts are kept free of: those of a call that can
// look at the screen, which is where the clipboard gets pasted. Elsewhere a value cannot
// be, and what is taken out of a text there would only say which guess was right.
func (c *Call) kept() []*heldSecret {
	all := c.seen(func(h *heldSecret) bool { gone := h.gone(); return gone == 0 || gone > c.began })
	if len(all) > 0 && !c.looks() {
		return nil
	}
	return all
}

// Refuses returns why the call may not look at what it shows, or nil: a secret lies in the
// clipboard, or was pasted there.
func (c *Call) Refuses() *capabilities.Error {
	if len(c.seen(func(h *heldSecret) bool { return h.cleared == 0 || h.cleared > c.began })) > 0 {
		return &capabilities.Error{Code: capabilities.CodeSecretHeld}
	}
	b := c.book
	b.mu.Lock()
	all := slices.Clone(b.pasted)
	b.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	who := c.principal()
	for _, p := range all {
		// One that was left may come back, as by a tab's history.
		if p.principal == who && c.shows(p.place) && p.place.Here() {
			return capabilities.Errorf(capabilities.CodeSecretHeld,
				"A secret was pasted into what this call looks at, so pictures and scripts are refused there.").
				WithAction(capabilities.Action{
					Key: capabilities.ActionReleaseSecret, Lane: c.lane,
				}, "Read it with a snapshot, or go on to another page or close the window. A person can say that it is done.")
		}
	}
	return nil
}

// Pasting is asked before a paste, and notes where it goes if a secret of the call's principal lies
// in the clipboard. It returns an error where that is somebody else's.
func (c *Call) Pasting(where func() capabilities.Place) *capabilities.Error {
	b := c.book
	b.mu.Lock()
	there := slices.DeleteFunc(slices.Clone(b.holds), func(h *heldSecret) bool { return h.cleared != 0 })
	b.mu.Unlock()
	if len(there) == 0 {
		return nil
	}
	who := c.principal()
	if !slices.ContainsFunc(there, func(h *heldSecret) bool { return h.principal == who }) {
		return capabilities.Errorf(capabilities.CodeSecretHeld,
			"A secret for somebody else lies in that device's clipboard, so nothing is pasted.").
			WithHint("Try again in a minute, or type the text.")
	}
	p := pasted{principal: who, lane: c.lane, place: where()}
	if p.place == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.pasted, p) {
		return nil
	}
	theirs := 0
	for _, o := range b.pasted {
		if o.principal == who {
			theirs++
		}
	}
	if theirs >= maxPasted {
		if p.place = (screen{}); slices.Contains(b.pasted, p) {
			return nil
		}
	}
	b.pasted = append(b.pasted, p)
	return nil
}

// Held is how many secrets lie in the clipboard now.
func (b *Book) Held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, h := range b.holds {
		if h.cleared == 0 {
			n++
		}
	}
	return n
}
