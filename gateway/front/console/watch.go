package console

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// source is one of what a device can show live.
type source struct {
	Name, link, Of, none string
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
	if err := v.get(v1("nodes", string(node)), &d); err != nil {
		v.show(page{name: "problem", title: "Live", here: "/console/nodes", fault: err})
		return
	}
	v.watched = d.ID
	shown := livePage{deviceCard: deviceCard{v, d}, Source: sources[0]}
	for _, other := range sources {
		if v.r.URL.Query().Get("source") == other.Name {
			shown.Source = other
		}
	}
	shown.Screen, shown.Picture = shown.Source.Name == "screen", shown.Source.Name != "microphone"
	pg := page{
		name: "live", title: "Live: " + d.Called(), here: "/console/nodes", live: "node approval", fault: problem, remedy: v.byPasskey(problem),
		modules: []string{"passkey"},
	}
	ready, why := d.can(shown.Source.capability, shown.Source.none)
	switch {
	case !v.Offers(watchRoute): // the page says so
	case !ready:
		shown.Gone, shown.WhyNot = d.absence(), why
	default:
		pg.modules = append(pg.modules, "watch")
		shown.Ready, shown.Tasks, shown.Others = true, v.waitingOn(d.ID), v.watchLinks(d, shown.Source.Name)
		if hands, _ := d.offersHands(); shown.Screen && hands && v.Offers("POST /v1/control/{node}") {
			pg.modules = append(pg.modules, "takeover")
			shown.Hands = true
		}
		if shown.Screen {
			shown.Lanes = v.recordable(d)
		}
		if shown.Lanes != nil {
			pg.modules = append(pg.modules, "record")
		}
	}
	pg.data = shown
	v.show(pg)
}

// livePage is one source of a device.
type livePage struct {
	deviceCard
	Source          source
	Ready           bool
	Screen, Picture bool    // it is the screen; it is something to be seen
	Hands           bool    // mouse and keyboard can be had
	Lanes           *choice // that can be recorded; nil if none can
	Others          []liveLink
	Tasks           []task // that wait for a person about the device
	Gone, WhyNot    string // why there is nothing to watch, in the picture and below; empty if the visitor may not
}

// liveLink leads to something that a device shows live.
type liveLink struct{ Href, Text string }

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
func (v *visit) watchLinks(d device, but string) []liveLink {
	if !d.Connected || !v.Offers(watchRoute) {
		return nil
	}
	var all []liveLink
	for _, s := range sources {
		if ready, _ := d.can(s.capability, ""); ready && s.Name != but {
			way := at("live", string(d.ID))
			if s.Name != "screen" {
				way += "?source=" + s.Name
			}
			all = append(all, liveLink{way, s.link})
		}
	}
	return all
}

// offersHands reports whether the device's mouse and keyboard can be had from afar.
func (d device) offersHands() (ready bool, why string) {
	return d.can("tyrum.live.control", "This device cannot be taken over.")
}

func (d device) can(id capabilities.CapabilityID, otherwise string) (ready bool, why string) {
	for _, c := range d.Capabilities {
		if c.Capability == id {
			fix, then := c.Action.Unworded(c.Fix)
			return c.Available, orElse(strings.TrimSpace(fix+" "+wayOf(then).text()), "The device says: "+string(c.Reason)+".")
		}
	}
	return false, otherwise
}

// recordable are the lanes that work on the device and can be recorded; nil where that cannot
// be.
func (v *visit) recordable(d device) *choice {
	ready, _ := d.can("tyrum.live.record", "")
	if !ready || !v.Offers("POST /v1/recordings") {
		return nil
	}
	var all api.LaneList
	if err := v.get(v1("lanes"), &all); err != nil {
		return nil
	}
	// Those that are attached here come first; a lane may work here without that.
	var here, others []string
	for _, l := range all.Lanes {
		switch name := string(l.Lane); {
		case slices.Contains(l.Nodes, d.ID):
			here = append(here, name, name)
		case !strings.HasPrefix(name, "live-"): // people's hands
			others = append(others, name, name)
		}
	}
	if here = append(here, others...); len(here) == 0 {
		return nil
	}
	c := choose("lane", "lane", "Lane", "", here...)
	return &c
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
	c.opts.API.Pass(v.w, v.r, v1("live", v.r.PathValue("node")))
}
