package console

import (
	"net/url"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxSteps is how many steps of a call one page shows.
const maxSteps = 200

// stepsOf shows the calls that a call made itself, the latest first.
func (v *visit) stepsOf(id capabilities.CallID) html {
	list, err := v.callsOf(url.Values{"parent": {string(id)}, "limit": {itoa(maxSteps)}})
	if err != nil || len(list) == 0 {
		return html{}
	}
	rows := make([][]html, 0, len(list))
	for _, c := range list {
		rows = append(rows, []html{
			text(itoa(int(c.Step))), link(at("calls", string(c.ID)), text(string(c.Tool))), text(c.Decision),
			group(span("state "+c.mood(), text(c.Outcome)), when(c.Code != "", el("div", class("faint small"), text(string(c.Code))))), text(took(c.DurationMS)),
		})
	}
	return group(el("h2", class("part"), text("Its steps")),
		p(text("What the call did itself, each decided and recorded as a call of its own; the latest first."), when(len(list) == maxSteps, text(" There may be more, earlier."))),
		table("Its steps, the latest first", []column{{name: "Step", class: "number"}, {name: "Tool"}, {name: "Decision"}, {name: "State"}, {name: "Took", class: "number"}}, rows))
}

// under says of a step whose it is.
func (t told) under() html {
	if t.req.Parent == "" {
		return html{}
	}
	return p(text("Step "+itoa(int(t.req.Step))+" of "), link(at("calls", string(t.req.Parent)), text("the call that took it")), text("."))
}
