package provider

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// settle makes a decision true everywhere: what narrows first and what widens last, so that a
// fault between leaves less callable, not more. The gateway holds to it before its host is told.
func (b *Book) settle(ctx context.Context, who dispatch.Caller, kind string, before, p *Provider) (Provider, error) {
	u, err := b.owe(ctx, who, p.Name, p.Host)
	if err != nil {
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
	for i := range p.Tools {
		if t := &p.Tools[i]; t.Callable() && !before.callable(t.Described.Tool) {
			b.fresh[t.Described.Tool] = true
		}
	}
	if len(p.approved()) > 0 && p.Kind.Hosted() {
		if err := b.opts.Allow(ctx, who.Principal, p.Host, "tyrum."+p.Name+".*"); err != nil {
			return *p, err
		}
	}
	if err := b.rules.Put(ctx, who, RuleFile(p.Name), p.Rules(), "approved tools of the provider "+p.Name); err != nil {
		return *p, err
	}
	return *p, b.tell(ctx, u)
}
