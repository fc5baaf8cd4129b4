package provider

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// settle makes a decision true at the gateway: what narrows first and what widens last, so that a
// fault between leaves less callable, not more. The host has to be told afterwards, without the
// lock that is held here.
func (b *Book) settle(ctx context.Context, who dispatch.Caller, kind string, before, p *Provider) (Provider, error) {
	if err := b.owe(ctx, who, p.Name, p.Host); err != nil {
		return *before, err
	}
	if err := b.rules.Put(ctx, who, RuleFile(p.Name), p.common(before), "the tools of the provider "+p.Name+" change"); err != nil {
		return *before, err
	}
	if err := b.register(p, before); err != nil {
		return *before, err
	}
	if err := b.keep(ctx, who.Principal, kind, p); err != nil {
		return *before, err
	}
	if err := b.register(p, nil); err != nil {
		return *p, err
	}
	were := before.callable()
	for id := range p.callable() {
		if !were[id] {
			b.fresh[id] = b.opts.Now()
		}
	}
	if len(p.approved()) > 0 && p.Kind.Hosted() {
		if err := b.opts.Allow(ctx, who.Principal, p.Host, p.pattern(), true); err != nil {
			return *p, err
		}
	}
	if err := b.rules.Put(ctx, who, RuleFile(p.Name), p.Rules(), "approved tools of the provider "+p.Name); err != nil {
		return *p, err
	}
	return *p, nil
}

// pattern is what a host's allowlist has of the provider.
func (p *Provider) pattern() string { return "tyrum." + p.Name + ".*" }
