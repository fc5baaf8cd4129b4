package oidc

import (
	"encoding/json"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// claims are what a provider says of a person.
type claims map[string]json.RawMessage

// add takes what is not there yet: the ID token's word is signed, and goes first.
func (c claims) add(more claims) {
	for name, value := range more {
		if c[name] == nil {
			c[name] = value
		}
	}
}

// text is a claim that is a text; empty otherwise.
func (c claims) text(name string) (s string) {
	if json.Unmarshal(c[name], &s) != nil {
		return ""
	}
	return s
}

// texts is a claim that is a list of texts, or one.
func (c claims) texts(name string) (all []string) {
	if json.Unmarshal(c[name], &all) == nil {
		return all
	}
	if one := c.text(name); one != "" {
		return []string{one}
	}
	return nil
}

// verified reports whether the provider says that the address is the person's. Some say it as text.
func (c claims) verified() bool {
	yes := false
	return json.Unmarshal(c["email_verified"], &yes) == nil && yes || c.text("email_verified") == "true"
}

// outside is the person whom the claims are about.
func (p *Provider) outside(subject string, c claims) (principal.Outside, error) {
	if (p.opts.NameClaim == "email" || p.opts.GroupsClaim == "email") && !c.verified() {
		return principal.Outside{}, capabilities.Errorf(capabilities.CodeForbidden, "the provider does not say that your address is yours").
			WithHint("Confirm the address at the provider, and sign in again.")
	}
	name := principalName(c.text(p.opts.NameClaim))
	if name == "" {
		return principal.Outside{}, capabilities.Errorf(capabilities.CodeForbidden, "the provider says no name of yours: there is no %.64q",
			p.opts.NameClaim).WithHint("Ask whoever runs this gateway to choose another claim for names, or another scope.")
	}
	return principal.Outside{Issuer: p.opts.Issuer, Subject: subject, Name: name, Role: p.role(c)}, nil
}

// role is the largest that a group of the person stands for; empty: none does.
func (p *Provider) role(c claims) (role principal.Role) {
	for _, group := range c.texts(p.opts.GroupsClaim) {
		if its, ok := p.opts.Roles[group]; ok && (role == "" || its.Covers(role)) {
			role = its
		}
	}
	return role
}

// principalName is a name as it may stand here, in small letters: what may not is a dash.
func principalName(s string) capabilities.PrincipalID {
	s = strings.ToLower(strings.TrimSpace(s))
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@/", r)) {
			return r
		}
		return '-'
	}, s)
	return capabilities.PrincipalID(strings.Trim(capabilities.Clip(s, 128), "-"))
}
