package withhold

import (
	"slices"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Book knows the secrets that lie on this device and the calls that could see them.
// The zero value is ready. All methods are safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	clock uint64 // counts what begins and ends
	holds []*hold
	calls map[*Call]struct{}
}

// hold is one secret from before it is on the device until it is gone.
type hold struct {
	principal capabilities.PrincipalID
	forms     forms
	gone      uint64 // the clock when it was cleared; 0: it is still there
}

// Call is one call on this node, from before it may look until its answer left.
type Call struct {
	book      *Book
	began     uint64
	principal func() capabilities.PrincipalID
}

// Enter notes that a call begins. principal is asked only if there is a secret. The
// caller calls Leave.
func (b *Book) Enter(principal func() capabilities.PrincipalID) *Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls == nil {
		b.calls = map[*Call]struct{}{}
	}
	b.clock++
	c := &Call{book: b, began: b.clock, principal: sync.OnceValue(principal)}
	b.calls[c] = struct{}{}
	return c
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
	b.holds = slices.DeleteFunc(b.holds, func(h *hold) bool {
		if h.gone == 0 {
			return false
		}
		for c := range b.calls {
			if c.began < h.gone {
				return false
			}
		}
		h.forms.wipe()
		return true
	})
}

// Hold keeps s back from the call's principal from now on; release says that it is
// nowhere on the device any more. release is idempotent.
func (c *Call) Hold(s capabilities.Secret) (release func()) {
	h := &hold{principal: c.principal(), forms: formsOf(s)}
	b := c.book
	b.mu.Lock()
	b.holds = append(b.holds, h)
	b.mu.Unlock()
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if h.gone == 0 {
			b.clock++
			h.gone = b.clock
			b.forgetLocked()
		}
	}
}

// seen gives the secrets of the call's principal that it may have seen.
func (c *Call) seen() []*hold {
	b := c.book
	b.mu.Lock()
	var maybe []*hold
	for _, h := range b.holds {
		if h.gone == 0 || h.gone > c.began {
			maybe = append(maybe, h)
		}
	}
	b.mu.Unlock()
	if len(maybe) == 0 {
		return nil
	}
	// Asked outside the lock: it may have to read an envelope.
	who := c.principal()
	return slices.DeleteFunc(maybe, func(h *hold) bool { return h.principal != who })
}

// Refuses gives why the call may get no picture, or nil.
func (c *Call) Refuses() *capabilities.Error {
	if len(c.seen()) == 0 {
		return nil
	}
	return &capabilities.Error{Code: capabilities.CodeSecretHeld}
}

// Held is how many secrets lie on the device now.
func (b *Book) Held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, h := range b.holds {
		if h.gone == 0 {
			n++
		}
	}
	return n
}
