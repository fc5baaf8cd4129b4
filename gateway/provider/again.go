package provider

import (
	"context"
	"maps"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Gateways that serve at once share the records. A decision takes several commits (settle.go), so
// one gateway decides at a time. A host is told by the gateway that decided, and by the one that
// holds the host once that connects: one after the other, each by the record as it is then.

// Tables are those that the room keeps in memory, and reads again once another gateway wrote them.
var Tables = []string{"provider", "provider_tool"}

// UntoldTables are likewise, for AgainUntold.
var UntoldTables = []string{"provider_untold"}

const (
	decideWithin = 10 * time.Second // until the other gateways let this one decide
	registerLate = time.Second      // until tools are registered again that policy could not judge
)

// decides takes the turn to change records, among those of this gateway and then among all gateways
// of the site; done ends it. The records are by then what others made of them.
func (b *Book) decides(ctx context.Context) (done func(), err error) {
	b.changing.Lock()
	waiting, cancel := context.WithTimeout(ctx, decideWithin)
	defer cancel()
	pass, err := b.opts.Store.Turn(waiting, "provider")
	if err != nil {
		b.changing.Unlock()
		return nil, err
	}
	return func() {
		pass()
		b.changing.Unlock()
	}, nil
}

// Again reads the records as they stand now. It is called by the store's writer, and waits for
// nobody: Run has the tools registered. Policy, which the writer reads again as well, refuses what
// a decision took back.
func (b *Book) Again(ctx context.Context) error {
	b.mu.Lock()
	before := maps.Clone(b.all)
	b.mu.Unlock()
	now, err := b.stored(ctx, before)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, p := range before {
		if now[name] != p {
			b.staleLocked(name, p)
		}
		if now[name] == nil {
			delete(b.programs, name)
		}
	}
	for name := range now {
		if before[name] == nil {
			b.staleLocked(name, nil)
		}
	}
	b.all = now
	return nil
}

// staleLocked has Run register a provider anew, which was what was until now.
func (b *Book) staleLocked(name string, was *Provider) {
	if _, known := b.stale[name]; !known {
		b.stale[name] = was
	}
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Rostered has the calls of services go to the satellites that are in now, as another gateway
// decided. It does not block.
func (b *Book) Rostered(services map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range services {
		if p := b.all[name]; p != nil && p.Kind == tools.KindSatellite {
			b.staleLocked(name, p)
		}
	}
}

// AgainUntold reads which hosts have to be told.
func (b *Book) AgainUntold(ctx context.Context) error {
	if err := b.owed(ctx); err != nil {
		return err
	}
	b.nudge()
	return nil
}

// heeds registers what other gateways decided, until ctx ends.
func (b *Book) heeds(ctx context.Context) {
	for {
		var again <-chan time.Time
		if b.catchUp() {
			again = time.After(registerLate)
		}
		select {
		case <-ctx.Done():
			return
		case <-b.news:
		case <-again:
		}
	}
}

// catchUp registers the tools of providers that another gateway changed, and reports whether some
// could not be: rules name tools of one that is registered after them, or are somebody's own.
func (b *Book) catchUp() (left bool) {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.mu.Lock()
	stale := b.stale
	b.stale = map[string]*Provider{}
	b.mu.Unlock()
	if len(stale) == 0 {
		return false
	}
	var err error
	for count := 0; len(stale) != count; {
		count = len(stale)
		for name, was := range stale {
			if e := b.registerAnew(name, was); e != nil {
				err = e
				continue
			}
			delete(stale, name)
		}
	}
	b.opts.Registered()
	b.nudge()
	if len(stale) == 0 {
		return false
	}
	b.opts.Log.Error("provider.register", "providers", len(stale), "err", err)
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, was := range stale {
		if _, known := b.stale[name]; !known {
			b.stale[name] = was
		}
	}
	return true
}

// registerAnew has the registry hold what the record says now; changing is held.
func (b *Book) registerAnew(name string, was *Provider) error {
	p, err := b.Get(name)
	if err != nil {
		return b.unregister(name, was)
	}
	if err := b.register(&p, nil); err != nil {
		return err
	}
	for id := range p.callable() {
		if was == nil || !was.callable()[id] {
			b.fresh[id] = b.opts.Now()
		}
	}
	if b.satellites != nil && p.Kind == tools.KindSatellite {
		b.satellites.Refresh()
	}
	return nil
}

// unregister takes the tools of a provider away that is gone. Where rules still name one, they stay
// known to rules, and nobody calls them.
func (b *Book) unregister(name string, was *Provider) error {
	err := b.opts.Registry.Hosted(name, nil, nil, nil)
	if err == nil || was == nil {
		return err
	}
	withheld := make([]*catalog.Descriptor, 0, len(was.Tools))
	for i := range was.Tools {
		withheld = append(withheld, was.Tools[i].Descriptor)
	}
	return b.opts.Registry.Hosted(name, nil, nil, withheld)
}

// GoneIn has the credentials delivered again that a gateway may have owed which was put out.
func (b *Book) GoneIn(tx *store.Tx, _ string) error {
	tx.OnCommit(func() {
		b.inherits.Store(true)
		b.nudge()
	})
	return nil
}

// inherit has Run deliver the credentials of every provider; changing is held.
func (b *Book) inherit() {
	if !b.inherits.Swap(false) {
		return
	}
	for _, p := range b.List() {
		if p.Approver.Principal != "" {
			b.renew(&p)
		}
	}
}

// holds reports whether a host is connected to this one of several gateways.
func (b *Book) holds(host capabilities.NodeID) bool { return b.opts.Holds == nil || b.opts.Holds(host) }
