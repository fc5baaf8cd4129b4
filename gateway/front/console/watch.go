package console

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// source is one of what a device can show live.
type source struct {
	name, link, of, none string
	capability           capabilities.CapabilityID
}

// sources are all there are; a page shows the first unless it is asked for another.
var sources = []source{
	{"screen", "View screen", "The screen of ", "This device does not offer its screen.", "tyrum.live.screen"},
	{"camera", "View camera", "The camera of ", "This device does not offer a camera.", "tyrum.live.camera"},
	{"microphone", "Listen to microphone", "The microphone of ", "This device does not offer a microphone.", "tyrum.live.microphone"},
}

const watchRoute = "POST /v1/live/{node}/{source}/whep"

// watchPage shows one device's screen or camera, or has its microphone heard, live. The
// picture is no part of what the page keeps true by asking for itself again: its module
// does that.
func (c *Console) watchPage(v *visit) { v.showWatch(capabilities.NodeID(v.r.PathValue("node")), nil) }

func (v *visit) showWatch(node capabilities.NodeID, problem error) {
	var d device
	if err := v.get(api("nodes", string(node)), &d); err != nil {
		v.show(page{title: "Live", here: "/console/nodes", fault: err})
		return
	}
	v.watched = d.ID
	name := orElse(d.Label, d.Host)
	pg := page{title: "Live: " + name, here: "/console/nodes", live: "node approval", fault: problem, remedy: v.byPasskey(problem), modules: []string{"passkey"}, body: v.waitingOn(d.ID)}
	one := sources[0]
	for _, other := range sources {
		if v.r.URL.Query().Get("source") == other.name {
			one = other
		}
	}
	screen := one.name == "screen"
	ready, why := d.can(one.capability, one.none)
	switch {
	case !v.offers(watchRoute):
		pg.body = empty("You may not watch", text("It needs the role operator."))
	case !ready:
		pg.body = el("div", attrs{"data-gone", d.absence()}, empty("Nothing to watch", text(why)))
	default:
		pg.modules = append(pg.modules, "watch")
		takes := html{}
		if ready, _ := d.offersHands(); screen && ready && v.offers("POST /v1/control/{node}") {
			pg.modules = append(pg.modules, "takeover")
			takes = group(
				el("button", attrs{"id", "take", "class", "plain", "type", "button", "data-does", "POST /v1/control/{node}"}, text("Take over")),
				el("button", attrs{"id", "pause", "class", "plain", "type", "button", "data-does", "POST /v1/control/{node}"}, text("Pause agents")))
		}
		recorder, does, player := html{}, "Listen", el("audio", attrs{"id", "screen", "controls", "", "aria-label", one.of + name})
		if screen {
			recorder = v.recorder(d, &pg)
		}
		if one.name != "microphone" {
			does, player = "Watch", el("div", attrs{"id", "surface", "class", "frame"},
				div("picture", el("video", attrs{"id", "screen", "muted", "", "playsinline", "", "autoplay", "", "tabindex", "-1"}),
					el("div", attrs{"id", "marks", "aria-hidden", "true"})),
				el("div", attrs{"id", "gone", "class", "gone none", "role", "status"}),
				el("div", attrs{"id", "call", "class", "call none"}))
		}
		full := html{}
		if one.name != "microphone" {
			full = el("button", attrs{"id", "full", "class", "plain", "type", "button"}, text("Full screen"))
		}
		pg.stage = el("section", attrs{"id", "stage", "class", "stage", "data-node", string(d.ID), "data-source", one.name, "aria-label", one.of + name},
			div("buttons bar", el("button", attrs{"id", "watch", "class", "main", "type", "button", "data-does", watchRoute}, text(does)), takes, full,
				el("p", attrs{"id", "watch-state", "role", "status"}),
				el("p", attrs{"id", "take-state", "role", "status"})),
			player,
			el("p", class("faint"), text("The person at the device sees that you are watching and can end it.")),
			recorder,
			el("dl", class("facts"),
				el("div", nil, el("dt", nil, text("Delay")), el("dd", attrs{"id", "delay"}, text("–"))),
				el("div", nil, el("dt", nil, text("Network")), el("dd", attrs{"id", "network"}, text("–"))),
				el("div", nil, el("dt", nil, text("Watching")), el("dd", attrs{"id", "watching"}, text("–"))),
				when(screen, group(
					el("div", nil, el("dt", nil, text("In control")), el("dd", attrs{"id", "taken"}, text("–"))),
					el("div", nil, el("dt", nil, text("Latest call")), el("dd", attrs{"id", "latest"}, text("–")))))),
			v.watchLinks(d, one.name))
	}
	v.show(pg)
}

// absence says why a device cannot be watched, as it is written over the last picture.
func (d device) absence() string {
	switch {
	case d.Stopped:
		return "Stopped at the device"
	case !d.Connected:
		return "The device is away"
	}
	return "Not available now"
}

// watchLinks leads to what the device can show live, but for one; nothing for who may
// not watch.
func (v *visit) watchLinks(d device, but string) html {
	if !d.Connected || !v.offers(watchRoute) {
		return html{}
	}
	out := html{}
	for _, s := range sources {
		if ready, _ := d.can(s.capability, ""); ready && s.name != but {
			way := at("live", string(d.ID))
			if s.name != "screen" {
				way += "?source=" + s.name
			}
			out = group(out, el("p", nil, link(way, text(s.link))))
		}
	}
	return out
}

// offersHands reports whether the device's mouse and keyboard can be had from afar.
func (d device) offersHands() (ready bool, why string) {
	return d.can("tyrum.live.control", "This device cannot be taken over.")
}

func (d device) can(id capabilities.CapabilityID, otherwise string) (ready bool, why string) {
	for _, c := range d.Capabilities {
		if c.Capability == id {
			return c.Available, orElse(c.Fix, "The device says: "+string(c.Reason)+".")
		}
	}
	return false, otherwise
}

// recorder has a lane that works on the device recorded; nothing where that cannot be.
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
