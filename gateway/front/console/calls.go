package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	view "github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/naming"
)

// call is one call as the REST surface folds it from its packets.
type call struct{ view.Call }

// mood is the class of its word.
func (c call) mood() string {
	return map[string]string{"done": "good", "denied": "no", "failed": "bad", "running": "busy", "waits": "busy", "over": "no", "ended": "no"}[c.Outcome]
}

func (v *visit) callsOf(q url.Values) ([]call, error) {
	var list struct {
		Calls []call `json:"calls"`
	}
	err := v.get(api("calls")+"?"+q.Encode(), &list)
	return list.Calls, err
}

// endedBy says who ended a call on purpose; empty if nobody did.
func endedBy(who, surface string) string {
	switch {
	case who == "caller" && surface == "whep":
		return "by the viewer"
	case who == "caller":
		return "by its caller"
	case who == "person":
		return "by a person"
	}
	return ""
}

// filters are what a list of calls can be narrowed by: parameters of the REST surface
// by the same names.
var filters = []string{"q", "state", "principal", "tool", "node", "lane"}

// callsPage lists calls, newest first, narrowed by what the address says.
func (c *Console) callsPage(v *visit) { v.showCalls(nil) }

func (v *visit) showCalls(problem error) {
	in := v.r.URL.Query()
	q := url.Values{"limit": {"50"}}
	narrowed := 0
	for _, name := range append([]string{"before"}, filters...) {
		if s := strings.TrimSpace(in.Get(name)); s != "" {
			q.Set(name, s)
			if name != "before" {
				narrowed++
			}
		}
	}
	var list struct {
		Calls  []call `json:"calls"`
		Before uint64 `json:"before"`
	}
	id, which, err := v.deviceMeant(q.Get("node"))
	if id != "" {
		q.Set("node", id)
	}
	if err == nil && which.s == "" {
		err = v.get(api("calls")+"?"+q.Encode(), &list)
	}
	if problem == nil {
		problem = err
	}
	field := func(name, label string) html { return input("f-"+name, name, label, in.Get(name), "maxlength", "128") }
	rows := make([][]html, 0, len(list.Calls))
	for _, c := range list.Calls {
		rows = append(rows, []html{
			group(span("state "+c.mood(), text(c.Outcome)), when(c.EndedBy != "" || c.Code != "", el("div", class("faint small"), text(orElse(endedBy(c.EndedBy, c.Surface), string(c.Code)))))),
			group(link(at("calls", string(c.ID)), text(orElse(c.Phrase, string(c.Tool)))), el("div", class("faint small"), text(string(c.Tool)))), text(orElse(c.NodeLabel, string(c.Node))), text(string(c.Principal)), laneOf(c),
			text(took(c.DurationMS)), ago(c.StartedAt), v.ending(c),
		})
	}
	states := []string{"", "any"}
	for _, state := range view.Outcomes() {
		states = append(states, state, state)
	}
	more := attrs{"id", "narrow"}
	if narrowed > 0 {
		more = append(more, "open", "")
	}
	v.show(page{title: "Calls", here: "/console/calls", live: "call", fault: problem,
		lead: text("What agents did and tried, newest first, as it happens."),
		body: group(
			el("form", attrs{"method", "get", "action", "/console/calls", "role", "search", "aria-label", "Narrow the list"},
				div("filter", input("f-q", "q", "Search", in.Get("q"), "maxlength", "128", "type", "search", "placeholder", "a host, a code, an ID, a word"),
					choice("f-state", "state", "State", in.Get("state"), states...),
					button("plain", "Show")),
				el("details", more, el("summary", nil, text("More to narrow by")), div("grid", field("principal", "Who"), field("tool", "Tool"), field("node", "Device (name or ID)"), field("lane", "Lane")))),
			which,
			when(len(rows) == 0 && err == nil && narrowed > 0 && which.s == "", empty("No such call lately", group(link("/console/calls", text("Show all calls")), text(".")))),
			when(len(rows) == 0 && err == nil && narrowed == 0, empty("No calls yet", group(text("Connect an agent with "), code("handrail connect"), text(". Each call appears here as it happens.")))),
			when(len(rows) > 0, div("brief", table("Calls, newest first", []column{{name: "State"}, {name: "What"}, {name: "Device"}, {name: "Who"}, {name: "Lane"}, {name: "Took", class: "number"}, {name: "When"}, {name: "Action"}}, rows))),
			when(list.Before > 0, p(link("/console/calls?"+olderCalls(in, list.Before), text("Older calls")))))})
}

// deviceMeant returns the ID of the device that a person means by a name, an ID or the
// beginning of either. Several are shown to choose from, and none is chosen.
func (v *visit) deviceMeant(typed string) (id string, which html, err error) {
	if typed == "" {
		return "", html{}, nil
	}
	var list struct {
		Nodes []device `json:"nodes"`
	}
	if err := v.get(api("nodes"), &list); err != nil {
		return "", html{}, err
	}
	var all []naming.Thing
	for _, n := range list.Nodes {
		all = append(all, naming.Thing{ID: string(n.ID), Label: orElse(n.Label, n.Host)})
	}
	found := naming.Meant(typed, all)
	switch len(found) {
	case 0: // the ledger may know one that the roster does not
		return typed, html{}, nil
	case 1:
		return found[0].ID, html{}, nil
	}
	in := v.r.URL.Query()
	return "", empty("“"+typed+"” may be several devices", el("ul", class("plainlist"), each(found[:min(len(found), 20)], func(n naming.Thing) html {
		pairs := []string{"node", n.ID}
		for _, name := range filters {
			if name != "node" {
				pairs = append(pairs, name, in.Get(name))
			}
		}
		return el("li", nil, link("/console/calls?"+query(pairs...), text(n.Label+" ("+n.ID+")")))
	}))), nil
}

// laneOf is a call's lane, marked where it only repeats the caller's name.
func laneOf(c call) html {
	if string(c.Lane) == string(c.Principal) {
		return span("same", text(string(c.Lane)))
	}
	return text(string(c.Lane))
}

func olderCalls(in url.Values, before uint64) string {
	pairs := []string{"before", strconv.FormatUint(before, 10)}
	for _, name := range filters {
		pairs = append(pairs, name, in.Get(name))
	}
	return query(pairs...)
}

// ending is the way to end a call that runs.
func (v *visit) ending(c call) html {
	if c.Outcome != "running" {
		return html{}
	}
	return v.control("DELETE /v1/calls/{call}", at("calls", string(c.ID)), attrs{"class", "inline"},
		hiddenField("back", "list"), button("danger small", "End it", "aria-label", "End it: "+string(c.Tool)+" of "+string(c.Principal)))
}

// cancelCall ends a running call, or passes on that a delivered secret is not to be seen any
// more.
func (c *Console) cancelCall(v *visit) {
	if f := v.r.PostForm; f.Get("do") == "secrets-done" {
		if err := v.ask(http.MethodPost, api("lanes", f.Get("lane"), "secrets-done"), map[string]any{}, nil); err != nil {
			v.showCall(err)
			return
		}
		v.seeOther(at("calls", v.r.PathValue("call")), "looks")
		return
	}
	id, back := v.r.PathValue("call"), v.r.PostForm.Get("back") == "list"
	err := v.ask(http.MethodDelete, api("calls", id), map[string]string{"reason": v.r.PostForm.Get("reason")}, nil)
	switch {
	case err != nil && back:
		v.showCalls(err)
	case err != nil:
		v.showCall(err)
	case back:
		v.seeOther("/console/calls", "cancelled")
	default:
		v.seeOther(at("calls", id), "cancelled")
	}
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
