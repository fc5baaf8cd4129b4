package provider

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// settle makes a decision true everywhere: what narrows first and what widens last, so that a
// fault between leaves less callable, not more. The gateway holds to it before its host is told.
func (b *Book) settle(ctx context.Context, who dispatch.Caller, kind string, before, p *Provider) (Provider, error) {
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
	approved := map[string]any{}
	for i := range p.Tools {
		t := &p.Tools[i]
		if !t.Callable() {
			continue
		}
		approved[t.Upstream] = t.Approved
		if !before.callable(t.Described.Tool) {
			b.fresh[t.Described.Tool] = true
		}
	}
	if len(approved) > 0 {
		if err := b.opts.Allow(ctx, who.Principal, p.Host, "tyrum."+p.Name+".*"); err != nil {
			return *p, err
		}
	}
	if err := b.rules.Put(ctx, who, RuleFile(p.Name), p.Rules(), "approved tools of the provider "+p.Name); err != nil {
		return *p, err
	}
	return *p, b.tell(ctx, who, &untold{provider: p.Name, host: p.Host, approved: approved})
}

// untold is what a host has to hear about a provider.
type untold struct {
	provider string
	host     capabilities.NodeID
	gone     bool           // it hosts it no more
	approved map[string]any // else: the hash of each tool that is called, by the provider's name
	who      dispatch.Caller
	tried    bool // since the host is connected
}

// telling is which provider of which host somebody has to speak about.
type telling struct {
	provider string
	host     capabilities.NodeID
}

func (u *untold) to() telling { return telling{u.provider, u.host} }

// tell has a host hear what was decided. A host that is away hears it when it connects: the
// decision stays that of its maker, whenever it arrives.
func (b *Book) tell(ctx context.Context, who dispatch.Caller, u *untold) error {
	u.who, u.tried = who, true
	tool, args := toolOffer, map[string]any{"provider": u.provider, "approved": u.approved}
	if u.gone {
		tool, args = toolDrop, map[string]any{"provider": u.provider}
	}
	_, err := b.call(ctx, who, tool, u.host, args)
	if err == nil {
		delete(b.late, u.to())
		return nil
	}
	b.late[u.to()] = u
	e := capabilities.AsError(err)
	b.opts.Log.Warn("provider.untold", "provider", u.provider, "node", u.host, "err", err)
	hint, then := "It is told when it connects.", capabilities.Action{Key: capabilities.ActionCheckProvider, Name: u.provider}
	if u.gone {
		hint, then = "It is told when it connects. Nothing of it can be called until then either.", capabilities.Action{}
	}
	return (&capabilities.Error{
		Code: e.Code, Details: e.Details,
		Message: "The gateway holds to it already, but the host of " + u.provider + " could not be told: " + e.PublicMessage(),
	}).WithAction(then, hint)
}
