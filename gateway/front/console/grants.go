package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
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
	var known struct {
		Nodes []device `json:"nodes"`
	}
	names := map[capabilities.NodeID]string{}
	if len(list.Grants) > 0 && v.get(api("nodes"), &known) == nil { // without them the IDs tell
		for _, d := range known.Nodes {
			names[d.ID] = orElse(d.Label, d.Host)
		}
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
				facts(fact{"Device", named(names, g.Node)}, fact{"Lane", orText(string(g.Lane), "every lane")},
					fact{"Hosts", joined(g.Scope.Domains)}, fact{"Ends", ago(g.Expires)}, fact{"Used", text(used)}, fact{"Given by", text(string(g.Approver))}, fact{"Reason", text(g.Reason)}),
				v.control("DELETE /v1/grants/{grant}", at("grants", g.ID), nil, button("danger", "Revoke grant", "aria-label", "Revoke grant: what "+string(g.Principal)+" may use")))
		}))
	}
	v.show(page{title: "Grants", here: "/console/grants", live: "grant call", fault: problem, lead: text("What people allowed agents for a while, and is good now."), body: body})
}

// named is a device by the name that people gave it.
func named(names map[capabilities.NodeID]string, id capabilities.NodeID) html {
	switch {
	case id == "":
		return text("every device")
	case names[id] == "":
		return code(string(id))
	}
	return group(text(names[id]), span("faint small", text(" "+string(id))))
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
