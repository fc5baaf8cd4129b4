package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// told is what the packets of one call say together.
type told struct {
	request, decision, dispatch, end *ledger.Packet

	req packet.Request
	dec packet.Decision
	env *policy.Summary // of dec's envelope; nil if there is none
	dis packet.Dispatch
	fin packet.End
}

func retold(packets []ledger.Packet) told {
	var t told
	for i := range packets {
		k := &packets[i]
		switch { // what is missing in a body stays empty
		case k.Kind == ledger.KindCallRequest:
			t.request = k
			_ = json.Unmarshal(k.Body, &t.req)
		case k.Kind == ledger.KindCallDecision: // of several the last counts
			t.decision, t.dec = k, packet.Decision{}
			_ = json.Unmarshal(k.Body, &t.dec)
			t.env = t.dec.Summary()
		case k.Kind == ledger.KindCallDispatch:
			t.dispatch = k
			_ = json.Unmarshal(k.Body, &t.dis)
		case k.Kind.Terminal() || k.Kind == ledger.KindCallPending:
			t.end, t.fin = k, packet.End{}
			_ = json.Unmarshal(k.Body, &t.fin)
		}
	}
	return t
}

// device is the node it was for, by the name it had then; empty if it needs none.
func (t told) device() string {
	if t.dec.Routing == nil {
		return ""
	}
	if n := t.dec.Routing.Node; n != nil && n.Label != "" {
		return n.Label
	}
	return string(t.dec.Routing.Selected)
}

// ended is how it ended: who ended it on purpose, else its status; empty if it did not.
func (t told) ended() string {
	if by := endedBy(string(t.fin.EndedBy), t.req.Surface); by != "" {
		return "ended " + by
	}
	return string(t.fin.Status)
}

// callPage is one call as its hops, each with what the ledger holds of it.
func (c *Console) callPage(v *visit) { v.showCall(nil) }

func (v *visit) showCall(problem error) {
	id := v.r.PathValue("call")
	var list struct {
		Packets []ledger.Packet `json:"packets"`
	}
	err := v.get(api("ledger", "packets")+"?"+url.Values{"call": {id}, "limit": {"100"}}.Encode(), &list)
	if err != nil || len(list.Packets) == 0 {
		pg := page{title: "A call", here: "/console/calls", live: "call", fault: err}
		if err == nil {
			pg.status, pg.body = http.StatusNotFound, empty("The ledger knows no such call", link("/console/calls", text("All calls")))
		}
		v.show(pg)
		return
	}
	t := retold(list.Packets)
	first := &list.Packets[0]
	v.show(page{title: string(first.Tool), here: "/console/calls", live: "call", fault: problem,
		lead: group(text("By "), text(string(first.Principal)), text(" in lane "), code(string(first.Lane)), when(t.device() != "", text(" on "+t.device())), text(", "), moment(first.Time()), text(".")),
		body: group(t.under(), v.running(t, first), t.verdict(), v.delivered(t, first), t.signals(first.Call), t.hops(), v.stepsOf(first.Call), t.frame(), t.envelope(first.Call), packetsOf(list.Packets))})
}

// verdict says first how a call ended, why, and what is known of its effect.
func (t told) verdict() html {
	if t.end == nil {
		return html{}
	}
	kind, says := "no", map[capabilities.Status]string{
		capabilities.StatusOK: "Done", capabilities.StatusDenied: "Denied", capabilities.StatusPending: "Waits for a person", capabilities.StatusError: "Failed",
	}[t.fin.Status]
	switch {
	case t.fin.EndedBy != "":
		kind, says = "", sentence(t.ended())
	case t.fin.Status == capabilities.StatusOK:
		kind = "good"
	case t.fin.Status == capabilities.StatusPending:
		kind = ""
	}
	return div("card", el("h2", nil, span("state "+kind, text(orElse(strings.TrimSuffix(says, "."), string(t.end.Kind))))),
		facts(fact{"Why", when(t.fin.Code != "", code(string(t.fin.Code)))}, fact{"Took", when(t.fin.DurationMS > 0, text(took(t.fin.DurationMS)))}, fact{"Effect", when(t.fin.Effect != "", text(string(t.fin.Effect)))}))
}

// walls says what an isolation class keeps in.
var walls = map[string]string{
	"t0": "t0: only its input, no files, no network", "t1": "t1: some files, no network", "t2": "t2: a network, by one way that is watched", "t3": "t3: what the grant lists",
	"session": "session: works in the person's own session", "": "",
}

// running says that a call runs, and ends it for whoever waits.
func (v *visit) running(t told, first *ledger.Packet) html {
	if t.dispatch == nil || t.end != nil {
		return html{}
	}
	long := t.env != nil && front.Surface(nil, t.env.Grants).LongRun
	return div("card switch", el("h2", nil, text("It runs")),
		el("p", nil, text("Since "), ago(t.dispatch.Time()), when(t.dis.DeadlineMS > 0, text("; its deadline is "+took(float64(t.dis.DeadlineMS))))),
		when(long, el("p", class("why"), text("It was granted more time than tools usually get (execution.timeout.extended)."))),
		v.control("DELETE /v1/calls/{call}", at("calls", string(first.Call)), attrs{"class", "stack"},
			input("reason", "reason", "Reason; the agent is told", "", "maxlength", "500"), button("danger", "End this call")))
}

// delivered lets somebody who looked at the device say that nothing of a secret which this
// call delivered is to be seen any more.
func (v *visit) delivered(t told, first *ledger.Packet) html {
	if t.fin.Status != capabilities.StatusOK || t.env == nil || !front.Surface(nil, t.env.Grants).Banner {
		return html{}
	}
	return v.control("POST /v1/lanes/{lane}/secrets-done", at("calls", string(first.Call)), attrs{"class", "card stack", "aria-labelledby", "done-h"},
		el("h2", attrs{"id", "done-h"}, text("Where the secret was pasted")),
		p(text("There "), code(string(first.Principal)), text(" gets no pictures and runs no scripts until the page or window is closed or left. Look at the device first: if nothing of the value is to be seen, it may look again. Texts stay without the value until the lane ends.")),
		hiddenField("do", "secrets-done"), hiddenField("lane", string(first.Lane)), button("plain", "Let it look again"))
}

// moodOf is a state of S1-32 in its word and a shape of its own.
func moodOf(m front.Mood) html {
	mark := map[front.Mood]string{front.MoodSafe: "○", front.MoodConnected: "◐", front.MoodElevated: "▲", front.MoodRestricted: "◇"}[m]
	name := map[front.Mood]string{front.MoodSafe: "Safe", front.MoodConnected: "Connected", front.MoodElevated: "Elevated", front.MoodRestricted: "Restricted"}[m]
	return group(el("span", attrs{"aria-hidden", "true"}, text(mark+" ")), text(name))
}

// signals are the warnings that follow from what was granted.
func (t told) signals(id capabilities.CallID) html {
	e := t.env
	if e == nil {
		return html{}
	}
	s := front.Surface(e.Capabilities.Keys(), e.Grants)
	return div("card mood "+known(string(s.Mood), "safe", "connected", "elevated", "restricted"),
		el("h2", nil, moodOf(s.Mood)),
		el("p", class("faint"), text(map[front.Mood]string{
			front.MoodSafe: "It reaches no network and has nothing privileged.", front.MoodConnected: "It reaches a network.",
			front.MoodElevated: "It can control what belongs to a person: mouse and keyboard, secrets or settings.", front.MoodRestricted: "Policy gave it less than the tool declares.",
		}[s.Mood])),
		when(s.Mood == front.MoodSafe && e.Risk != policy.RiskLow, el("p", class("faint"), text("Its risk lies in what it reads or changes on the device itself."))),
		when(s.Outbound, el("p", nil, span("tag", text("↗ reaches out")), when(len(s.Destinations) == 0, span("faint", text("as far as the device lets it"))), joined(s.Destinations))),
		when(s.Banner, el("p", class("banner"), text("It gets a secret delivered."))),
		when(s.Confirm, el("p", class("banner"), text("It may destroy something."))),
		facts(fact{"Risk", risk(string(e.Risk))}, fact{"Granted", keysOf(id, e.Grants)}, fact{"Not granted", joined(s.Missing)}))
}

// frame says where a call acted, and that no picture of it is kept: what a screen
// showed is payload, which the ledger never holds.
func (t told) frame() html {
	at := func(name string) string {
		if n, ok := t.req.Evidence[name].(float64); ok {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
		return ""
	}
	id, _ := t.req.Evidence["frame_id"].(string)
	if id == "" {
		id, _ = t.req.Evidence["region_frame_id"].(string)
	}
	x, y := at("x"), at("y")
	images := 0
	for _, b := range t.fin.Blobs {
		if strings.HasPrefix(b.MIME, "image/") {
			images++
		}
	}
	if id == "" && x == "" && images == 0 {
		return html{}
	}
	where := html{}
	if x != "" && y != "" {
		where = text(x + ", " + y)
	}
	return group(el("h2", class("part"), text("What it saw")), div("card",
		facts(fact{"Image", when(id != "", code(id))}, fact{"Point in it", where}, fact{"Images it gave", when(images > 0, text(itoa(images)))}),
		el("p", class("faint"), text("The picture is not here. What a screen showed belongs to the person before it: the agent got it, and the gateway keeps a digest, with which a picture that somebody still has can be proved to be this one."))))
}

// envelope is what the decision stood on, whole.
func (t told) envelope(id capabilities.CallID) html {
	if t.env == nil {
		return html{}
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, t.dec.Envelope, "", "  ") != nil {
		return html{}
	}
	isolation := string(t.env.Isolation)
	return group(el("h2", class("part"), text("Envelope and decision")), div("card",
		facts(fact{"Decision", text(t.dec.Effect.String())}, fact{"Rules", joined(t.dec.Policies)}, fact{"Policy", when(t.dec.Snapshot != "", code(t.dec.Snapshot))}, fact{"Envelope", code(t.dec.EnvelopeHash)},
			fact{"Isolation", text(orElse(walls[isolation], isolation))}, fact{"Withheld", joined(t.dec.Withheld)}),
		el("details", attrs{"id", "envelope"}, el("summary", nil, text("The envelope as it was")), el("pre", attrs{"tabindex", "0", "aria-label", "The envelope"}, el("code", nil, lines(pretty.String()))))))
}

// hop is one of the twelve.
type hop struct {
	name, says string
	at         time.Time
	detail     html
	reached    bool
}

// hops tells where a call came through. A call that was not reached says so: a refusal ends the
// list's truth, not the list.
func (t told) hops() html {
	timeOf := func(k *ledger.Packet) time.Time {
		if k == nil {
			return time.Time{}
		}
		return k.Time()
	}
	decided := ""
	if t.decision != nil {
		decided = t.dec.Effect.String()
	}
	ran := t.dispatch != nil
	node := t.dec.Routing != nil && t.dec.Routing.Selected != ""
	all := []hop{
		{"Asked", "through " + orElse(t.req.Surface, "a surface"), timeOf(t.request), html{}, t.request != nil},
		{"Arguments", "checked against the tool's schema", timeOf(t.request), argumentsOf(t.req.Evidence), t.req.Digest != ""},
		{"Node", "", time.Time{}, html{}, node},
		{"Policy", decided, timeOf(t.decision), facts(fact{"Rules", joined(t.dec.Policies)}, fact{"Policy", code(t.dec.Snapshot)}, fact{"Code", text(string(t.dec.Code))}), t.decision != nil},
		{"Repeated", "no: a repeated call returns the first result", time.Time{}, html{}, t.decision != nil},
		{"Person", orElse(iff(t.dec.Grant != "", "allowed by a grant"), "nobody had to be asked"), time.Time{}, when(t.dec.Grant != "", p(code(t.dec.Grant))), ran || t.dec.Grant != ""},
		{"Written down", "request, decision and intent in one commit", timeOf(t.dispatch), html{}, ran},
		{"Sent", "to the " + orElse(t.dis.Target, "node"), timeOf(t.dispatch), facts(fact{"Deadline", text(took(float64(t.dis.DeadlineMS)))}), ran},
		{"The device's word", "the device checked it anew", time.Time{}, html{}, ran && t.dis.Target == "node"},
		{"Ran", "isolation " + orElse(string(t.dis.Given), "unknown"), time.Time{}, html{}, ran},
		{"Recorded", orElse(t.ended(), "not yet"), timeOf(t.end), facts(fact{"Took", text(took(t.fin.DurationMS))}, fact{"Code", text(string(t.fin.Code))}, fact{"Effect", text(string(t.fin.Effect))}), t.end != nil},
		{"Answered", orElse(t.ended(), "not yet"), timeOf(t.end), html{}, t.end != nil},
	}
	if ran && t.dis.Target == "node" && t.fin.Status != capabilities.StatusOK { // whether it ran then is in the device's journal
		all[8].says, all[9].says = "the ledger does not say; the device's journal does", "the ledger does not say; the device's journal does"
	}
	if t.dec.Code == capabilities.CodeApprovalPending {
		all[5].says, all[5].reached = "a person has to answer", true
	}
	if r := t.dec.Routing; r != nil {
		all[2].says = t.device()
		all[2].detail = facts(fact{"Chosen", text(string(r.Mode))}, fact{"Node", code(string(r.Selected))})
	} else if t.dispatch != nil {
		all[2] = hop{name: "Node", says: "none is needed", reached: true}
	}
	n, began := 0, all[0].at
	return group(el("h2", class("part"), text("Hop by hop")), el("ol", class("hops"), each(all, func(h hop) html {
		n++
		if !h.reached {
			return el("li", class("unreached"), div("hop", el("strong", nil, text(h.name)), span("faint", text(" not reached"))))
		}
		return el("li", nil, div("hop", el("strong", nil, text(h.name)), text(" "), text(h.says), when(!h.at.IsZero(), span("faint when", after(began, h.at, n > 1)))), h.detail)
	})))
}

// after is when a hop was: the first by the clock, the others by how long after it.
func after(began, at time.Time, later bool) html {
	if !later || began.IsZero() {
		return moment(at)
	}
	ms := float64(at.Sub(began).Microseconds()) / 1000
	if ms < 10 {
		return text("+" + strconv.FormatFloat(max(ms, 0), 'f', 1, 64) + " ms")
	}
	return text("+" + took(ms))
}

// packetsOf shows what the ledger holds, as it is.
func packetsOf(list []ledger.Packet) html {
	return group(el("h2", class("part"), text("Packets")), each(list, func(k ledger.Packet) html {
		seq := strconv.FormatUint(k.Seq, 10)
		return el("details", attrs{"id", "p-" + seq}, el("summary", nil, text(seq+" "), code(string(k.Kind)), text(" "), moment(k.Time())), bodyOf(&k))
	}))
}
