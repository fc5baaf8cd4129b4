package provider

import (
	"context"
	"slices"
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
// which its host says that it changed goes into review, without a person.
func (b *Book) Run(ctx context.Context) error {
	for {
		changed := b.hosts.Changed()
		b.follow(ctx, b.hosts.Snapshot())
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

// pause is how long it is to the next retry; an hour if there is none.
func (b *Book) pause() time.Duration {
	b.changing.Lock()
	defer b.changing.Unlock()
	pause := time.Hour
	for _, r := range b.again {
		pause = min(pause, max(time.Until(r.at), firstRetry)) // one that is due waits for its host
	}
	return pause
}

func (b *Book) follow(ctx context.Context, roster []route.Node) {
	b.changing.Lock()
	defer b.changing.Unlock()
	host := func(id capabilities.NodeID) *route.Node {
		i := slices.IndexFunc(roster, func(n route.Node) bool { return n.ID == id })
		if i < 0 || !roster[i].Connected {
			return nil
		}
		return &roster[i]
	}
	for _, u := range b.late {
		switch n := host(u.host); {
		case n == nil:
			u.tried = false
		case !u.tried && b.hears(n, u): // what it can do it says a moment after it connects
			u.who = b.opts.Teller(u.who)
			_ = b.tell(ctx, u) // logged there
		}
	}
	for at := range b.entrusted {
		if host(at.host) == nil {
			b.forget(at) // it forgets what it was given when it ends
		}
	}
	for _, p := range b.List() {
		if n := host(p.Host); n != nil {
			if b.due(&p, n) {
				if err := b.deliver(ctx, &p); err != nil {
					b.opts.Log.Warn("provider.credential", "provider", p.Name, "node", p.Host, "err", err)
				}
			}
			if err := b.review(ctx, &p, n); err != nil {
				b.opts.Log.Error("provider.review", "provider", p.Name, "err", err)
			}
		}
	}
}

// forget forgets what a host was given.
func (b *Book) forget(at telling) {
	delete(b.entrusted, at)
	delete(b.withdrawn, at)
	delete(b.again, at)
}

// review takes back the tools that the host says have changed. Nobody has to be asked for that,
// and no rule moves: a tool that is not registered is not called, whatever the rules say. A check
// by a person brings the new words.
func (b *Book) review(ctx context.Context, p *Provider, host *route.Node) error {
	var found bool
	next := *p
	next.Tools = slices.Clone(p.Tools)
	for i := range next.Tools {
		t := &next.Tools[i]
		changed := host.Readiness[t.Capability].Reason == capabilities.ReasonManifestChanged
		switch {
		case !changed:
			delete(b.fresh, t.Described.Tool)
		case t.Callable() && !b.fresh[t.Described.Tool]:
			t.review()
			found = true
		}
	}
	if !found {
		return nil
	}
	if err := b.register(&next, nil); err != nil {
		return err
	}
	return b.keep(ctx, "", kindChanged, &next)
}
