package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/webhook"
	"github.com/handrail-dev/handrail/pairing"
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

// openPush opens the book of browsers that are told, with the key that push services
// know this gateway by.
func (g *Gateway) openPush(ctx context.Context) error {
	key, err := push.LoadKey(g.path("push.key"), pairing.SaveFile)
	if err != nil {
		return err
	}
	after, _ := g.Ledger.Tip()
	g.Push, err = push.New(push.Options{
		Ledger: g.Ledger, After: after,
		Store: g.Store, Tokens: g.Tokens, Waiting: g.Consent, Key: key, Record: g.recordBy, Contact: g.opts.URL,
		Services: g.opts.PushServices, Transport: g.opts.PushTransport, Log: g.log,
	})
	if err != nil {
		return err
	}
	return g.Push.Load(ctx)
}
