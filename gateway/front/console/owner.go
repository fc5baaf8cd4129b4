package console

import (
	"slices"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Owners are those whose a device can be; nil where the visitor may not say it.
func (d deviceCard) Owners() *choice {
	if !d.who.May(principal.ActNameOwner) {
		return nil
	}
	if d.owners == nil {
		d.owners = d.persons()
	}
	names := []string{"", "nobody"}
	for _, name := range d.owners {
		names = append(names, name, name)
	}
	owner := string(d.Owner)
	if !slices.Contains(d.owners, owner) && owner != "" {
		names = append(names, owner, owner+" (cannot sign in)")
	}
	c := choose("n-"+string(d.ID)+"-owner", "owner", "Owner: needs nobody else’s word for what they do with it themselves", owner, names...)
	return &c
}

// persons are those who may answer questions.
func (v *visit) persons() []string {
	var list api.TokenList
	names := []string{}
	if v.get(v1("tokens"), &list) != nil {
		return names
	}
	now := v.con.opts.Now()
	for _, t := range list.Tokens {
		if role, err := principal.ParseRole(t.Role); err == nil && v.who.As(t.Principal, role).
			May(principal.ActApprove) && t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt)) {
			names = append(names, string(t.Principal))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// WhyNot is why the visitor's own answer does not count as it is.
func (q question) WhyNot() string { return sentence(q.Own.Why) }

// OwnAnswers are the answers that count to what the visitor asked themselves.
func (q question) OwnAnswers() []answerButton {
	if q.Own.May {
		return []answerButton{{"main", string(consent.KindCall), "Allow once", "a"}, denyButton}
	}
	return []answerButton{denyButton}
}
