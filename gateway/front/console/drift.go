package console

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
)

// driftPage shows drift events, and what holds because of them until a person ends it (S1-50 to
// S1-54).
func (c *Console) driftPage(v *visit) { v.showDrift(nil) }

// driftShown is that page.
type driftShown struct {
	*visit
	All         bool // also those that somebody resolved
	Tool        string
	Device      choice
	Signal      choice
	Severity    choice
	Narrowed    bool   // by any of these
	Narrow      string // what the list is narrowed by, as an address has it
	Other       string // the address of the same with, or without, those that were resolved
	Events      []driftEvent
	Open        int    // how many of them nobody has resolved
	Older       string // the address of what is older; "": there is nothing
	Quarantined []driftRunner
	Restricted  []driftTool
	Raised      []driftRisk
}

// Several reports whether there are several to resolve at once.
func (d driftShown) Several() bool { return d.Open > 1 }

// driftEvent is an event with the names of things.
type driftEvent struct {
	*visit
	api.DriftEvent
	Name   string // that people gave the device
	beside bool   // it stands beside others that are open
}

// Choosable reports whether it can be resolved together with others.
func (d driftEvent) Choosable() bool { return d.beside && d.Open && d.Offers("POST /v1/drift/resolve") }

// Mood is the class of its severity.
func (d driftEvent) Mood() string {
	return map[string]string{string(drift.Violation): "busy", string(drift.Critical): "bad"}[d.Severity]
}

// When it happened.
func (d driftEvent) When() time.Time { return d.DriftEvent.At }

// Then is when somebody resolved it.
func (d driftEvent) Then() time.Time {
	if d.ResolvedAt == nil {
		return time.Time{}
	}
	return *d.ResolvedAt
}

// Done is its response in words.
func (d driftEvent) Done() string {
	switch drift.Response(d.Response) {
	case drift.Refused:
		return "The operation was refused."
	case drift.Killed:
		return "The call was ended, and its result is void."
	case drift.Quarantined:
		return "Its runner went into quarantine."
	case drift.Restricted:
		return "The call was ended, its result is void, and the tool was restricted."
	}
	return "It was recorded."
}

// Declares says what its tool declares; "" where the event is about no key of a tool.
func (d driftEvent) Declares() string {
	switch {
	case d.Tool == "" || d.Signal == drift.Worker.String() || d.Signal == drift.Shown.String():
		return ""
	case d.Declared:
		return "The tool declares the key; this call was not granted it, or not for this."
	}
	return "The tool does not declare the key."
}

// OfProfile is what narrows the list of calls to those with the call's profile (S1-58).
func (d driftEvent) OfProfile() string { return query("profile", d.Profile) }

// OfCall is what narrows the list of events to those of its call.
func (d driftEvent) OfCall() string { return query("call", string(d.Call), "all", "1") }

// OfRunner is what narrows it to those of the call's runner.
func (d driftEvent) OfRunner() string { return query("runner", d.Runner) }

// ShortProfile is the beginning of the profile's address.
func (d driftEvent) ShortProfile() string { return beginning(d.Profile) }

// ShortPolicy is that of the policy's.
func (d driftEvent) ShortPolicy() string { return beginning(d.Snapshot) }

// driftRunner is a runner that takes no calls.
type driftRunner struct {
	*visit
	api.QuarantinedRunner
	Name string
}

// OfRunner is what narrows the list of calls to its own.
func (d driftRunner) OfRunner() string { return query("runner", d.Runner) }

// driftTool is a tool that waits for a review.
type driftTool struct {
	*visit
	api.RestrictedTool
}

// Changed reports whether its manifest is another than when it was restricted.
func (d driftTool) Changed() bool { return d.ManifestHash != d.ManifestThen }

// driftRisk is a risk that is raised.
type driftRisk struct {
	api.RaisedRisk
	Name string
}

func (v *visit) showDrift(problem error) {
	in := v.r.URL.Query()
	if v.r.Method == http.MethodPost {
		in, _ = url.ParseQuery(v.r.PostForm.Get("narrow"))
	}
	q, kept := url.Values{"limit": {"50"}}, url.Values{}
	all := in.Get("all") == "1"
	if all {
		kept.Set("all", "1")
	} else {
		q.Set("open", "1")
	}
	for _, name := range driftFilters {
		if s := strings.TrimSpace(in.Get(name)); s != "" {
			q.Set(name, s)
			kept.Set(name, s)
		}
	}
	if s := in.Get("before"); s != "" {
		q.Set("before", s)
	}
	var list api.DriftList
	if err := v.get(v1("drift")+"?"+q.Encode(), &list); err != nil {
		v.show(page{name: "problem", title: "Drift", here: "/console/governance", fault: err})
		return
	}
	var known struct {
		Nodes []device `json:"nodes"`
	}
	names, devices := map[capabilities.NodeID]string{}, []string{"", "any"}
	if v.get(v1("nodes"), &known) == nil { // without them the IDs tell
		for _, d := range known.Nodes {
			names[d.ID] = orElse(d.Label, d.Host)
			devices = append(devices, string(d.ID), names[d.ID])
		}
	}
	shown := driftShown{
		visit: v, All: all, Tool: kept.Get("tool"), Narrow: kept.Encode(),
		Device:   choose("f-node", "node", "Device", kept.Get("node"), devices...),
		Signal:   choose("f-signal", "signal", "Signal", kept.Get("signal"), twice(drift.SignalWords())...),
		Severity: choose("f-severity", "severity", "Severity", kept.Get("severity"), twice(drift.Severities())...),
	}
	for _, name := range driftFilters {
		shown.Narrowed = shown.Narrowed || kept.Has(name)
	}
	other := maps.Clone(kept)
	if all {
		other.Del("all")
	} else {
		other.Set("all", "1")
	}
	shown.Other = "/console/drift?" + other.Encode()
	for _, e := range list.Events {
		if e.Open {
			shown.Open++
		}
		shown.Events = append(shown.Events, driftEvent{v, e, names[e.Node], false})
	}
	for i := range shown.Events {
		shown.Events[i].beside = shown.Several()
	}
	for _, r := range list.Quarantined {
		shown.Quarantined = append(shown.Quarantined, driftRunner{v, r, names[r.Node]})
	}
	for _, t := range list.Restricted {
		shown.Restricted = append(shown.Restricted, driftTool{v, t})
	}
	for _, r := range list.Raised {
		shown.Raised = append(shown.Raised, driftRisk{r, names[r.Node]})
	}
	if list.Before != 0 {
		older := maps.Clone(kept)
		older.Set("before", strconv.FormatUint(list.Before, 10))
		shown.Older = "/console/drift?" + older.Encode()
	}
	v.show(page{
		name: "drift", title: "Drift", here: "/console/governance", live: "packet", fault: problem, modules: []string{"passkey"},
		remedy: v.remedy(problem, "POST /v1/drift/resolve", "/console/confirm/drift"), data: shown,
	})
}

// driftFilters are what a list of events can be narrowed by: parameters of the REST surface by the
// same names.
var driftFilters = []string{"tool", "node", "call", "signal", "severity"}

// twice makes options of words that are shown as they are, after one for any of them.
func twice[T ~string](words []T) []string {
	options := []string{"", "any"}
	for _, w := range words {
		options = append(options, string(w), string(w))
	}
	return options
}

// resolveDrift resolves the events that were chosen on the page, or all that it showed, with one
// reason.
func (c *Console) resolveDrift(v *visit) {
	if err := v.sends("drift", nil); err != nil {
		v.showDrift(err)
		return
	}
	to := "/console/drift"
	if kept, err := url.ParseQuery(v.r.PostForm.Get("narrow")); err == nil && len(kept) > 0 {
		to += "?" + kept.Encode()
	}
	v.seeOther(to, "resolvedall")
}

func driftWanted(f url.Values) (request, error) {
	ids := f["event"]
	if f.Get("which") == "shown" {
		ids = f["shown"]
	}
	if len(ids) == 0 {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "choose the events that you looked at")
	}
	return request{v1("drift", "resolve"), api.ResolveDrift{Events: ids, Reason: f.Get("reason")}}, nil
}

// driftOf returns the drift events of a call; none where the visitor may not read them.
func (v *visit) driftOf(call capabilities.CallID) []driftEvent {
	var list api.DriftList
	_ = v.get(v1("drift")+"?"+query("call", string(call)), &list)
	events := make([]driftEvent, 0, len(list.Events))
	for _, e := range list.Events {
		events = append(events, driftEvent{v, e, "", false})
	}
	return events
}

// endDrift resolves an event, lifts a quarantine or reviews a tool, with the reason of the form.
func (c *Console) endDrift(v *visit) {
	form, id := v.r.PostForm, v.r.PathValue("id")
	var to, outcome string
	var in any = api.DriftReason{Reason: form.Get("reason")}
	switch v.r.PathValue("what") {
	case "events":
		to, outcome = v1("drift", id, "resolve"), "resolved"
	case "runners":
		to, outcome = v1("runners", id, "lift"), "lifted"
	case "tools":
		to, outcome = v1("tools", id, "review"), "reviewed"
		in = api.ReviewTool{ManifestHash: form.Get("manifest"), Reason: form.Get("reason")}
	default:
		c.nothing(v)
		return
	}
	if err := v.ask(http.MethodPost, to, in, nil); err != nil {
		v.showDrift(err)
		return
	}
	v.seeOther("/console/drift", outcome)
}
