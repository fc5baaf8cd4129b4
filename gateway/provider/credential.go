package provider

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/secret"
)

// The tools by which credentials come to a host and go again.
const (
	toolCredential capabilities.ToolID = "tool.provider.credential"
	toolWithdraw   capabilities.ToolID = "tool.provider.withdraw"
)

// Secrets are the gateway's stored secrets; gateway/secret implements it.
type Secrets interface {
	Known(ctx context.Context, name string) error
	Allow(ctx context.Context, by capabilities.PrincipalID, s secret.Spec) (secret.Reference, error)
	Usable(p capabilities.PrincipalID, tool capabilities.ToolID) []secret.Reference
	// RemoveAlias removes the references of an alias with a tool, whoever owns them.
	RemoveAlias(ctx context.Context, by capabilities.PrincipalID, alias string, tool capabilities.ToolID) error
}

// alias names the reference by which one credential of a provider is delivered. It belongs to
// whoever approved the provider: their word is what lets it go.
func (p *Provider) alias(variable string) string { return "provider/" + p.Name + "/" + variable }

// known refuses credentials that no stored secret stands behind: CodeNotFound.
func (b *Book) known(ctx context.Context, p *Provider) error {
	if len(p.Credentials()) > 0 && b.secrets == nil {
		return capabilities.Errorf(capabilities.CodeNotSupported, "this gateway keeps no secrets")
	}
	for _, c := range p.Credentials() {
		if err := b.secrets.Known(ctx, c.Secret); err != nil {
			return err
		}
	}
	return nil
}

// reference finds the reference of one credential among the approver's; "" for none.
func (b *Book) reference(p *Provider, variable string) string {
	for _, r := range b.secrets.Usable(p.Approver.Principal, toolCredential) {
		if r.Alias == p.alias(variable) {
			return r.ID
		}
	}
	return ""
}

// entrust makes the references of a provider's credentials, on the word of who approves it now.
// None that is there is taken over: it may mean another secret than they were shown.
func (b *Book) entrust(ctx context.Context, who dispatch.Caller, p *Provider) error {
	if err := b.distrust(ctx, who, p); err != nil {
		return err
	}
	for _, c := range p.Credentials() {
		_, err := b.secrets.Allow(ctx, who.Principal, secret.Spec{
			Name: c.Secret, Principal: who.Principal, Alias: p.alias(c.Name), Display: c.Name + " of the provider " + p.Name, Tools: []capabilities.ToolID{toolCredential},
		})
		if err != nil {
			return errors.Join(err, b.distrust(ctx, who, p))
		}
		p.Approver = who
	}
	return nil
}

// distrust removes them, whoever's they are.
func (b *Book) distrust(ctx context.Context, who dispatch.Caller, p *Provider) error {
	if b.secrets == nil {
		return nil
	}
	var all []error
	for _, c := range p.Credentials() {
		all = append(all, b.secrets.RemoveAlias(ctx, who.Principal, p.alias(c.Name), toolCredential))
	}
	return errors.Join(all...)
}

// calls reports whether somebody lets a tool of the provider be called.
func (p *Provider) calls() bool {
	return slices.ContainsFunc(p.Tools, func(t Tool) bool { return t.Callable() })
}

// delivers reports whether the provider is to have its credentials. One without tools was approved
// to say which it has.
func (p *Provider) delivers() bool { return p.calls() || len(p.Tools) == 0 }

// deliver has the host get the credentials of a provider that was approved with them, each by a
// call of its own: decided, recorded and sealed to that node as every delivery. One whose secret
// or reference is gone has all of them taken back, whatever is called of it, and so has one whose
// approver may approve no more. Run tries again after a failure.
func (b *Book) deliver(ctx context.Context, p *Provider) error {
	if len(p.Credentials()) == 0 || p.Approver.Principal == "" {
		return nil
	}
	at := telling{p.Name, p.Host}
	b.entrusted[at] = true // tried for this connection
	who := b.opts.Teller(p.Approver)
	if variable, gone := b.gone(p); gone {
		if _, err := b.call(ctx, who, toolWithdraw, p.Host, map[string]any{"provider": p.Name}); err != nil {
			b.later(at, true)
			return err
		}
		b.withdrawn[at] = true
		delete(b.again, at)
		if !p.delivers() {
			return nil
		}
		return capabilities.Errorf(capabilities.CodeSecretUnavailable, "the secret of the credential %s is gone, or was taken back from the provider %s, or who approved that is gone", variable, p.Name).
			WithHint("Store it again if it is gone, and approve the provider.")
	}
	delete(b.withdrawn, at)
	if p.delivers() {
		for _, c := range p.Credentials() {
			if _, err := b.call(ctx, who, toolCredential, p.Host, map[string]any{"provider": p.Name, "name": c.Name, "secret_ref_id": b.reference(p, c.Name)}); err != nil {
				b.later(at, false)
				return err
			}
		}
	}
	delete(b.again, at)
	return nil
}

// gone names a credential that was the approver's and is no more, or whose approver may approve no
// more; false: all are there.
func (b *Book) gone(p *Provider) (variable string, gone bool) {
	left := b.opts.Teller(p.Approver).Principal != p.Approver.Principal
	for _, c := range p.Credentials() {
		if p.Approver.Principal != "" && (left || b.reference(p, c.Name) == "") {
			return c.Name, true
		}
	}
	return "", false
}

// retry is when a host is told again of credentials that it could not be given, or that it still
// has: another roster need not come of what stood in the way, such as the stop switch.
type retry struct {
	at       time.Time
	pause    time.Duration
	withdraw bool // taking back failed; false: a delivery did
}

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

func (b *Book) later(at telling, withdraw bool) {
	pause := min(max(2*b.again[at].pause, firstRetry), lastRetry)
	b.again[at] = retry{time.Now().Add(pause), pause, withdraw}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Renewed has the hosts of providers get a secret that has another value now.
func (b *Book) Renewed(ctx context.Context, name string) {
	b.changing.Lock()
	defer b.changing.Unlock()
	for _, p := range b.List() {
		if !slices.ContainsFunc(p.Credentials(), func(c tools.Credential) bool { return c.Secret == name }) {
			continue
		}
		if err := b.deliver(ctx, &p); err != nil { // a host that is away gets it when it connects
			b.opts.Log.Warn("provider.credential", "provider", p.Name, "node", p.Host, "err", err)
		}
	}
}

// due reports whether the credentials of a provider are to be delivered or taken back now.
func (b *Book) due(p *Provider, host *route.Node) bool {
	if b.secrets == nil || len(p.Credentials()) == 0 {
		return false
	}
	at := telling{p.Name, p.Host}
	_, gone := b.gone(p)
	failed, waits := b.again[at]
	switch {
	case !b.entrusted[at], gone && !b.withdrawn[at] && !failed.withdraw:
		return true
	case waits:
		tool := toolCredential
		if gone {
			tool = toolWithdraw
		}
		d, ok := b.opts.Registry.Get(tool)
		return !time.Now().Before(failed.at) && ok && route.Check(host, d.Capability, nil).Eligible()
	}
	return !gone && p.lacks(host)
}

// lacks reports whether the host says that a credential of a tool that is called is not there.
func (p *Provider) lacks(host *route.Node) bool {
	return slices.ContainsFunc(p.Tools, func(t Tool) bool {
		return t.Callable() && host.Readiness[t.Capability].Reason == capabilities.ReasonCredentialMissing
	})
}
