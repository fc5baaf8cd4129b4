package console

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// ranges are the times that the page can be about, in days.
var ranges = []string{"1", "the last day", "7", "the last week", "30", "the last 30 days", "90", "the last 90 days", "365", "the last year"}

// Rows of a table: on the page of all views, on that of one, and in the report.
const (
	firstRows = 8
	viewRows  = 25
	paperRows = 100
)

// governancePage shows the beginnings of the five views, and the six KPIs (S1-56, S1-57).
func (c *Console) governancePage(v *visit) {
	v.governance("governance", firstRows, slices.Concat(views, []string{"kpis"}), 0)
}

// governanceView shows one view, some rows at a time.
func (c *Console) governanceView(v *visit) {
	view := v.r.PathValue("view")
	if !slices.Contains(views, view) {
		c.nothing(v)
		return
	}
	offset, err := strconv.Atoi(v.r.URL.Query().Get("offset"))
	if err != nil || offset < 0 {
		offset = 0
	}
	v.governance("view", viewRows, []string{view}, offset)
}

// governanceReport is all for paper: everything on one page, with the range of the ledger that it
// is made from (S1-59).
func (c *Console) governanceReport(v *visit) {
	v.governance("report", paperRows, []string{"coverage", "isolation", "drift", "privilege", "friction", "kpis", "compliance"}, 0)
}

// views are those that have rows.
var views = []string{"coverage", "isolation", "drift", "privilege", "friction", "changes", "profiles"}

// governed is what these pages show.
type governed struct {
	*visit
	View      string // of the page of one view
	Range     choice
	Tool      string
	CSV       string // what follows the name of a view in the address of its CSV
	KPIs      []shownKPI
	Span      api.GovernanceSpan
	Coverage  table[api.CoverageRow]
	Isolation heatmap
	Drift     bars
	Drifted   table[driftedRow]
	Privilege table[usedRow]
	Friction  table[frictionRow]
	// Categories is the same by category.
	Categories []api.FrictionCategory
	Decisions  int
	// Changes says since when Changed counts.
	Changes    api.Changes
	Changed    table[api.ChangeRow]
	Profiles   table[profileRow]
	Compliance api.Compliance // of the report alone
	Key        string
	Keys       []string // that a person may ask about
	Now        time.Time
}

// Is reports whether a view is the one that the page is about.
func (g governed) Is(view string) bool { return g.View == view }

// NoneUnused reports whether every key that devices tell the use of was used: rows that were not
// used come first.
func (g governed) NoneUnused() bool {
	rows := g.Coverage.Rows
	return g.Coverage.Offset == 0 && len(rows) > 0 && !rows[0].Unused
}

// table is some rows of a view.
type table[T any] struct {
	Rows   []T
	All    int    // how many there are
	Offset int    // how many come before
	View   string // the address of the page of the view
	Sort   string // why these rows come first
}

// First and Last are the numbers of the rows, from 1.
func (t table[T]) First() int { return t.Offset + 1 }

// Last is the number of the last row shown.
func (t table[T]) Last() int { return t.Offset + len(t.Rows) }

// Part reports whether there are other rows than these.
func (t table[T]) Part() bool { return t.All > len(t.Rows) }

// Before is the address of the rows before these; empty if there are none.
func (t table[T]) Before() string {
	if t.Offset == 0 {
		return ""
	}
	return t.View + "&" + query("offset", strconv.Itoa(max(0, t.Offset-viewRows)))
}

// Next is the address of the rows behind these; empty if there are none.
func (t table[T]) Next() string {
	if t.Last() >= t.All {
		return ""
	}
	if t.Offset == 0 && len(t.Rows) != viewRows { // they were the beginning on another page
		return t.View
	}
	return t.View + "&" + query("offset", strconv.Itoa(t.Last()))
}

// tableOf returns rows that are some of a view, as what they are shown as.
func tableOf[T, S any](g *governed, view, sort string, rows []T, of api.GovernanceRows, as func(T) S) table[S] {
	t := table[S]{All: of.Total, Offset: of.Offset, View: at("governance", view) + g.CSV, Sort: sort}
	for _, one := range rows {
		t.Rows = append(t.Rows, as(one))
	}
	return t
}

func (v *visit) governance(name string, rows int, wanted []string, offset int) {
	in := v.r.URL.Query()
	days, err := strconv.Atoi(in.Get("days"))
	if err != nil || !slices.Contains(ranges, strconv.Itoa(days)) {
		days = 7
	}
	now := time.Now().UTC()
	q := url.Values{"from": {now.Add(-time.Duration(days) * 24 * time.Hour).Format(time.RFC3339)}, "to": {now.Format(time.RFC3339)}}
	if s := in.Get("tool"); s != "" {
		q.Set("tool", s)
	}
	key := strings.TrimSpace(in.Get("key"))
	g := governed{
		visit: v, Tool: in.Get("tool"), Key: key, Keys: askedKeys, Now: now,
		Range: choose("f-days", "days", "Time", strconv.Itoa(days), ranges...),
		CSV:   "?" + query("days", strconv.Itoa(days), "tool", in.Get("tool"), "key", key),
	}
	if name == "view" {
		g.View = wanted[0]
	}
	var coverage api.Coverage
	var isolation api.Isolation
	var drift api.DriftMonitor
	var privilege api.Privilege
	var friction api.Friction
	var kpis api.KPIs
	var profiles api.Profiles
	var reads errgroup.Group // views are read on all cores
	for view, into := range map[string]any{
		"kpis": &kpis, "coverage": &coverage, "isolation": &isolation, "drift": &drift, "privilege": &privilege, "friction": &friction,
		"changes": &g.Changes, "profiles": &profiles, "compliance": &g.Compliance,
	} {
		if !slices.Contains(wanted, view) {
			continue
		}
		address := v1("governance", view) + "?" + q.Encode()
		if slices.Contains(views, view) {
			address += "&" + query("limit", strconv.Itoa(rows), "offset", strconv.Itoa(offset))
		}
		switch view {
		case "privilege":
			address += "&" + query("sum", "1", "key", key)
		case "isolation", "drift":
			address += "&" + query("sum", "1")
		}
		reads.Go(func() error { return v.get(address, into) })
	}
	if err := reads.Wait(); err != nil {
		v.show(page{name: "problem", title: "Governance", here: "/console/governance", fault: err})
		return
	}
	for _, of := range []api.GovernanceSpan{ // changes are of a time of their own
		kpis.GovernanceSpan, coverage.GovernanceSpan, isolation.GovernanceSpan, drift.GovernanceSpan, privilege.GovernanceSpan,
		friction.GovernanceSpan, profiles.GovernanceSpan, g.Changes.GovernanceSpan,
	} {
		if g.Span.To.IsZero() {
			g.Span = of
		}
	}
	labels, paper := v.labels(), name == "report"
	g.Decisions = int(friction.Decisions)
	for _, k := range kpis.All() {
		g.KPIs = append(g.KPIs, shownKPI{k})
	}
	g.Coverage = tableOf(&g, "coverage", "those never used first", coverage.Rows, coverage.GovernanceRows, same)
	g.Isolation = heatmapOf(&g, &isolation, labels, paper)
	g.Drift = barsOf(&drift)
	g.Drifted = tableOf(&g, "drift", "the worst first", drift.Rows, drift.GovernanceRows, driftedRows(&drift, paper))
	g.Privilege = tableOf(&g, "privilege", "the most calls first",
		privilege.Rows, privilege.GovernanceRows, usedRows(&privilege, labels, paper))
	g.Friction = tableOf(&g, "friction", "the most calls first", friction.Rows, friction.GovernanceRows,
		func(r api.FrictionRow) frictionRow { return frictionRow{r} })
	g.Categories = friction.Categories
	g.Changed = tableOf(&g, "changes", "what changed most first", g.Changes.Rows, g.Changes.GovernanceRows, same)
	g.Profiles = tableOf(&g, "profiles", "the most decisions first", profiles.Rows, profiles.GovernanceRows,
		func(r api.ProfileRow) profileRow { return profileRow{r} })
	v.show(page{name: name, title: "Governance", here: "/console/governance", data: g})
}

func same[T any](row T) T { return row }

// askedKeys are offered where a key is asked for.
var askedKeys = []string{
	"data.capture.audio", "data.capture.camera", "data.read.clipboard", "data.read.location", "data.read.screen",
	"execution.proc.spawn", "privileged.input.inject", "privileged.secret.read",
}

// labels are what people call the devices. Without them the devices are shown by their IDs.
func (v *visit) labels() map[capabilities.NodeID]string {
	var list api.NodeList
	_ = v.get(v1("nodes"), &list)
	all := map[capabilities.NodeID]string{}
	for i := range list.Nodes {
		all[list.Nodes[i].ID] = list.Nodes[i].Label
	}
	return all
}

// usedRow is who used a key and when, with the way to the calls.
type usedRow struct {
	api.PrivilegeRow
	Device string
	Cells  strip
}

// Calls is what narrows the list of calls to those.
func (r usedRow) Calls() string {
	return query("principal", string(r.Principal), "tool", string(r.Tool), "node", string(r.Node))
}

func usedRows(p *api.Privilege, labels map[capabilities.NodeID]string, paper bool) func(api.PrivilegeRow) usedRow {
	strips := stripsOf(p.GovernanceSpan, paper)
	for _, r := range p.Rows {
		strips.most = max(strips.most, r.Trend.Most())
	}
	return func(r api.PrivilegeRow) usedRow {
		return usedRow{r, orElse(labels[r.Node], string(r.Node)), strips.of(r.Trend)}
	}
}

// driftedRow is one kind of events by time.
type driftedRow struct {
	api.DriftRow
	Cells strip
}

func driftedRows(d *api.DriftMonitor, paper bool) func(api.DriftRow) driftedRow {
	strips := stripsOf(d.GovernanceSpan, paper)
	for _, r := range d.Rows {
		strips.most = max(strips.most, r.Trend.Most())
	}
	return func(r api.DriftRow) driftedRow { return driftedRow{r, strips.of(r.Trend)} }
}

// frictionRow is what a rule denied, with the way to the rule.
type frictionRow struct{ api.FrictionRow }

// Written reports whether the rule stands in a file that somebody can change.
func (r frictionRow) Written() bool { return r.Rule != "" && !strings.Contains(r.Rule, " ") }

// Unpermitted reports whether no rule permits the tool, so that one can be written.
func (r frictionRow) Unpermitted() bool {
	return r.Effect == "deny" && r.Rule != "" && !r.Written() && ruleFor(r.Tool) != ""
}

// Write is what opens the files with a rule for the tool in a further one.
func (r frictionRow) Write() string {
	return query("permit", string(r.Tool), "rule", ruleFor(r.Tool))
}

// ruleFor is the name of a rule that lets people be asked about a tool; "" for what is no tool's
// ID.
func ruleFor(tool capabilities.ToolID) string {
	if tool == "" || len(tool) > 128 || strings.Trim(string(tool), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		return ""
	}
	return "ask-" + strings.TrimPrefix(string(tool), "tool.")
}

// profileRow is a profile with its addresses as people compare them.
type profileRow struct{ api.ProfileRow }

// ShortProfile is the beginning of its address.
func (r profileRow) ShortProfile() string { return beginning(r.Profile) }

// ShortPolicy is that of the policy's.
func (r profileRow) ShortPolicy() string { return beginning(r.Snapshot) }

// OfProfile is what narrows the list of calls to those with the profile, of any tool and policy.
func (r profileRow) OfProfile() string { return query("profile", r.Profile) }

// Those is what narrows it to those of the row.
func (r profileRow) Those() string {
	return query("tool", string(r.Tool), "profile", r.Profile, "snapshot", r.Snapshot)
}

func beginning(address string) string {
	return capabilities.First(strings.TrimPrefix(address, "sha256:"), 12)
}

// Edit is what opens the files at the rule.
func (r frictionRow) Edit() string { return query("rule", r.Rule) }

// governanceJSON passes a view on as JSON.
func (c *Console) governanceJSON(v *visit) { v.passView("json") }

// governanceCSV passes a view on as CSV.
func (c *Console) governanceCSV(v *visit) { v.passView("csv") }

func (v *visit) passView(format string) {
	in := v.r.URL.Query()
	days, err := strconv.Atoi(in.Get("days"))
	if err != nil || days < 1 || days > 3650 {
		days = 7
	}
	q := url.Values{"format": {format}, "from": {time.Now().UTC().Add(-time.Duration(days) * 24 * time.Hour).Format(time.RFC3339)}}
	for _, name := range []string{"tool", "key"} {
		if s := in.Get(name); s != "" {
			q.Set(name, s)
		}
	}
	guardHeaders(v.w)
	v.con.opts.API.Pass(v.w, v.r, v1("governance", v.r.PathValue("view"))+"?"+q.Encode())
}

// shownKPI is a KPI as people read it.
type shownKPI struct{ api.KPI }

var kpiTitles = map[string]string{
	"declaration_completeness": "Declaration completeness", "grant_reduction_ratio": "Grant reduction",
	"drift_per_1000": "Drift per 1,000 calls", "privileged_share": "Privileged share", "isolation_mismatches": "Isolation mismatches",
	"mean_time_to_remediate_s": "Mean time to remediate",
}

// Title is its name in words.
func (k shownKPI) Title() string { return kpiTitles[k.Name] }

// Number is its value with its unit.
func (k shownKPI) Number() string {
	if !k.Known {
		return "nothing yet"
	}
	return k.in(k.Value)
}

// Earlier is its value in the time before.
func (k shownKPI) Earlier() string {
	if !k.BeforeKnown {
		return "nothing"
	}
	return k.in(k.Before)
}

// Aim is what it is to be.
func (k shownKPI) Aim() string {
	if k.Name == "declaration_completeness" || k.Target == 0 {
		return k.in(k.Target)
	}
	return "at most " + k.in(k.Target)
}

func (k shownKPI) in(x float64) string {
	switch k.Unit {
	case "share":
		return strconv.FormatFloat(100*x, 'f', 1, 64) + " %"
	case "seconds":
		switch {
		case x < 120:
			return strconv.FormatFloat(x, 'f', 0, 64) + " s"
		case x < 7200:
			return strconv.FormatFloat(x/60, 'f', 0, 64) + " min"
		}
		return strconv.FormatFloat(x/3600, 'f', 0, 64) + " h"
	}
	return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64)
}

// Bars are its trend.
func (k shownKPI) Bars() []bar {
	most := 0.0
	for _, x := range k.Trend {
		most = max(most, x)
	}
	wide := 200 / float64(max(1, len(k.Trend)))
	var all []bar
	for i, x := range k.Trend {
		if x > 0 {
			high := max(1, 32*x/most)
			all = append(all, bar{fixed(float64(i) * wide), fixed(34 - high), fixed(max(1, wide-1)), fixed(high), "", k.in(x)})
		}
	}
	return all
}

// bar is a rectangle of a chart, in its own units.
type bar struct{ X, Y, Wide, High, Class, Text string }

func fixed(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// bars is a chart of what happened by time, 600 wide and 120 high.
type bars struct {
	Bars  []bar
	Most  int64
	Total int64
}

// starts are the times that a span counts, at most 400.
func starts(s api.GovernanceSpan) []time.Time {
	var all []time.Time
	for t := s.From; t.Before(s.To) && len(all) < 400; {
		all = append(all, t)
		switch s.Grain {
		case "hour":
			t = t.Add(time.Hour)
		case "day":
			t = t.AddDate(0, 0, 1)
		default:
			t = t.AddDate(0, 1, 0)
		}
	}
	return all
}

// severities are stacked from the mildest.
var severities = []string{"warning", "violation", "critical"}

func barsOf(d *api.DriftMonitor) bars {
	by := map[string]api.Trend{}
	var out bars
	for _, s := range d.Severities {
		by[s.Severity] = s.Trend
		out.Total += s.Events
	}
	times := starts(d.GovernanceSpan)
	count := func(severity string, i int) int64 {
		if t := by[severity]; i < len(t) {
			return t[i]
		}
		return 0
	}
	for i := range times {
		sum := int64(0)
		for severity := range by {
			sum += count(severity, i)
		}
		out.Most = max(out.Most, sum)
	}
	wide := 600 / float64(max(1, len(times)))
	for i, t := range times {
		y := 118.0
		for _, severity := range severities {
			n := count(severity, i)
			if n == 0 {
				continue
			}
			high := max(1, 116*float64(n)/float64(out.Most))
			y -= high
			out.Bars = append(out.Bars, bar{
				fixed(float64(i) * wide), fixed(y), fixed(max(1, wide-1)), fixed(high), severity,
				fmt.Sprintf("%s: %d %s", stampOf(t, d.Grain), n, severity),
			})
		}
	}
	return out
}

func stampOf(t time.Time, grain string) string {
	switch grain {
	case "hour":
		return t.Format("2006-01-02 15:04")
	case "day":
		return t.Format(time.DateOnly)
	}
	return t.Format("2006-01")
}

// heatmap is how many calls each pool of runners had by time: a row for each class and device.
type heatmap struct {
	table[heatRow]
	Unavailable int
}

// heatRow is one pool.
type heatRow struct {
	api.IsolationRow
	Device string
	Cells  strip
}

// Those is what narrows the list of calls to those of the pool.
func (r heatRow) Those() string { return query("node", string(r.Node), "isolation", string(r.Class)) }

func heatmapOf(g *governed, i *api.Isolation, labels map[capabilities.NodeID]string, paper bool) heatmap {
	out := heatmap{}
	for _, r := range i.Unavailable {
		out.Unavailable += int(r.Executions)
	}
	strips := stripsOf(i.GovernanceSpan, paper)
	for _, r := range i.Rows {
		strips.most = max(strips.most, r.Trend.Most())
	}
	out.table = tableOf(g, "isolation", "the most calls first", i.Rows, i.GovernanceRows, func(r api.IsolationRow) heatRow {
		return heatRow{r, orElse(labels[r.Node], string(r.Node)), strips.of(r.Trend)}
	})
	return out
}
