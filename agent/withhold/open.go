package withhold

import (
	"cmp"
	"slices"
	"sort"

	"github.com/handrail-dev/handrail/capabilities"
)

// A node that ends forgets the values that it kept back, and what they were pasted into on
// the desktop may still be there when it is back. Values are never written down, so what
// is: who has deliveries open in which lane. For them the device's screen is then closed,
// texts too, until the lane ends or a person says that it is done.

// Open is a delivery whose lane has not ended.
type Open struct {
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
}

// maxOpen bounds the deliveries that are open at once.
const maxOpen = 1024

// Restore has the book begin with what was open when the node ended, and has keep make
// durable what is open from now on. To be called before any call.
func (b *Book) Restore(earlier []Open, keep func([]Open) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.earlier, b.keep = slices.Clone(earlier), keep
}

// Opens makes durable that a secret is about to be delivered to the call's lane. Without
// that nothing is to be delivered.
func (c *Call) Opens() error {
	who := c.principal()
	return c.book.keepOpen(Open{who, c.lane})
}

// keepOpen writes down what is open, with more.
func (b *Book) keepOpen(more ...Open) error {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	b.mu.Lock()
	keep, all := b.keep, append(slices.Clone(b.earlier), more...)
	for _, h := range b.holds {
		if h.ended == 0 {
			all = append(all, Open{h.principal, h.lane})
		}
	}
	b.mu.Unlock()
	if keep == nil {
		return nil
	}
	sort.Slice(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(all[i].Lane, all[j].Lane), cmp.Compare(all[i].Principal, all[j].Principal)) < 0
	})
	if all = slices.Compact(all); len(all) > maxOpen {
		return capabilities.Errorf(capabilities.CodeOverloaded, "Secrets were delivered to %d conversations that have not ended.", maxOpen)
	}
	return keep(all)
}

// screen is the place of what may be anywhere on the screen.
type screen struct{}

// Here is true: nobody knows better.
func (screen) Here() bool { return true }

// OnScreen is true.
func (screen) OnScreen() bool { return true }

// RefusesAll returns why the call gets nothing of what it shows, texts neither: a secret that
// this node does not know any more may be on the screen.
func (c *Call) RefusesAll() *capabilities.Error {
	c.book.mu.Lock()
	earlier := slices.Clone(c.book.earlier)
	c.book.mu.Unlock()
	if len(earlier) == 0 {
		return nil
	}
	who := c.principal()
	at := slices.IndexFunc(earlier, func(o Open) bool { return o.Principal == who })
	if at < 0 || !c.shows(screen{}) {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeSecretHeld,
		"A secret was delivered before this device's node started again, and may still be on its screen. Its value is no longer known here.").
		WithAction(capabilities.Action{
			Key: capabilities.ActionReleaseSecret, Lane: earlier[at].Lane,
		}, "A person looks, and says that it is done.")
}
