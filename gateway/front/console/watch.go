package console

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// watchPage shows one device's screen, live. The picture is no part of what the page
// keeps true by asking for itself again: its module does that.
func (c *Console) watchPage(v *visit) {
	var d device
	if err := v.get(api("nodes", v.r.PathValue("node")), &d); err != nil {
		v.show(page{title: "Live", here: "/console/nodes", fault: err})
		return
	}
	name := orElse(d.Label, d.Host)
	pg := page{title: "Live: " + name, here: "/console/nodes", live: "node",
		lead: text("The person there sees that you watch, and can end it. So can Stop.")}
	ready, why := d.shows()
	switch {
	case !v.offers("POST /v1/live/{node}/{source}/whep"):
		pg.body = empty("You may not watch", text("It needs the role operator."))
	case !ready:
		pg.body = empty("Nothing to watch", text(why))
	default:
		pg.modules = []string{"watch"}
		takes := html{}
		if ready, _ := d.offersHands(); ready && v.offers("POST /v1/control/{node}") {
			pg.modules = append(pg.modules, "takeover")
			takes = group(
				el("button", attrs{"id", "take", "class", "plain", "type", "button", "data-does", "POST /v1/control/{node}"}, text("Take over")),
				el("button", attrs{"id", "pause", "class", "plain", "type", "button", "data-does", "POST /v1/control/{node}"}, text("Pause agents")))
		}
		pg.stage = el("section", attrs{"id", "stage", "class", "stage", "data-node", string(d.ID), "aria-label", "The screen of " + name},
			div("buttons", el("button", attrs{"id", "watch", "class", "main", "type", "button"}, text("Watch")), takes,
				v.control("POST /v1/stop", "/console/stop", attrs{"class", "inline", "data-whole", ""}, button("danger", "Stop everything now"))),
			el("p", attrs{"id", "watch-state", "role", "status"}),
			el("p", attrs{"id", "take-state", "role", "status"}),
			v.recorder(d, &pg),
			el("div", attrs{"id", "surface", "class", "frame"},
				el("video", attrs{"id", "screen", "muted", "", "playsinline", "", "autoplay", "", "tabindex", "-1"}),
				el("div", attrs{"id", "call", "class", "call none"})),
			el("dl", class("facts"),
				el("div", nil, el("dt", nil, text("Delay")), el("dd", attrs{"id", "delay"}, text("–"))),
				el("div", nil, el("dt", nil, text("Network")), el("dd", attrs{"id", "network"}, text("–"))),
				el("div", nil, el("dt", nil, text("Watching")), el("dd", attrs{"id", "watching"}, text("–"))),
				el("div", nil, el("dt", nil, text("In control")), el("dd", attrs{"id", "taken"}, text("–"))),
				el("div", nil, el("dt", nil, text("Latest call")), el("dd", attrs{"id", "latest"}, text("–")))))
	}
	v.show(pg)
}

// shows reports whether the device can show its screen, or why it can not.
func (d device) shows() (ready bool, why string) {
	return d.can("tyrum.live.screen", "This device does not offer its screen.")
}

// offersHands reports the same of its mouse and keyboard, to somebody from afar.
func (d device) offersHands() (ready bool, why string) {
	return d.can("tyrum.live.control", "This device can not be taken over.")
}

func (d device) can(id capabilities.CapabilityID, otherwise string) (ready bool, why string) {
	for _, c := range d.Capabilities {
		if c.Capability == id {
			return c.Available, orElse(c.Fix, "The device says: "+string(c.Reason)+".")
		}
	}
	return false, otherwise
}

// recorder has a lane that works on the device recorded; nothing where that can not be.
func (v *visit) recorder(d device, pg *page) html {
	ready, _ := d.can("tyrum.live.record", "")
	if !ready || !v.offers("POST /v1/recordings") {
		return html{}
	}
	var all struct {
		Lanes []struct {
			Lane  string                `json:"lane"`
			Nodes []capabilities.NodeID `json:"nodes"`
		} `json:"lanes"`
	}
	if err := v.get(api("lanes"), &all); err != nil {
		return html{}
	}
	// Those that are attached here come first; a lane may work here without that.
	var here, others []string
	for _, l := range all.Lanes {
		switch {
		case slices.Contains(l.Nodes, d.ID):
			here = append(here, l.Lane, l.Lane)
		case !strings.HasPrefix(l.Lane, "live-"): // people's hands
			others = append(others, l.Lane, l.Lane)
		}
	}
	if here = append(here, others...); len(here) == 0 {
		return html{}
	}
	pg.modules = append(pg.modules, "record")
	return div("buttons",
		choice("lane", "lane", "Lane", "", here...),
		el("button", attrs{"id", "record", "class", "plain", "type", "button", "data-does", "POST /v1/recordings"}, text("Record")),
		el("span", attrs{"id", "record-state", "role", "status"}))
}

// whep is WHEP under the session.
func (c *Console) whep(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Relay(v.w, v.r, v.r.Method, "/v1"+strings.TrimPrefix(v.r.URL.EscapedPath(), "/console"))
}

// control is taking over under the session.
func (c *Console) control(v *visit) { c.whep(v) }

func (c *Console) watching(v *visit) {
	guardHeaders(v.w)
	c.opts.API.Pass(v.w, v.r, api("live", v.r.PathValue("node")))
}

func watchable(d device) bool {
	ready, _ := d.shows()
	return ready
}
