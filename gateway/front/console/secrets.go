package console

import (
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// keptSecret is a secret as the REST surface tells it: never its value.
type keptSecret struct {
	Name       string      `json:"name"`
	Source     string      `json:"source"`
	Version    int64       `json:"version"`
	Changed    time.Time   `json:"changed_at"`
	References []secretRef `json:"references"`
}

type secretRef struct {
	ID      string                   `json:"secret_ref_id"`
	Alias   string                   `json:"secret_alias"`
	Tools   []string                 `json:"allowed_tool_ids"`
	Display string                   `json:"display_name"`
	Owner   capabilities.PrincipalID `json:"principal"`
}

// secrets shows who may have which secret delivered. There is no way here to read a
// value or to type one.
func (c *Console) secrets(v *visit) { v.showSecrets(nil) }

func (v *visit) showSecrets(problem error) {
	pg := page{title: "Secrets", here: "/console/secrets", live: "packet", fault: problem,
		lead: text("What agents may have pasted and never see. These pages know names and references only, no values.")}
	var list struct {
		Secrets []keptSecret `json:"secrets"`
	}
	if err := v.get(api("secrets"), &list); err != nil {
		pg.fault = err
		v.show(pg)
		return
	}
	if len(list.Secrets) == 0 {
		pg.body = empty("No secrets are kept", group(text("Set one where nobody looks over your shoulder: "), code("handrail secret set NAME"), text(" asks for the value. Then allow it to an agent here.")))
		v.show(pg)
		return
	}
	pg.body = group(div("cards", each(list.Secrets, v.secretCard)),
		el("p", class("faint"), text("Set or change a value with "), code("handrail secret set NAME"), text(".")))
	v.show(pg)
}

func (v *visit) secretCard(s keptSecret) html {
	id := "s-" + s.Name
	where := map[string]string{"stored": "sealed in the gateway's store", "env": "in the gateway's environment", "file": "in a file of the gateway's machine", "exec": "in another program"}[s.Source]
	rows := make([][]html, 0, len(s.References))
	for _, r := range s.References {
		rows = append(rows, []html{
			text(string(r.Owner)), code(orElse(r.Alias, r.ID)), text(r.Display), joined(r.Tools),
			v.control("DELETE /v1/secrets/{secret}", at("secrets", r.ID), nil, hiddenField("do", "remove"), button("danger small", "Remove", "aria-label", "Remove: "+s.Name+" from "+string(r.Owner))),
		})
	}
	return el("article", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"},
		el("header", nil, el("h2", attrs{"id", id + "-h"}, text(s.Name)), span("faint", text(orElse(where, s.Source)))),
		facts(fact{"Changed", when(!s.Changed.IsZero(), ago(s.Changed))}, fact{"Version", when(s.Version > 0, text(itoa(int(s.Version))))}),
		when(len(rows) > 0, table("Who may have "+s.Name+" delivered", columns("Agent", "Named", "Shown as", "By tools", "Change"), rows)),
		when(len(rows) == 0, el("p", class("faint"), text("No agent may have it."))),
		when(v.offers("POST /v1/secrets/{secret}/references"), el("details", attrs{"id", id + "-allow"}, el("summary", nil, text("Allow it to an agent")),
			v.control("POST /v1/secrets/{secret}/references", at("secrets", s.Name), attrs{"class", "stack"}, hiddenField("do", "allow"),
				input(id+"-who", "principal", "Agent", "", "maxlength", "128", "required", ""),
				input(id+"-alias", "alias", "Name the agent calls it by (optional)", "", "maxlength", "120"),
				input(id+"-display", "display", "What people and the agent read (optional)", "", "maxlength", "120"),
				button("main", "Allow it"),
				el("p", class("faint"), text("Policy still decides on every delivery; the shipped one asks a person each time."))))),
		when(v.offers("DELETE /v1/secrets/{secret}"), el("details", attrs{"id", id + "-gone"}, el("summary", nil, text("Remove it")),
			el("p", nil, text("The value and every reference to it are gone at once, for good.")),
			v.control("DELETE /v1/secrets/{secret}", at("secrets", s.Name), nil, hiddenField("do", "remove"), button("danger", "Remove "+s.Name)))))
}

func (c *Console) changeSecret(v *visit) {
	f, what := v.r.PostForm, v.r.PathValue("secret")
	var err error
	switch f.Get("do") {
	case "allow":
		err = v.ask(http.MethodPost, api("secrets", what, "references"), map[string]string{"principal": f.Get("principal"), "secret_alias": f.Get("alias"), "display_name": f.Get("display")}, nil)
	case "remove":
		err = v.ask(http.MethodDelete, api("secrets", what), nil, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showSecrets(err)
		return
	}
	v.seeOther("/console/secrets", "changed")
}
