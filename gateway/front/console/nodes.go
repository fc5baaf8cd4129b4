package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"rsc.io/qr"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

// device is a node as the REST surface tells it.
type device struct {
	ID           capabilities.NodeID         `json:"node_id"`
	Label        string                      `json:"label"`
	Trust        string                      `json:"trust"`
	State        pairing.State               `json:"state"`
	Platform     string                      `json:"platform"`
	Arch         string                      `json:"arch"`
	Host         string                      `json:"host"`
	Agent        string                      `json:"agent_version"`
	Fingerprint  string                      `json:"key_fingerprint"`
	Connected    bool                        `json:"connected"`
	LastSeen     time.Time                   `json:"last_seen"`
	JoinedAt     time.Time                   `json:"joined_at"`
	DecidedBy    capabilities.PrincipalID    `json:"decided_by"`
	Reason       string                      `json:"reason"`
	Allow        []string                    `json:"allow"`
	Labels       []string                    `json:"labels"`
	Offers       []capabilities.CapabilityID `json:"offers"`
	Wants        []capabilities.CapabilityID `json:"wants"`
	Stopped      bool                        `json:"stopped"`
	CatalogSkew  bool                        `json:"catalog_skew"`
	Capabilities []struct {
		Capability capabilities.CapabilityID `json:"capability"`
		Tool       capabilities.ToolID       `json:"tool_id"`
		Available  bool                      `json:"available"`
		Reason     capabilities.Reason       `json:"reason"`
		Fix        string                    `json:"fix"`
		Degraded   string                    `json:"degraded"`
	} `json:"capabilities"`
}

func (c *Console) nodes(v *visit) { v.showNodes(nil, html{}) }

func (v *visit) showNodes(problem error, paste html) {
	var list struct {
		Nodes []device `json:"nodes"`
	}
	if err := v.get(api("nodes"), &list); err != nil {
		v.show(page{title: "Devices", here: "/console/nodes", fault: err})
		return
	}
	var waiting, in, out []device
	for _, d := range list.Nodes {
		switch d.State {
		case pairing.StatePending:
			waiting = append(waiting, d)
		case pairing.StateApproved:
			in = append(in, d)
		default:
			out = append(out, d)
		}
	}
	v.show(page{title: "Devices", here: "/console/nodes", live: "node", fault: problem,
		lead: text("What agents can use here, and what keeps them from the rest."),
		body: group(
			paste,
			when(len(waiting) > 0, group(el("h2", class("part"), text("Wants to join")), div("cards", each(waiting, v.newcomer)))),
			when(len(in) > 0, group(when(len(waiting) > 0, el("h2", class("part"), text("Paired"))), div("cards", each(in, v.device)))),
			when(len(in)+len(waiting) == 0, empty("No device is paired", text("Pair one: run the command below on it, or make a paste here."))),
			when(v.offers("POST /v1/invites"), v.pairing()),
			when(len(out) > 0, el("details", attrs{"id", "out"}, el("summary", nil, text(count(len(out), "device that was put out", "devices that were put out"))), el("ul", nil, each(out, func(d device) html {
				return el("li", nil, text(orElse(d.Label, d.Host)), text(" "), code(string(d.ID)), text(" "), text(string(d.State)), when(d.Reason != "", textf(": %s", d.Reason)))
			}))))),
	})
}

// newcomer is who joined and waits to be let in: what it is, and what it offers.
func (v *visit) newcomer(d device) html {
	id := "n-" + string(d.ID)
	return el("article", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"},
		el("h2", attrs{"id", id + "-h"}, text(orElse(d.Label, d.Host))),
		facts(
			fact{"Host", text(d.Host)}, fact{"System", text(d.Platform + " " + d.Arch)}, fact{"Key", code(d.Fingerprint)}, fact{"Joined", ago(d.JoinedAt)},
			fact{"Offers", text(count(len(d.Offers), "capability", "capabilities"))},
		),
		el("p", class("faint"), text("Compare the key with what the device shows before you let it in.")),
		when(v.offers("POST /v1/nodes/{node}/approve"), div("buttons",
			v.form(at("nodes", string(d.ID)), attrs{"class", "inline"}, button("main", "Let it in", "name", "do", "value", "approve")),
			v.form(at("nodes", string(d.ID)), attrs{"class", "inline"}, button("danger", "Refuse", "name", "do", "value", "deny")))))
}

// device is one paired node with the truth about each of its capabilities.
func (v *visit) device(d device) html {
	id := "n-" + string(d.ID)
	ready := 0
	for _, c := range d.Capabilities {
		if c.Available {
			ready++
		}
	}
	state, mood := "away", "no"
	switch {
	case d.Stopped:
		state, mood = "stopped at the device", "bad"
	case d.Connected:
		state, mood = "connected", "good"
	}
	return el("article", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"},
		el("header", nil, el("h2", attrs{"id", id + "-h"}, text(orElse(d.Label, d.Host))), span("state "+mood, text(state))),
		el("p", class("faint"), text(d.Platform), text(" · "), text(d.Host), text(" · trust "), text(orElse(d.Trust, "none")), when(!d.Connected, group(text(" · last seen "), ago(d.LastSeen)))),
		when(len(d.Labels) > 0, el("p", nil, each(d.Labels, func(l string) html { return span("tag", text(l)) }))),
		when(d.CatalogSkew, el("p", class("why"), text("It runs another version than this gateway; some tools may differ."))),
		when(len(d.Wants) > 0, group(
			el("h3", nil, text("It offers more than it may")),
			el("ul", class("diff"), each(d.Wants, func(w capabilities.CapabilityID) html { return el("li", nil, el("ins", nil, text("+ "+string(w)))) })),
			when(v.offers("PATCH /v1/nodes/{node}"), v.form(at("nodes", string(d.ID)), nil, button("plain", "Allow these too", "name", "do", "value", "widen"))))),
		el("details", attrs{"id", id + "-caps"},
			el("summary", nil, textf("%d of %s ready", ready, count(len(d.Capabilities), "capability", "capabilities"))),
			when(len(d.Capabilities) == 0, el("p", class("faint"), text("It has not said yet what it can do."))),
			el("ul", class("caps"), each(d.Capabilities, func(c struct {
				Capability capabilities.CapabilityID `json:"capability"`
				Tool       capabilities.ToolID       `json:"tool_id"`
				Available  bool                      `json:"available"`
				Reason     capabilities.Reason       `json:"reason"`
				Fix        string                    `json:"fix"`
				Degraded   string                    `json:"degraded"`
			}) html {
				word, mood := "ready", "good"
				if !c.Available {
					word, mood = strings.ReplaceAll(string(c.Reason), "_", " "), "bad"
				}
				return el("li", nil, code(string(c.Tool)), text(" "), span("state "+mood, text(word)), when(c.Fix != "", span("faint", text(" "+c.Fix))), when(c.Degraded != "", span("faint", text(" "+c.Degraded))))
			}))),
		when(v.offers("PATCH /v1/nodes/{node}"), el("details", attrs{"id", id + "-edit"}, el("summary", nil, text("Change")),
			v.form(at("nodes", string(d.ID)), attrs{"class", "stack"},
				el("label", attrs{"for", id + "-label"}, text("Name")), void("input", attrs{"id", id + "-label", "name", "label", "value", d.Label, "maxlength", "64"}),
				el("label", attrs{"for", id + "-labels"}, text("Labels, separated by spaces")), void("input", attrs{"id", id + "-labels", "name", "labels", "value", strings.Join(d.Labels, " ")}),
				el("label", attrs{"for", id + "-allow"}, text("Allowed capabilities, one a line; * is all")), el("textarea", attrs{"id", id + "-allow", "name", "allow", "rows", "4", "spellcheck", "false"}, lines(strings.Join(d.Allow, "\n"))),
				button("main", "Save", "name", "do", "value", "save")),
			el("details", attrs{"id", id + "-revoke"}, el("summary", nil, text("Put it out")),
				el("p", nil, text("Ends its connection and every call on it at once, for good. It has to be paired anew.")),
				v.form(at("nodes", string(d.ID)), nil, button("danger", "Put it out now", "name", "do", "value", "revoke"))))))
}

// pairing makes a paste.
func (v *visit) pairing() html {
	return div("card",
		el("h2", nil, text("Pair a device")),
		el("p", nil, text("On the device, run "), code("handrail node join"), text(" and give it a paste. A paste is good once, for ten minutes, and shown once.")),
		v.form("/console/pair", nil, button("main", "Make a paste")))
}

func (c *Console) pair(v *visit) {
	var made struct {
		Paste   string    `json:"paste"`
		Expires time.Time `json:"expires_at"`
	}
	if err := v.ask(http.MethodPost, api("invites"), map[string]any{}, &made); err != nil {
		v.showNodes(err, html{})
		return
	}
	v.showNodes(nil, el("section", attrs{"class", "card paste", "data-once", "", "aria-labelledby", "paste-h"},
		el("h2", attrs{"id", "paste-h"}, text("The paste")),
		el("p", nil, text("Run "), code("handrail node join"), text(" on the device and give it this. Good until "), moment(made.Expires), text("; it is not shown again.")),
		el("pre", attrs{"tabindex", "0", "aria-label", "The paste"}, el("code", nil, text(made.Paste))),
		qrOf(made.Paste)))
}

// qrOf draws a QR code as one path: black on white whatever the page's colours are.
func qrOf(s string) html {
	q, err := qr.Encode(s, qr.L)
	if err != nil {
		return html{} // too long for one: the text is there
	}
	var path strings.Builder
	for y := range q.Size {
		for x := range q.Size {
			if q.Black(x, y) {
				path.WriteString("M" + itoa(x+4) + " " + itoa(y+4) + "h1v1h-1z")
			}
		}
	}
	side := itoa(q.Size + 8)
	return el("svg", attrs{"class", "qr", "viewBox", "0 0 " + side + " " + side, "role", "img", "aria-label", "The paste as a QR code", "shape-rendering", "crispEdges"},
		el("rect", attrs{"width", side, "height", side, "fill", "#fff"}), el("path", attrs{"d", path.String(), "fill", "#000"}))
}

func (c *Console) changeNode(v *visit) {
	id := v.r.PathValue("node")
	form := v.r.PostForm
	var err error
	switch form.Get("do") {
	case "approve":
		err = v.ask(http.MethodPost, api("nodes", id, "approve"), map[string]any{}, nil)
	case "deny", "revoke":
		err = v.ask(http.MethodPost, api("nodes", id, form.Get("do")), map[string]any{}, nil)
	case "widen":
		var d device
		if err = v.get(api("nodes", id), &d); err == nil {
			allow := d.Allow
			for _, w := range d.Wants {
				allow = append(allow, string(w))
			}
			err = v.ask(http.MethodPatch, api("nodes", id), map[string]any{"allow": slices.Compact(slices.Sorted(slices.Values(allow)))}, nil)
		}
	case "save":
		err = v.ask(http.MethodPatch, api("nodes", id), map[string]any{
			"label": form.Get("label"), "labels": fields(form.Get("labels")), "allow": fields(form.Get("allow")),
		}, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showNodes(err, html{})
		return
	}
	v.seeOther("/console/nodes", "changed")
}

// fields splits what a person typed; never nil, which would mean no change.
func fields(s string) []string { return append([]string{}, strings.Fields(s)...) }
