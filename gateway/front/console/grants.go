package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/pairing"
)

// grants shows what people allowed and is good now.
func (c *Console) grants(v *visit) { v.showGrants(nil) }

func (v *visit) showGrants(problem error) {
	var list api.GrantList
	if err := v.get(v1("grants"), &list); err != nil {
		v.show(page{name: "problem", title: "Grants", here: "/console/grants", fault: err})
		return
	}
	var known struct {
		Nodes []device `json:"nodes"`
	}
	names := map[capabilities.NodeID]string{}
	var offered []string
	if v.get(v1("nodes"), &known) == nil { // without them the IDs tell
		for _, d := range known.Nodes {
			names[d.ID] = orElse(d.Label, d.Host)
			if d.State == string(pairing.StateApproved) {
				offered = append(offered, string(d.ID), orElse(d.Label, d.Host))
			}
		}
	}
	shown := grantsPage{visit: v, Node: choose("g-node", "node", "Device", "", offered...)}
	for _, g := range list.Grants {
		shown.Grants = append(shown.Grants, grant{v, g, names[g.Node]})
	}
	v.show(page{
		name: "grants", title: "Grants", here: "/console/grants", live: "grant call", fault: problem,
		remedy: v.remedy(problem, "POST /v1/grants", "/console/confirm/grant"), modules: []string{"passkey"}, data: shown,
	})
}

// grantsPage is what people allowed, and the form that grants more ahead of any call.
type grantsPage struct {
	*visit
	Grants []grant
	Node   choice // of the devices that one can be for
}

type grant struct {
	*visit
	api.Grant
	Name string // that people gave the device; empty if nobody knows one
}

func (c *Console) giveGrant(v *visit) {
	if err := v.sends("grant", nil); err != nil {
		v.showGrants(err)
		return
	}
	v.seeOther("/console/grants", "granted")
}

func (c *Console) endGrant(v *visit) {
	if err := v.ask(http.MethodDelete, v1("grants", v.r.PathValue("grant")), nil, nil); err != nil {
		v.showGrants(err)
		return
	}
	v.seeOther("/console/grants", "taken")
}
