package console

import (
	"slices"

	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// ownerOf is the form that says whose a device is, for those who may say it.
func (v *visit) ownerOf(d device) html {
	if !principal.Allow(v.who.Role, principal.ActNameOwner) {
		return html{}
	}
	if v.owners == nil {
		v.owners = v.persons()
	}
	names := []string{"", "nobody"}
	for _, name := range v.owners {
		names = append(names, name, name)
	}
	owner := string(d.Owner)
	if !slices.Contains(v.owners, owner) && owner != "" {
		names = append(names, owner, owner+" (cannot sign in)")
	}
	id := "n-" + string(d.ID)
	return v.control("PATCH /v1/nodes/{node}", at("nodes", string(d.ID)), attrs{"class", "stack"},
		choice(id+"-owner", "owner", "Owner: needs nobody else’s word for what they do with it themselves", owner, names...),
		button("plain", "Save the owner", "name", "do", "value", "owner"))
}

// persons are those who may answer questions.
func (v *visit) persons() []string {
	var list struct {
		Tokens []view.Token `json:"tokens"`
	}
	names := []string{}
	if v.get(api("tokens"), &list) != nil {
		return names
	}
	now := v.con.opts.Now()
	for _, t := range list.Tokens {
		if role, err := principal.ParseRole(t.Role); err == nil && principal.Allow(role, principal.ActApprove) && t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt)) {
			names = append(names, string(t.Principal))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// own is what the visitor is told of a question that they asked themselves, and the answers
// that count there: of one about a device of theirs, for that one call.
func (v *visit) own(q question) html {
	o := q.Own
	deny := v.control("POST /v1/approvals/{approval}", at("approvals", q.ID), attrs{"class", "answers"}, v.returns(),
		div("buttons", when(o.May, answerButton("main", "call", "Allow once", "a")), answerButton("danger", "deny", "Deny", "d")))
	switch {
	case o.May:
		return group(el("p", class("why"), text("You asked for this yourself, and the device is yours. Your answer is the consent of its owner, and is recorded as that.")), deny)
	case o.Passkey:
		return group(el("p", class("why"), text("You asked for this yourself, and the device is yours. "+sentence(o.Why)+" A passkey shows that it is you.")),
			v.control("POST /v1/approvals/{approval}", at("approvals", q.ID), attrs{"class", "answers", "data-passkey", at("approvals", q.ID, "passkey")}, v.returns(),
				hiddenField("answer", "call"), hiddenField("credential", ""),
				el("p", attrs{"class", "none", "role", "alert", "data-problem", ""}),
				div("buttons", button("main", "Allow once with your passkey"))), deny)
	}
	return group(el("p", class("why"), text("You asked for this yourself. "+sentence(o.Why)+" "+o.Hint)), deny)
}
