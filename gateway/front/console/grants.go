package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/gateway/consent"
)

// grants shows what people allowed and is good now.
func (c *Console) grants(v *visit) { v.showGrants(nil) }

func (v *visit) showGrants(problem error) {
	var list struct {
		Grants []consent.Grant `json:"grants"`
	}
	if err := v.get(api("grants"), &list); err != nil {
		v.show(page{title: "Grants", here: "/console/grants", fault: err})
		return
	}
	body := empty("Nobody has granted anything", group(text("What you allow for a while on "), link("/console/approvals", text("Approvals")), text(" stands here until it ends or you take it back.")))
	if len(list.Grants) > 0 {
		body = div("cards", each(list.Grants, func(g consent.Grant) html {
			id := "g-" + g.ID
			used := count(g.Used, "time", "times")
			if g.MaxUses > 0 {
				used += " of " + itoa(g.MaxUses)
			}
			return el("article", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"},
				el("header", nil, el("h2", attrs{"id", id + "-h"}, text(string(g.Principal)), text(" may use "), joined(g.Tools)), span("state busy", text(string(g.Kind)))),
				facts(fact{"Device", when(g.Node != "", code(string(g.Node)))}, fact{"Lane", orText(string(g.Lane), "every lane")},
					fact{"Hosts", joined(g.Scope.Domains)}, fact{"Ends", ago(g.Expires)}, fact{"Used", text(used)}, fact{"Given by", text(string(g.Approver))}, fact{"Reason", text(g.Reason)}),
				when(v.offers("DELETE /v1/grants/{grant}"), v.form(at("grants", g.ID), nil, button("danger", "Take it back"))))
		}))
	}
	v.show(page{title: "Grants", here: "/console/grants", live: "grant call", fault: problem, lead: text("What people allowed agents for a while, and is good now."), body: body})
}

func orText(s, other string) html {
	if s == "" {
		return text(other)
	}
	return code(s)
}

func (c *Console) endGrant(v *visit) {
	if err := v.ask(http.MethodDelete, api("grants", v.r.PathValue("grant")), nil, nil); err != nil {
		v.showGrants(err)
		return
	}
	v.seeOther("/console/grants", "taken")
}
