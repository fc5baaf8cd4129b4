package gateway

import (
	"context"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/gateway/mail"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/webhook"
	"github.com/handrail-dev/handrail/pairing"
)

// webhooksFile names, in the gateway's directory, who is told what waits for a
// person.
const webhooksFile = "webhooks.json"

// mailFile says, there, where messages to people go.
const mailFile = "mail.json"

// loadHooks reads the receivers. A file with a mistake keeps the gateway from
// starting: whoever wrote it counts on being told.
func (g *Gateway) loadHooks() (err error) {
	if g.hooks, err = webhook.Load(g.path(webhooksFile)); err != nil {
		return err
	}
	g.mail, err = mail.Load(g.path(mailFile))
	return err
}

// mails tells people by e-mail until ctx ends.
func (g *Gateway) mails(ctx context.Context) error {
	if g.mail == nil {
		return nil
	}
	after, _ := g.Ledger.Tip()
	s, err := mail.New(mail.Options{
		Config: g.mail, Ledger: g.Ledger, After: after, Approval: g.Consent.Approval, Roots: g.opts.MailRoots, Log: g.log,
		Page: func(id string) string { return g.consoleURL() + "/console/approvals/" + url.PathEscape(id) },
	})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// consoleURL is where people open the console: as the admin named it, else on this machine.
func (g *Gateway) consoleURL() string {
	if all := g.origins(); len(all) > 0 {
		return strings.TrimSuffix(all[0], "/")
	}
	return ""
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
		Store: g.Store, Tokens: g.Tokens, Tells: g.tells, Waiting: g.Consent, Key: key, Record: g.recordBy, Contact: g.opts.URL,
		Services: g.opts.PushServices, Transport: g.opts.PushTransport, Log: g.log,
	})
	if err != nil {
		return err
	}
	return g.Push.Load(ctx)
}
