package provider

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// signIn returns the sign-in whose token a secret is; "" for any other secret (gateway/signin).
func signIn(secret string) string {
	name, ok := strings.CutPrefix(secret, "sign-in/")
	if !ok {
		return ""
	}
	return name
}

// SignIn returns the sign-in whose token the provider gets; "" for none.
func (p *Provider) SignIn() string {
	for _, c := range p.Credentials() {
		if name := signIn(c.Secret); name != "" {
			return name
		}
	}
	return ""
}

// known refuses credentials that no stored secret stands behind: CodeNotFound. The token of a
// sign-in may come later, by a person who looks at the provider first.
func (b *Book) known(ctx context.Context, p *Provider) error {
	if len(p.Credentials()) > 0 && b.secrets == nil {
		return capabilities.Errorf(capabilities.CodeNotSupported, "this gateway keeps no secrets")
	}
	for _, c := range p.Credentials() {
		if err := b.secrets.Known(ctx, c.Secret); err != nil && signIn(c.Secret) == "" {
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
		if name := signIn(c.Secret); name != "" && capabilities.CodeOf(b.secrets.Known(ctx, c.Secret)) == capabilities.CodeNotFound {
			e := capabilities.Errorf(capabilities.CodeSecretUnavailable, "nobody has signed in as %s yet, or the sign-in has ended", name).
				WithHint("Sign in, and approve the provider then.")
			return errors.Join(e, b.distrust(ctx, who, p))
		}
		_, err := b.secrets.Allow(ctx, who.Principal, secret.Spec{
			Name: c.Secret, Principal: who.Principal, Alias: p.alias(c.Name), Display: c.Name + " of the provider " + p.Name,
			Tools: []capabilities.ToolID{toolCredential},
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
// approver may approve no more. Each epoch is delivered once, whoever asks for it, and an earlier
// one never after a later: the turn orders them. Run tries again after a failure.
func (b *Book) deliver(ctx context.Context, at telling, epoch uint64) error {
	done, err := b.turn(ctx, at)
	if err != nil {
		return err
	}
	defer done()
	b.changing.Lock()
	p, err := b.Get(at.provider)
	if err != nil || p.Host != at.host || len(p.Credentials()) == 0 || p.Approver.Principal == "" {
		b.changing.Unlock()
		return nil
	}
	l := b.lineOf(at)
	variable, gone := b.gone(&p)
	served := l.done >= epoch && l.withdrawn == gone
	epoch = l.epoch
	calls := b.deliveries(&p, gone)
	b.changing.Unlock()

	if !served {
		for _, args := range calls {
			if err = b.carry(ctx, &p, gone, args); err != nil {
				break
			}
		}
		b.changing.Lock()
		if err != nil {
			pause := min(max(2*l.again.pause, firstRetry), lastRetry)
			l.again = retry{time.Now().Add(pause), pause, gone}
		} else {
			l.done, l.withdrawn, l.again = epoch, gone, retry{}
		}
		b.changing.Unlock()
		b.nudge()
	}
	if err == nil && gone && p.delivers() {
		if name := p.SignIn(); name != "" && b.ended("sign-in/"+name) && b.reference(&p, variable) != "" {
			return capabilities.Errorf(capabilities.CodeSecretUnavailable, "the sign-in %s has ended", name).
				WithHint("Sign in again; the provider stays approved.")
		}
		return capabilities.Errorf(capabilities.CodeSecretUnavailable,
			"the secret of the credential %s is gone, or was taken back from the provider %s, or who approved that is gone", variable, p.Name).
			WithHint("Store it again if it is gone, and approve the provider.")
	}
	return err
}

// deliveries are the arguments of the calls that a delivery makes.
func (b *Book) deliveries(p *Provider, gone bool) (all []map[string]any) {
	switch {
	case gone:
		return []map[string]any{{"provider": p.Name}}
	case p.delivers():
		for _, c := range p.Credentials() {
			all = append(all, map[string]any{"provider": p.Name, "name": c.Name, "secret_ref_id": b.reference(p, c.Name)})
		}
	}
	return all
}

// carry makes one of them.
func (b *Book) carry(ctx context.Context, p *Provider, gone bool, args map[string]any) error {
	tool := toolCredential
	if gone {
		tool = toolWithdraw
	}
	_, err := b.call(ctx, b.opts.Teller(p.Approver), tool, p.Host, args)
	return err
}

// gone names a credential that was the approver's and is no more, or whose approver may approve no
// more, or whose sign-in has ended; false: all are there. The word for one whose sign-in ended
// stays: another sign-in brings the provider its token.
func (b *Book) gone(p *Provider) (variable string, gone bool) {
	left := b.opts.Teller(p.Approver).Principal != p.Approver.Principal
	for _, c := range p.Credentials() {
		if p.Approver.Principal != "" && (left || b.reference(p, c.Name) == "" || b.ended(c.Secret)) {
			return c.Name, true
		}
	}
	return "", false
}

// ended reports whether a secret is the token of a sign-in that is none now.
func (b *Book) ended(name string) bool {
	return signIn(name) != "" && capabilities.CodeOf(b.secrets.Known(context.Background(), name)) == capabilities.CodeNotFound
}

// Renewed has the hosts of providers get a secret that has another value now. It does not wait for
// them: Run delivers it, and a host that is away gets it when it connects.
func (b *Book) Renewed(_ context.Context, name string) {
	b.changing.Lock()
	defer b.changing.Unlock()
	for _, p := range b.List() {
		if slices.ContainsFunc(p.Credentials(), func(c tools.Credential) bool { return c.Secret == name }) {
			b.renew(&p)
		}
	}
	b.nudge()
}

// due reports whether the credentials of a provider are to be delivered or taken back now, and
// for which epoch; changing is held. The host's own word on them does not count: it may be from
// before it was given them.
func (b *Book) due(p *Provider, host *route.Node) (epoch uint64, due bool) {
	if b.secrets == nil || len(p.Credentials()) == 0 || p.Approver.Principal == "" {
		return 0, false
	}
	l := b.lineOf(telling{p.Name, p.Host})
	mine := b.holds(p.Host)
	if l.session != host.Session { // it forgot what it was given when it ended
		l.session, l.withdrawn, l.again = host.Session, false, retry{}
		l.epoch++
		if !mine {
			l.done = l.epoch // the gateway that holds it delivers all
		}
	}
	_, gone := b.gone(p)
	switch {
	case l.done >= l.epoch && (l.withdrawn == gone || !mine):
		return 0, false
	case l.again.pause == 0, l.again.withdraw != gone:
		return l.epoch, true
	}
	tool := toolCredential
	if gone {
		tool = toolWithdraw
	}
	d, ok := b.opts.Registry.Get(tool)
	return l.epoch, !time.Now().Before(l.again.at) && ok && route.Check(host, d.Capability, nil).Eligible()
}
