package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// tokenEnded ends what hangs on a token that is good no longer: the questions that were
// asked with it, and, where it was the last of its principal's, the grants that they have
// or gave, and what is theirs. Else the next one of that name would find them.
func (g *Gateway) tokenEnded(ctx context.Context, token string) {
	g.Consent.TokenRevoked(token)
	if rec, err := g.Tokens.Get(token); err == nil {
		g.endGrantsOf(ctx, rec.Principal)
	}
	g.Nodes.Touch() // they may have approved a provider with its credentials
}

// endGrantsOfGone does so at the start, for those who went while nobody could: their last
// token expired, or the gateway ended before it was done with them.
func (g *Gateway) endGrantsOfGone(ctx context.Context) {
	whose := map[capabilities.PrincipalID]bool{}
	for _, grant := range g.Consent.Grants() {
		whose[grant.Principal], whose[grant.Approver] = true, true
	}
	for _, v := range g.Nodes.Views() {
		if v.Owner != "" {
			whose[v.Owner] = true
		}
	}
	for who := range whose {
		g.endGrantsOf(ctx, who)
	}
}

func (g *Gateway) endGrantsOf(ctx context.Context, who capabilities.PrincipalID) {
	if !g.Tokens.Gone(who) {
		return
	}
	if err := g.Nodes.Disown(ctx, who, principal.Site.Principal); err != nil {
		g.log.Error("gateway.devices_of_gone", "principal", who, "err", err)
	}
	switch n, err := g.Consent.RevokeOf(ctx, who, principal.Site.Principal); {
	case err != nil: // they are ended all the same, and taken back for good at the next start
		g.log.Error("gateway.grants_of_gone", "principal", who, "err", err)
	case n > 0:
		g.log.Info("gateway.grants_of_gone", "principal", who, "grants", n)
	}
}
