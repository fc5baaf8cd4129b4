package console

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"rsc.io/qr"

	"github.com/handrail-dev/handrail/capabilities"
	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/pairing"
)

// device is a node as REST shows it.
type device struct{ view.Node }

func (c *Console) nodes(v *visit) { v.showNodes(nil, html{}) }

func (v *visit) showNodes(problem error, paste html) {
	var list struct {
		Nodes []device `json:"nodes"`
	}
	if err := v.get(api("nodes"), &list); err != nil {
		v.show(page{title: "Devices", here: "/console/nodes", fault: err})
		return
	}
	label := v.r.URL.Query().Get("label")
	var waiting, in, out []device
	paired, labels := 0, map[string]int{}
	for _, d := range list.Nodes {
		switch d.State {
		case string(pairing.StatePending):
			waiting = append(waiting, d)
		case string(pairing.StateApproved):
			paired++
			for _, l := range d.Labels {
				labels[l]++
			}
			if label == "" || slices.Contains(d.Labels, label) {
				in = append(in, d)
			}
		default:
			out = append(out, d)
		}
	}
	v.show(page{title: "Devices", here: "/console/nodes", live: "node", fault: problem,
		lead: text("Devices agents can use, and what is not available on each."),
		body: group(
			paste,
			when(len(waiting) > 0, group(el("h2", class("part"), text("Wants to join")), div("cards", each(waiting, v.newcomer)))),
			when(paired > 0, el("h2", class("part"), text("Paired"))), groups(labels, label, paired),
			div("cards", each(in, v.device)),
			when(len(in) == 0 && paired > 0, empty("No device has that label", link("/console/nodes", text("Show all devices")))),
			when(paired+len(waiting) == 0, empty("No device is paired", text("Create a pairing code here, and enter it on the device that you want agents to use."))),
			v.pairing(),
			when(len(out) > 0, el("details", attrs{"id", "out"}, el("summary", nil, text(count(len(out), "removed device", "removed devices"))), el("ul", class("plainlist"), each(out, func(d device) html {
				return el("li", nil, text(orElse(d.Label, d.Host)), text(" "), code(string(d.ID)), text(" "), text(d.State), when(d.Reason != "", textf(": %s", d.Reason)))
			}))))),
	})
}

// groups are the devices by their labels, which policy can name, too.
func groups(labels map[string]int, here string, all int) html {
	if len(labels) == 0 {
		return html{}
	}
	entry := func(name, href string, n int, current bool) html {
		a := attrs{"class", "chip", "href", href}
		if current {
			a = append(a, "aria-current", "true")
		}
		return el("li", nil, el("a", a, text(name), span("faint", text(" "+itoa(n)))))
	}
	return el("nav", attrs{"class", "groups", "aria-label", "Groups"}, el("ul", nil, entry("All", "/console/nodes", all, here == ""), each(slices.Sorted(maps.Keys(labels)), func(l string) html {
		return entry(l, "/console/nodes?"+query("label", l), labels[l], here == l)
	})))
}

// newcomer is who joined and waits to be let in: what it is, and what it offers.
func (v *visit) newcomer(d device) html {
	id := "n-" + string(d.ID)
	return el("article", attrs{"class", "card", "id", id, "aria-labelledby", id + "-h"},
		el("h2", attrs{"id", id + "-h"}, text(orElse(d.Label, d.Host))),
		facts(
			fact{"Host", text(d.Host)}, fact{"System", text(strings.TrimSpace(d.Platform + " " + d.Arch))}, fact{"Key", code(d.Fingerprint)}, fact{"Joined", ago(d.JoinedAt)},
			fact{"Offers", text(count(len(d.Offers), "capability", "capabilities"))},
		),
		el("p", class("faint"), text("Compare the key with what the device shows before you approve it.")),
		div("buttons",
			v.control("POST /v1/nodes/{node}/approve", at("nodes", string(d.ID)), attrs{"class", "inline"}, button("main", "Approve device", "name", "do", "value", "approve")),
			v.control("POST /v1/nodes/{node}/deny", at("nodes", string(d.ID)), attrs{"class", "inline"}, button("danger", "Refuse", "name", "do", "value", "deny"))))
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
		el("p", class("faint"), when(d.Platform != "", text(d.Platform+" · ")), text(d.Host), text(" · trust "), text(orElse(d.Trust, "none")), when(d.Owner != "", group(text(" · owner "), text(string(d.Owner)))), when(!d.Connected, group(text(" · last seen "), ago(d.LastSeen)))),
		when(len(d.Labels) > 0, el("p", nil, each(d.Labels, func(l string) html { return span("tag", text(l)) }))),
		when(!d.Connected && len(d.Capabilities) == 0, el("p", class("why"), text("Next, run "), code("handrail node"), text(" on the device."))),
		when(d.CatalogSkew, el("p", class("why"), text("It runs another version than this gateway; some tools may differ."))),
		v.watchLinks(d, ""),
		v.difference(d),
		el("details", attrs{"id", id + "-caps"},
			el("summary", nil, textf("%d of %s ready", ready, count(len(d.Capabilities), "capability", "capabilities"))),
			when(len(d.Capabilities) == 0, el("p", class("faint"), text("It has not said yet what it can do."))),
			el("ul", class("caps"), each(d.Capabilities, func(c view.Capability) html {
				word, mood := "ready", "good"
				if !c.Available {
					word, mood = strings.ReplaceAll(orElse(string(c.Reason), "not ready"), "_", " "), "bad"
				}
				return el("li", nil, code(string(c.Tool)), span("state "+mood, text(word)), when(c.Fix != "", span("faint fix", text(c.Fix))), when(c.Degraded != "", span("faint fix", text(c.Degraded))))
			}))),
		when(v.offers("PATCH /v1/nodes/{node}"), el("details", attrs{"id", id + "-edit"}, el("summary", nil, text("Change")),
			v.control("PATCH /v1/nodes/{node}", at("nodes", string(d.ID)), attrs{"class", "stack"},
				input(id+"-label", "label", "Name", d.Label, "maxlength", "64"),
				input(id+"-labels", "labels", "Labels, separated by spaces; devices with the same one are a group", strings.Join(d.Labels, " ")),
				area(id+"-allow", "allow", "Allowed tools, one a line; * is all", strings.Join(toolNames(d.Allow), "\n"), "rows", "4", "class", "mono"),
				button("main", "Save", "name", "do", "value", "save")),
			v.ownerOf(d))),
		when(v.offers("POST /v1/nodes/{node}/revoke"), el("details", attrs{"id", id + "-revoke"}, el("summary", nil, text("Remove device")),
			el("p", nil, text("Ends its connection and every call on it at once, for good. It has to be paired anew.")),
			v.control("POST /v1/nodes/{node}/revoke", at("nodes", string(d.ID)), attrs{"class", "stack"}, input(id+"-why", "reason", "Reason (optional, recorded)", "", "maxlength", "500"), button("danger", "Remove device", "name", "do", "value", "revoke")))))
}

// difference is what a device offers beside what it may, for who edits the list: more
// than it may, and what the list allows it and it has not.
func (v *visit) difference(d device) html {
	id := "n-" + string(d.ID)
	var idle []string
	for _, a := range d.Allow {
		base, all := strings.CutSuffix(a, "*")
		if len(d.Capabilities) > 0 && !slices.ContainsFunc(d.Capabilities, func(c view.Capability) bool {
			return c.Reason != capabilities.ReasonNotAdvertised && (string(c.Capability) == a || all && strings.HasPrefix(string(c.Capability), base))
		}) {
			idle = append(idle, a)
		}
	}
	if len(d.Wants)+len(idle) == 0 {
		return html{}
	}
	return group(
		when(len(d.Wants) > 0, group(
			el("h3", nil, text("It offers more than it may")),
			v.control("PATCH /v1/nodes/{node}", at("nodes", string(d.ID)), nil, el("fieldset", class("diff"), el("legend", class("hidden"), text("Allow these too")), each(d.Wants, func(w capabilities.CapabilityID) html {
				return el("label", class("check"), void("input", attrs{"type", "checkbox", "name", "want", "value", string(w), "id", id + "-w-" + string(w)}), el("ins", nil, text("+ "+toolName(string(w)))))
			})), button("plain", "Allow what is ticked", "name", "do", "value", "widen")),
			when(!v.offers("PATCH /v1/nodes/{node}"), el("ul", class("diff"), each(d.Wants, func(w capabilities.CapabilityID) html {
				return el("li", nil, el("ins", nil, text("+ "+toolName(string(w)))))
			}))))),
		when(len(idle) > 0, group(
			el("h3", nil, text("It may more than it offers")),
			el("ul", class("diff"), each(idle, func(a string) html { return el("li", nil, el("del", nil, text("− "+toolName(a)))) })))))
}

// pairing makes a paste.
func (v *visit) pairing() html {
	if !v.offers("POST /v1/invites") {
		return html{}
	}
	return div("card",
		el("h2", nil, text("Pair a device")),
		el("p", nil, text("On the device, run "), code("handrail node join"), text(" and enter a pairing code. A code works once, for ten minutes, and is shown once.")),
		v.control("POST /v1/invites", "/console/pair", attrs{"class", "grid"},
			input("pair-label", "label", "Name of the device (default: its own)", "", "maxlength", "64", "placeholder", "such as: kitchen laptop"),
			button("main", "Create pairing code")))
}

func (c *Console) pair(v *visit) {
	var made struct {
		Paste   string    `json:"paste"`
		Expires time.Time `json:"expires_at"`
	}
	if err := v.ask(http.MethodPost, api("invites"), map[string]any{"label": strings.TrimSpace(v.r.PostForm.Get("label"))}, &made); err != nil {
		v.showNodes(err, html{})
		return
	}
	var site struct {
		Fingerprint string `json:"fingerprint"`
	}
	_ = v.get(api("status"), &site) // without it the paste is as good
	v.showNodes(nil, el("section", attrs{"class", "card paste", "data-once", "", "aria-labelledby", "paste-h"},
		el("h2", attrs{"id", "paste-h"}, text("Pairing code")),
		el("p", nil, text("Run "), code("handrail node join"), text(" on the device and enter this code. Good until "), moment(made.Expires), text("; it is not shown again.")),
		shownOnce("paste-code", "Pairing code", made.Paste),
		when(onlyHere(made.Paste), el("p", class("banner"), text("Only the gateway's own machine can use this code: the gateway takes devices on loopback alone. Start it with "), code("--quic :7443"), text(" for others."))),
		when(site.Fingerprint != "", p(text("The code carries this page's certificate, so that clients on that device know it. For a browser there, check that it matches: "), code(site.Fingerprint))),
		el("details", attrs{"id", "paste-qr"}, el("summary", nil, text("As a QR code, for a device with a camera")), qrOf(strings.ToUpper(made.Paste))))) // it packs capitals denser; case does not matter
}

// onlyHere reports whether a pairing code names no address that another machine can reach.
func onlyHere(code string) bool {
	p, err := pairing.ParsePaste(code)
	return err == nil && p.OnlyHere()
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
	return el("svg", attrs{"class", "qr", "viewBox", "0 0 " + side + " " + side, "role", "img", "aria-label", "The pairing code as a QR code", "shape-rendering", "crispEdges"},
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
		err = v.ask(http.MethodPost, api("nodes", id, form.Get("do")), map[string]any{"reason": form.Get("reason")}, nil)
	case "widen":
		var d device
		if err = v.get(api("nodes", id), &d); err == nil {
			allow := d.Allow
			for _, w := range d.Wants { // of what it wants now, and no more than was looked at
				if slices.Contains(form["want"], string(w)) {
					allow = append(allow, string(w))
				}
			}
			err = v.ask(http.MethodPatch, api("nodes", id), map[string]any{"allow": slices.Compact(slices.Sorted(slices.Values(allow)))}, nil)
		}
	case "save":
		err = v.ask(http.MethodPatch, api("nodes", id), map[string]any{
			"label": form.Get("label"), "labels": fields(form.Get("labels")), "allow": allowList(form.Get("allow")),
		}, nil)
	case "owner":
		err = v.ask(http.MethodPatch, api("nodes", id), map[string]any{"owner": form.Get("owner")}, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showNodes(err, html{})
		return
	}
	if form.Get("do") == "approve" {
		v.seeOther("/console/nodes", "approved")
		return
	}
	v.seeOther("/console/nodes", "changed")
}

// People read and write the names of tools everywhere; an allowlist holds the capabilities that
// stand behind them (S0-01).
const (
	toolPrefix       = "tool."
	capabilityPrefix = "tyrum."
)

// toolName is the tool, or the pattern of tools, that an entry of an allowlist permits.
func toolName(entry string) string {
	if rest, ok := strings.CutPrefix(entry, capabilityPrefix); ok {
		return toolPrefix + rest
	}
	return entry
}

func toolNames(entries []string) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = toolName(e)
	}
	return names
}

// allowList is what a person typed, as an allowlist holds it.
func allowList(typed string) []string {
	entries := fields(typed)
	for i, e := range entries {
		if rest, ok := strings.CutPrefix(e, toolPrefix); ok {
			entries[i] = capabilityPrefix + rest
		}
	}
	return entries
}

// fields splits what a person typed; never nil, which would mean no change.
func fields(s string) []string { return append([]string{}, strings.Fields(s)...) }
