package oidc

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Answer is what the provider sent a browser back with.
type Answer struct {
	Keep   string // what the browser kept since Begin
	Back   string // the address that it came to
	State  string
	Code   string
	Issuer string // iss
	Error  string
}

var errAnswer = capabilities.Errorf(capabilities.CodeUnauthenticated, "this is no answer to a sign-in that this browser began").
	WithHint("Sign in again. An answer counts once, within ten minutes, in the browser that asked.")

// Finish takes an answer, once, and opens the person's session. CodeUnauthenticated for one that is
// another browser's, another provider's, late, or made up, and for an ID token that is not this
// sign-in's.
func (p *Provider) Finish(ctx context.Context, a Answer) (principal.Token, principal.Secret, error) {
	fail := func(err error) (principal.Token, principal.Secret, error) {
		return principal.Token{}, principal.Secret{}, err
	}
	w, ok := p.unseal(a.Keep)
	if !ok || a.State == "" || !hmac.Equal([]byte(w.State), []byte(a.State)) || w.Back != a.Back {
		return fail(errAnswer)
	}
	if err := p.spend(&w); err != nil {
		return fail(err)
	}
	m, err := p.meet(ctx)
	if err != nil {
		return fail(err)
	}
	switch {
	case a.Issuer != p.opts.Issuer && (a.Issuer != "" || m.says): // RFC 9207, section 2.4
		return fail(errAnswer)
	case a.Error != "":
		return fail(capabilities.Errorf(capabilities.CodeUnauthenticated, "the provider did not sign you in: %s",
			capabilities.Clip(capabilities.Printable(a.Error), 100)))
	case a.Code == "" || len(a.Code) > maxCode:
		return fail(errAnswer)
	}
	t, err := p.exchange(ctx, m, &w, a.Code)
	if err != nil {
		return fail(err)
	}
	o, err := p.vouched(ctx, m, t, w.Nonce)
	if err != nil {
		return fail(err)
	}
	return p.opts.People.SignInOutside(ctx, o)
}

// spend has a state be good once: an answer that comes again finds it used.
func (p *Provider) spend(w *pending) error {
	key, now := sha256.Sum256([]byte(w.State)), p.opts.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, used := p.spent[key]; used {
		return errAnswer
	}
	if len(p.spent) >= maxSpent {
		for other, until := range p.spent {
			if !now.Before(until) {
				delete(p.spent, other)
			}
		}
	}
	if len(p.spent) >= maxSpent {
		return capabilities.Errorf(capabilities.CodeOverloaded, "%d sign-ins came back within ten minutes", maxSpent)
	}
	p.spent[key] = time.UnixMilli(w.Until)
	return nil
}

// exchange fetches the tokens for a code. The provider's words are in no error: they may hold what
// was sent.
func (p *Provider) exchange(ctx context.Context, m *met, w *pending, code string) (*oauth2.Token, error) {
	secret := ""
	if p.opts.Secret != "" {
		s, err := p.opts.Secrets(ctx, p.opts.Secret)
		if err != nil {
			return nil, capabilities.Errorf(capabilities.CodeSecretUnavailable, "the client secret for %s is not there", p.Host()).
				WithHint("Ask whoever runs this gateway: its stored secret of that name has no value.")
		}
		defer s.Wipe()
		secret = string(s.Reveal())
	}
	t, err := p.config(m, w.Back, secret).Exchange(gooidc.ClientContext(ctx, m.client), code, oauth2.VerifierOption(w.Verifier))
	if err != nil {
		status := 0
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.Response != nil {
			status = refused.Response.StatusCode
		}
		p.opts.Log.Warn("oidc.exchange", "issuer", p.opts.Issuer, "status", status)
		return nil, capabilities.Errorf(capabilities.CodeUnauthenticated, "the provider refused the code: it did not say who signed in").
			WithHint("Sign in again. If it stays so, the client ID or its secret is not the one that the provider knows.")
	}
	return t, nil
}

// vouched reads who the provider says that it is: an ID token that it signed for this gateway and
// for this sign-in (OpenID Connect Core, section 3.1.3.7), and what it says of that person besides.
func (p *Provider) vouched(ctx context.Context, m *met, t *oauth2.Token, nonce string) (principal.Outside, error) {
	refused := func(why string) (principal.Outside, error) {
		p.opts.Log.Warn("oidc.id_token", "issuer", p.opts.Issuer, "reason", why)
		return principal.Outside{}, capabilities.Errorf(capabilities.CodeUnauthenticated, "the provider's ID token does not count: %s", why)
	}
	raw, ok := t.Extra("id_token").(string)
	if !ok {
		return refused("there is none")
	}
	id, err := m.verifier.Verify(gooidc.ClientContext(ctx, m.client), raw)
	var late *gooidc.TokenExpiredError
	switch {
	case errors.As(err, &late):
		return refused("it is over")
	case err != nil:
		return refused("it is not signed by the provider, or not for this gateway")
	case !hmac.Equal([]byte(id.Nonce), []byte(nonce)):
		return refused("it is another sign-in's")
	}
	c := claims{}
	if err := id.Claims(&c); err != nil {
		return refused("it cannot be read")
	}
	switch azp := c.text("azp"); {
	case azp != "" && azp != p.opts.Client, azp == "" && len(id.Audience) > 1:
		return refused("it was given to another client")
	case id.Subject == "" || len(id.Subject) > 255:
		return refused("it names nobody")
	}
	if (c[p.opts.GroupsClaim] == nil || c[p.opts.NameClaim] == nil) && m.UserInfoEndpoint() != "" {
		info, err := m.UserInfo(gooidc.ClientContext(ctx, m.client), oauth2.StaticTokenSource(t))
		if err != nil || info.Subject != id.Subject { // section 5.3.2
			return refused("what the provider says of its subject cannot be read, or is somebody else's")
		}
		more := claims{}
		if err := info.Claims(&more); err != nil {
			return refused("what the provider says of its subject cannot be read")
		}
		c.add(more)
	}
	return p.outside(id.Subject, c)
}
