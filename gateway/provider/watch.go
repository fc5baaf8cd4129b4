package provider

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Hosts are the nodes, as they are now; gateway/nodes implements it.
type Hosts interface {
	Snapshot() []route.Node
	// Changed is closed at the next change of what Snapshot returns.
	Changed() <-chan struct{}
}

// Run follows the hosts until ctx ends: one that connects is told what it missed, and a tool of
// which its host says that it changed goes into review, without a person. A host that does not
// answer delays no other.
func (b *Book) Run(ctx context.Context) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	if b.opts.Store.Member() != "" {
		telling.Go(func() { b.heeds(ctx) })
	}
	for {
		changed := b.hosts.Changed()
		b.follow(ctx, &telling, b.hosts.Snapshot())
		again := time.NewTimer(b.pause())
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-changed:
		case <-b.wake:
		case <-again.C:
		}
		again.Stop()
	}
}

// pause is how long it is to the next retry, or until an approval is no longer fresh; an hour if
// there is neither.
func (b *Book) pause() time.Duration {
	b.changing.Lock()
	defer b.changing.Unlock()
	pause := time.Hour
	for _, l := range b.lines {
		if l.again.pause > 0 {
			pause = min(pause, max(time.Until(l.again.at), firstRetry)) // one that is due waits for its host
		}
	}
	for _, at := range b.fresh {
		if left := at.Add(freshFor).Sub(b.opts.Now()); left >= 0 {
			pause = min(pause, left+time.Millisecond)
		}
	}
	return pause
}

// follow has each host told what it has to hear by now, each line by a goroutine of its own.
func (b *Book) follow(ctx context.Context, working *sync.WaitGroup, roster []route.Node) {
	b.changing.Lock()
	defer b.changing.Unlock()
	host := func(id capabilities.NodeID) *route.Node {
		i := slices.IndexFunc(roster, func(n route.Node) bool { return n.ID == id })
		if i < 0 || !roster[i].Connected {
			return nil
		}
		return &roster[i]
	}
	serve := func(at telling, what func() error) {
		l := b.lineOf(at)
		if l.serving {
			return // it nudges when it is done
		}
		l.serving = true
		working.Go(func() {
			if err := what(); err != nil && ctx.Err() == nil {
				b.opts.Log.Warn("provider.deliver", "provider", at.provider, "node", at.host, "err", err)
			}
			b.changing.Lock()
			l.serving = false
			b.changing.Unlock()
			b.nudge()
		})
	}
	b.inherit()
	b.mu.Lock()
	late := maps.Clone(b.late)
	b.mu.Unlock()
	for at, u := range late {
		n := host(at.host)
		if n != nil && b.holds(at.host) && u.tried != n.Session && b.hears(n, u) { // what it can do it says a moment after it connects
			u.who = b.opts.Teller(u.who)
			serve(at, func() error { return b.tell(ctx, at) })
		}
	}
	for _, p := range b.List() {
		n := host(p.Host)
		if n == nil {
			continue
		}
		if epoch, due := b.due(&p, n); due {
			at := telling{p.Name, p.Host}
			serve(at, func() error { return b.deliver(ctx, at, epoch) })
		}
		if !b.holds(p.Host) {
			continue // the gateway that does looks at what it says
		}
		if err := b.review(ctx, &p, n); err != nil {
			b.opts.Log.Error("provider.review", "provider", p.Name, "err", err)
		}
	}
}

// freshFor is how long a host may go on to say that a tool changed which a person approved just
// now. It is three heartbeats of a satellite. One that says so still has other words than those.
const freshFor = 15 * time.Second

// review takes back the tools that the host says have changed. Nobody has to be asked for that,
// and no rule moves: a tool that is not registered is not called, whatever the rules say. A check
// by a person brings the new words.
func (b *Book) review(ctx context.Context, p *Provider, host *route.Node) error {
	if found, _ := b.reviewed(p, host); !found {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, decideWithin)
	defer cancel()
	pass, err := b.opts.Store.Turn(waiting, "provider")
	if err != nil {
		return err
	}
	defer pass()
	now, err := b.Get(p.Name)
	if err != nil {
		return nil // it was removed
	}
	found, next := b.reviewed(&now, host)
	if !found {
		return nil
	}
	if err := b.register(next, nil); err != nil {
		return err
	}
	return b.keep(ctx, "", kindChanged, next)
}

// reviewed returns a provider with the tools in review that its host says have changed, and whether
// there is one.
func (b *Book) reviewed(p *Provider, host *route.Node) (found bool, _ *Provider) {
	next := *p
	next.Tools = slices.Clone(p.Tools)
	for i := range next.Tools {
		t := &next.Tools[i]
		changed := host.Readiness[t.Capability].Reason == capabilities.ReasonManifestChanged
		switch {
		case !changed:
			delete(b.fresh, t.Described.Tool)
		case t.Callable() && b.opts.Now().Sub(b.fresh[t.Described.Tool]) > freshFor:
			t.review()
			found = true
		}
	}
	return found, &next
}
