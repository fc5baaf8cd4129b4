package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/webhook"
)

// webhooksFile names, in the gateway's directory, who is told what waits for a
// person.
const webhooksFile = "webhooks.json"

// loadHooks reads the receivers. A file with a mistake keeps the gateway from
// starting: whoever wrote it counts on being told.
func (g *Gateway) loadHooks() (err error) {
	g.hooks, err = webhook.Load(g.path(webhooksFile))
	return err
}

// tell tells the receivers until ctx ends.
func (g *Gateway) tell(ctx context.Context) error {
	if len(g.hooks) == 0 {
		return nil
	}
	after, _ := g.Ledger.Tip()
	s, err := webhook.New(webhook.Options{Hooks: g.hooks, Ledger: g.Ledger, After: after, Approval: g.Consent.Approval, Log: g.log})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
