package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// callsPage lists calls, newest first, narrowed by what the address says.
func (c *Console) callsPage(v *visit) {
	in := v.r.URL.Query()
	q := url.Values{"limit": {"50"}}
	filtered := false
	for _, name := range []string{"lane", "tool", "principal", "before"} {
		if s := in.Get(name); s != "" {
			q.Set(name, s)
			filtered = filtered || name != "before"
		}
	}
	var list struct {
		Calls  []call `json:"calls"`
		Before uint64 `json:"before"`
	}
	err := v.get(api("calls")+"?"+q.Encode(), &list)
	field := func(name, label string) html {
		return el("div", nil, el("label", attrs{"for", "f-" + name}, text(label)), void("input", attrs{"id", "f-" + name, "name", name, "value", in.Get(name), "maxlength", "128", "spellcheck", "false", "autocapitalize", "none"}))
	}
	body := group(
		el("form", attrs{"class", "filter", "method", "get", "action", "/console/calls", "role", "search", "aria-label", "Narrow the list"},
			field("principal", "Who"), field("tool", "Tool"), field("lane", "Lane"), button("plain", "Show")),
		when(len(list.Calls) == 0 && err == nil && filtered, empty("No such call lately", group(link("/console/calls", text("Show all calls")), text(".")))),
		when(len(list.Calls) == 0 && err == nil && !filtered, empty("No calls yet", text("Connect an agent: handrail up prints how. Each call appears here as it happens."))),
		when(len(list.Calls) > 0, div("scroll", el("table", nil,
			el("caption", class("hidden"), text("Calls, newest first")),
			el("thead", nil, el("tr", nil, each([]string{"State", "Tool", "Who", "Lane", "Took", "When"}, func(h string) html { return el("th", attrs{"scope", "col"}, text(h)) }))),
			el("tbody", nil, each(list.Calls, func(c call) html {
				return el("tr", nil,
					el("td", nil, span("state "+c.mood(), text(c.word())), when(c.Code != "", el("div", class("faint small"), text(string(c.Code))))),
					el("td", nil, link(at("calls", string(c.Call)), text(string(c.Tool)))),
					el("td", nil, text(string(c.Principal))), el("td", nil, text(string(c.Lane))),
					el("td", class("number"), text(took(c.Duration))), el("td", nil, ago(c.Started)))
			}))))),
		when(list.Before > 0, older(in, list.Before)))
	v.show(page{title: "Calls", here: "/console/calls", live: "call", fault: err, lead: text("What agents did and tried, newest first, as it happens."), body: body})
}

func older(in url.Values, before uint64) html {
	q := url.Values{"before": {strconv.FormatUint(before, 10)}}
	for _, name := range []string{"lane", "tool", "principal"} {
		if s := in.Get(name); s != "" {
			q.Set(name, s)
		}
	}
	return p(link("/console/calls?"+q.Encode(), text("Older calls")))
}

// took is a duration as the list shows it.
func took(ms float64) string {
	switch {
	case ms <= 0:
		return ""
	case ms < 1000:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
}

// told is what the packets of one call say together.
type told struct {
	request, decision, dispatch, end *ledger.Packet
	req                              struct {
		Surface  string         `json:"surface"`
		Digest   string         `json:"args_digest"`
		Evidence map[string]any `json:"evidence"`
	}
	dec struct {
		Effect   string   `json:"effect"`
		Code     string   `json:"code"`
		Policies []string `json:"policies"`
		Snapshot string   `json:"policy_snapshot_id"`
		Grant    string   `json:"grant"`
		Hash     string   `json:"envelope_hash"`
		Withheld []string `json:"withheld_keys"`
		Envelope *struct {
			Risk         string              `json:"risk_level"`
			Isolation    string              `json:"isolation_class"`
			Grants       []string            `json:"effective_grants"`
			Capabilities map[string][]string `json:"capabilities"`
		} `json:"envelope"`
		Routing *struct {
			Requested string `json:"requested_node_id"`
			Selected  string `json:"selected_node_id"`
			Mode      string `json:"selection_mode"`
			Node      struct {
				Label string `json:"label"`
			} `json:"selected_node"`
		} `json:"routing"`
	}
	dis struct {
		Target   string `json:"target"`
		Given    string `json:"isolation_given"`
		Deadline int64  `json:"deadline_ms"`
	}
	fin struct {
		Status   string  `json:"status"`
		Code     string  `json:"code"`
		Effect   string  `json:"effect"`
		Digest   string  `json:"output_digest"`
		Duration float64 `json:"duration_ms"`
		Observed []struct {
			Key   string `json:"key"`
			Count uint32 `json:"count"`
		} `json:"observed"`
	}
}

func retold(packets []ledger.Packet) told {
	var t told
	for i := range packets {
		k := &packets[i]
		switch {
		case k.Kind == ledger.KindCallRequest:
			t.request = k
			_ = json.Unmarshal(k.Body, &t.req) // what is missing stays empty
		case k.Kind == ledger.KindCallDecision:
			t.decision = k
			_ = json.Unmarshal(k.Body, &t.dec)
		case k.Kind == ledger.KindCallDispatch:
			t.dispatch = k
			_ = json.Unmarshal(k.Body, &t.dis)
		case k.Kind.Terminal() || k.Kind == ledger.KindCallPending:
			t.end = k
			_ = json.Unmarshal(k.Body, &t.fin)
		}
	}
	return t
}

// callPage is one call as its hops, each with what the ledger holds of it.
func (c *Console) callPage(v *visit) {
	id := v.r.PathValue("call")
	var list struct {
		Packets []ledger.Packet `json:"packets"`
	}
	err := v.get(api("ledger", "packets")+"?"+url.Values{"call": {id}, "limit": {"100"}}.Encode(), &list)
	if err != nil || len(list.Packets) == 0 {
		pg := page{title: "A call", here: "/console/calls", fault: err}
		if err == nil {
			pg.status, pg.body = http.StatusNotFound, empty("The ledger knows no such call", link("/console/calls", text("All calls")))
		}
		v.show(pg)
		return
	}
	t := retold(list.Packets)
	first := &list.Packets[0]
	v.show(page{title: string(first.Tool), here: "/console/calls", live: "call",
		lead: group(text("By "), text(string(first.Principal)), text(" in lane "), code(string(first.Lane)), text(", "), moment(first.Time()), text(".")),
		body: group(t.signals(), t.hops(), packetsOf(list.Packets))})
}

// signals are the warnings that follow from what was granted.
func (t told) signals() html {
	e := t.dec.Envelope
	if e == nil {
		return html{}
	}
	var declared []string
	for category, keys := range e.Capabilities {
		for _, k := range keys {
			declared = append(declared, category+"."+k)
		}
	}
	s := front.Surface(declared, e.Grants)
	return div("card mood "+known(string(s.Mood), "safe", "connected", "elevated", "restricted"),
		el("h2", nil, text(map[front.Mood]string{front.MoodSafe: "Safe", front.MoodConnected: "Connected", front.MoodElevated: "Elevated", front.MoodRestricted: "Restricted"}[s.Mood])),
		el("p", class("faint"), text(map[front.Mood]string{
			front.MoodSafe: "It reaches no network and has nothing privileged.", front.MoodConnected: "It reaches a network.",
			front.MoodElevated: "It has privileged keys.", front.MoodRestricted: "Policy gave it less than the tool declares.",
		}[s.Mood])),
		when(s.Banner, el("p", class("why"), text("It gets a secret delivered."))),
		facts(fact{"Risk", risk(e.Risk)}, fact{"Granted", joined(e.Grants)}, fact{"Reaches", joined(s.Destinations)}, fact{"Not granted", joined(s.Missing)}))
}

// hop is one of the twelve.
type hop struct {
	name, says string
	at         time.Time
	detail     html
	reached    bool
}

// hops tells where a call came through. What was not reached says so: a refusal ends
// the list's truth, not the list.
func (t told) hops() html {
	timeOf := func(k *ledger.Packet) time.Time {
		if k == nil {
			return time.Time{}
		}
		return k.Time()
	}
	ran := t.dispatch != nil
	node := t.dec.Routing != nil && t.dec.Routing.Selected != ""
	all := []hop{
		{"Asked", "through " + orElse(t.req.Surface, "a surface"), timeOf(t.request), html{}, t.request != nil},
		{"Arguments", "checked against the tool's schema", timeOf(t.request), argumentsOf(t.req.Evidence), t.req.Digest != ""},
		{"Node", "", time.Time{}, html{}, node},
		{"Policy", t.dec.Effect, timeOf(t.decision), facts(fact{"Rules", joined(t.dec.Policies)}, fact{"Policy", code(t.dec.Snapshot)}, fact{"Code", text(t.dec.Code)}), t.decision != nil},
		{"Repeated", "no: a repeated call shows what the first gave", time.Time{}, html{}, t.decision != nil},
		{"Person", orElse(iff(t.dec.Grant != "", "allowed by a grant"), "nobody had to be asked"), time.Time{}, when(t.dec.Grant != "", p(code(t.dec.Grant))), ran || t.dec.Grant != ""},
		{"Written down", "request, decision and intent in one commit", timeOf(t.dispatch), html{}, ran},
		{"Sent", "to the " + orElse(t.dis.Target, "node"), timeOf(t.dispatch), facts(fact{"Deadline", text(took(float64(t.dis.Deadline)))}), ran},
		{"The device's word", "the device checked it anew", time.Time{}, html{}, ran && t.dis.Target == "node"},
		{"Ran", "isolation " + orElse(t.dis.Given, "unknown"), time.Time{}, html{}, ran},
		{"Recorded", orElse(t.fin.Status, "not yet"), timeOf(t.end), facts(fact{"Took", text(took(t.fin.Duration))}, fact{"Code", text(t.fin.Code)}, fact{"Effect", text(t.fin.Effect)}), t.end != nil},
		{"Answered", orElse(t.fin.Status, "not yet"), timeOf(t.end), html{}, t.end != nil},
	}
	if ran && t.dis.Target == "node" && t.fin.Status != "ok" { // whether it ran then is in the device's journal
		all[8].says, all[9].says = "the ledger does not say; the device's journal does", "the ledger does not say; the device's journal does"
	}
	if t.dec.Code == string(capabilities.CodeApprovalPending) {
		all[5].says, all[5].reached = "a person has to answer", true
	}
	if r := t.dec.Routing; r != nil {
		all[2].says = orElse(r.Node.Label, r.Selected)
		all[2].detail = facts(fact{"Chosen", text(r.Mode)}, fact{"Node", code(r.Selected)})
	} else if t.dispatch != nil {
		all[2] = hop{name: "Node", says: "none is needed", reached: true}
	}
	n := 0
	return group(el("h2", class("part"), text("Hop by hop")), el("ol", class("hops"), each(all, func(h hop) html {
		n++
		if !h.reached {
			return el("li", class("unreached"), div("hop", el("strong", nil, text(h.name)), span("faint", text(" not reached"))))
		}
		return el("li", nil, div("hop", el("strong", nil, text(h.name)), text(" "), text(h.says), when(!h.at.IsZero(), span("faint when", moment(h.at)))), h.detail)
	})))
}

// packetsOf shows what the ledger holds, as it is.
func packetsOf(list []ledger.Packet) html {
	return group(el("h2", class("part"), text("Packets")), each(list, func(k ledger.Packet) html {
		var body bytes.Buffer
		if json.Indent(&body, k.Body, "", "  ") != nil {
			body.Reset()
			body.Write(k.Body)
		}
		seq := strconv.FormatUint(k.Seq, 10)
		return el("details", attrs{"id", "p-" + seq}, el("summary", nil, text(seq+" "), code(string(k.Kind)), text(" "), moment(k.Time())),
			el("pre", attrs{"tabindex", "0", "aria-label", "Body of packet " + seq}, el("code", nil, lines(body.String()))),
			el("p", class("faint small"), text("hash "), code(k.Hash.String())))
	}))
}
