package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/pairing"
)

// grants shows what people allowed and is good now.
func (c *Console) grants(v *visit) { v.showGrants(nil) }

func (v *visit) showGrants(problem error) {
	var list struct {
		Grants []view.Grant `json:"grants"`
	}
	if err := v.get(api("grants"), &list); err != nil {
		v.show(page{title: "Grants", here: "/console/grants", fault: err})
		return
	}
	var known struct {
		Nodes []device `json:"nodes"`
	}
	names := map[capabilities.NodeID]string{}
	if v.get(api("nodes"), &known) == nil { // without them the IDs tell
		for _, d := range known.Nodes {
			names[d.ID] = orElse(d.Label, d.Host)
		}
	}
	body := empty("Nobody has granted anything", group(text("What you allow for a while on "), link("/console/approvals", text("Approvals")), text(" stands here until it ends or you take it back.")))
	if len(list.Grants) > 0 {
		body = div("cards", each(list.Grants, func(g view.Grant) html {
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
	v.show(page{title: "Grants", here: "/console/grants", live: "grant call", fault: problem, remedy: v.remedy(problem, "POST /v1/grants", "/console/confirm/grant"), modules: []string{"passkey"},
		lead: text("What people allowed agents for a while, and is good now."), body: group(body, v.newGrant(known.Nodes))})
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

// newGrant is the form for one, ahead of any call.
func (v *visit) newGrant(all []device) html {
	var names []string
	for _, d := range all {
		if d.State == string(pairing.StateApproved) {
			names = append(names, string(d.ID), orElse(d.Label, d.Host))
		}
	}
	if len(names) == 0 {
		return html{}
	}
	return when(v.offers("POST /v1/grants"), card("new", "Give a grant",
		el("p", class("faint"), text("Ahead of any call, for what policy asks about. What is asked about at each call cannot be given.")),
		v.control("POST /v1/grants", "/console/grants", attrs{"class", "grid"},
			input("g-who", "principal", "Agent", "", "maxlength", "128", "required", ""),
			input("g-tools", "tools", "Tools, or a family such as tool.desktop.*", "", "maxlength", "500", "required", ""),
			choice("g-node", "node", "Device", "", names...),
			input("g-lane", "lane", "Lane (default: its token’s)", "", "maxlength", "128"),
			input("g-minutes", "minutes", "Minutes, at most 60", "5", "type", "number", "min", "1", "max", "60"),
			input("g-reason", "reason", "Reason (optional, recorded)", "", "maxlength", "500"),
			button("main", "Give the grant"))))
}

func (c *Console) giveGrant(v *visit) {
	if err := v.sends("grant", nil); err != nil {
		v.showGrants(err)
		return
	}
	v.seeOther("/console/grants", "granted")
}

func (c *Console) endGrant(v *visit) {
	if err := v.ask(http.MethodDelete, api("grants", v.r.PathValue("grant")), nil, nil); err != nil {
		v.showGrants(err)
		return
	}
	v.seeOther("/console/grants", "taken")
}
