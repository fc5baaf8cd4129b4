package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/naming"
)

// call is one call as the REST surface folds it from its packets.
type call struct{ api.Call }

// Word is how it stands.
func (c call) Word() string { return c.Outcome }

// Mood is the class of its word.
func (c call) Mood() string {
	return map[string]string{
		"done": "good", "denied": "no", "failed": "bad", "running": "busy", "waits": "busy", "over": "no", "ended": "no",
	}[c.Outcome]
}

// Why says more of how it ended: who ended it on purpose, else its code.
func (c call) Why() string { return orElse(endedBy(c.EndedBy, c.Surface), string(c.Code)) }

// Device is the node by the name it had then.
func (c call) Device() string { return orElse(c.NodeLabel, string(c.Node)) }

// OwnLane reports whether the lane only repeats the caller's name.
func (c call) OwnLane() bool { return string(c.Lane) == string(c.Principal) }

// Took is how long it took.
func (c call) Took() string { return took(c.DurationMS) }

func (v *visit) callsOf(q url.Values) ([]call, error) {
	var list struct {
		Calls []call `json:"calls"`
	}
	err := v.get(v1("calls")+"?"+q.Encode(), &list)
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
var filters = []string{"q", "state", "principal", "tool", "node", "lane", "profile", "snapshot", "isolation", "runner"}

// callsPage lists calls, newest first, narrowed by what the address says.
func (c *Console) callsPage(v *visit) { v.showCalls(nil) }

func (v *visit) showCalls(problem error) {
	in := v.r.URL.Query()
	q := url.Values{"limit": {"50"}}
	shown := callsPage{visit: v}
	for _, name := range append([]string{"before"}, filters...) {
		if s := strings.TrimSpace(in.Get(name)); s != "" {
			q.Set(name, s)
			shown.Narrowed = shown.Narrowed || name != "before"
		}
	}
	shown.Typed = typedFilters{Q: in.Get("q"), Principal: in.Get("principal"), Tool: in.Get("tool"), Node: in.Get("node"),
		Lane: in.Get("lane"), Device: q.Get("node"),
		Profile: in.Get("profile"), Snapshot: in.Get("snapshot"), Isolation: in.Get("isolation"), Runner: in.Get("runner")}
	states := []string{"", "any"}
	for _, state := range api.Outcomes() {
		states = append(states, state, state)
	}
	shown.State = choose("f-state", "state", "State", in.Get("state"), states...)
	var list struct {
		Calls  []call `json:"calls"`
		Before uint64 `json:"before"`
	}
	id, several, err := v.deviceMeant(q.Get("node"))
	if id != "" {
		q.Set("node", id)
	}
	if shown.Several = several; err == nil && len(several) == 0 {
		err = v.get(v1("calls")+"?"+q.Encode(), &list)
	}
	if shown.Failed = err != nil; problem == nil {
		problem = err
	}
	for _, c := range list.Calls {
		shown.Calls = append(shown.Calls, callRow{v, c})
	}
	if list.Before > 0 {
		shown.Older = "/console/calls?" + olderCalls(in, list.Before)
	}
	v.show(page{name: "calls", title: "Calls", here: "/console/calls", live: "call", fault: problem, data: shown})
}

// callsPage is a list of calls and what it is narrowed by.
type callsPage struct {
	*visit
	Typed    typedFilters
	State    choice
	Narrowed bool
	Several  []meantDevice // that a person may mean: no calls are listed then
	Calls    []callRow
	Failed   bool
	Older    string // the address of those before; empty if there are none
}

type typedFilters struct{ Q, Principal, Tool, Node, Lane, Device, Profile, Snapshot, Isolation, Runner string }

type meantDevice struct {
	naming.Thing
	Href string // of its calls
}

type callRow struct {
	*visit
	call
}

// Endable reports whether the visitor may end it, because it runs.
func (c callRow) Endable() bool { return c.Outcome == "running" && c.Offers("DELETE /v1/calls/{call}") }

// deviceMeant returns the ID of the device that a person means by a name, an ID or the
// beginning of either. Several are shown to choose from, and none is chosen.
func (v *visit) deviceMeant(typed string) (id string, several []meantDevice, err error) {
	if typed == "" {
		return "", nil, nil
	}
	var list struct {
		Nodes []device `json:"nodes"`
	}
	if err := v.get(v1("nodes"), &list); err != nil {
		return "", nil, err
	}
	var all []naming.Thing
	for _, n := range list.Nodes {
		all = append(all, naming.Thing{ID: string(n.ID), Label: orElse(n.Label, n.Host)})
	}
	found := naming.Meant(typed, all)
	switch len(found) {
	case 0: // the ledger may know one that the roster does not
		return typed, nil, nil
	case 1:
		return found[0].ID, nil, nil
	}
	in := v.r.URL.Query()
	for _, n := range found[:min(len(found), 20)] {
		pairs := []string{"node", n.ID}
		for _, name := range filters {
			if name != "node" {
				pairs = append(pairs, name, in.Get(name))
			}
		}
		several = append(several, meantDevice{n, "/console/calls?" + query(pairs...)})
	}
	return "", several, nil
}

func olderCalls(in url.Values, before uint64) string {
	pairs := []string{"before", strconv.FormatUint(before, 10)}
	for _, name := range filters {
		pairs = append(pairs, name, in.Get(name))
	}
	return query(pairs...)
}

// cancelCall ends a running call, or passes on that a delivered secret is not to be seen any
// more.
func (c *Console) cancelCall(v *visit) {
	if f := v.r.PostForm; f.Get("do") == "secrets-done" {
		if err := v.ask(http.MethodPost, v1("lanes", f.Get("lane"), "secrets-done"), map[string]any{}, nil); err != nil {
			v.showCall(err)
			return
		}
		v.seeOther(at("calls", v.r.PathValue("call")), "looks")
		return
	}
	id, back := v.r.PathValue("call"), v.r.PostForm.Get("back") == "list"
	err := v.ask(http.MethodDelete, v1("calls", id), api.Reason{Reason: v.r.PostForm.Get("reason")}, nil)
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
