package console

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// ranges are the times that the page can be about, in days.
var ranges = []string{"1", "the last day", "7", "the last week", "30", "the last 30 days", "90", "the last 90 days", "365", "the last year"}

// shownRows is how much of a table a page shows; the CSV has all of it.
const shownRows = 25

// governancePage shows the five views and the six KPIs (S1-56, S1-57).
func (c *Console) governancePage(v *visit) { v.governance("governance") }

// governanceReport is the same for paper: everything on one page, with the range of the ledger
// that it is made from (S1-59).
func (c *Console) governanceReport(v *visit) { v.governance("report") }

// governed is what both pages show.
type governed struct {
	*visit
	Range     choice
	Tool      string
	CSV       string // what follows the name of a view in the address of its CSV
	KPIs      []shownKPI
	Span      api.GovernanceSpan
	Coverage  table[api.CoverageRow]
	Isolation heatmap
	Drift     bars
	Drifted   table[api.DriftRow]
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

// table is the first rows of one, and how many there are.
type table[T any] struct {
	Rows []T
	All  int
}

// More is how many rows are not shown.
func (t table[T]) More() int { return t.All - len(t.Rows) }

func firstOf[T any](rows []T, most int) table[T] {
	return table[T]{rows[:min(len(rows), most)], len(rows)}
}

func (v *visit) governance(name string) {
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
	var coverage api.Coverage
	var isolation api.Isolation
	var drift api.DriftMonitor
	var privilege api.Privilege
	var friction api.Friction
	var kpis api.KPIs
	var profiles api.Profiles
	for _, part := range [...]struct {
		view string
		into any
	}{{"kpis", &kpis}, {"coverage", &coverage}, {"isolation", &isolation}, {
		"drift", &drift,
	}, {"privilege", &privilege}, {"friction", &friction}, {"changes", &g.Changes}, {"profiles", &profiles}, {"compliance", &g.Compliance}} {
		if part.view == "compliance" && name != "report" {
			continue
		}
		address := v1("governance", part.view) + "?" + q.Encode()
		if part.view == "privilege" && key != "" {
			address += "&" + query("key", key)
		}
		if err := v.get(address, part.into); err != nil {
			v.show(page{name: "problem", title: "Governance", here: "/console/governance", fault: err})
			return
		}
	}
	labels := v.labels()
	most := shownRows
	if name == "report" {
		most = 1000
	}
	g.Span, g.Decisions = kpis.GovernanceSpan, int(friction.Decisions)
	for _, k := range kpis.All() {
		g.KPIs = append(g.KPIs, shownKPI{k})
	}
	g.Coverage = firstOf(coverage.Rows, most)
	g.Isolation = heatmapOf(&isolation, labels)
	g.Drift, g.Drifted = barsOf(&drift), firstOf(drift.Rows, most)
	g.Privilege = firstOf(usedRows(&privilege, labels), most)
	g.Friction, g.Categories = firstOf(frictionRows(friction.Rows), most), friction.Categories
	g.Changed, g.Profiles = firstOf(g.Changes.Rows, most), firstOf(profileRows(profiles.Rows), most)
	v.show(page{name: name, title: "Governance", here: "/console/governance", data: g})
}

// askedKeys are offered where a key is asked for.
var askedKeys = []string{
	"data.capture.audio", "data.capture.camera", "data.read.clipboard", "data.read.location", "data.read.screen",
	"execution.proc.spawn", "privileged.input.inject", "privileged.secret.read",
}

// labels are what people call the devices. Without them the devices are shown by their IDs.
func (v *visit) labels() map[capabilities.NodeID]string {
	var list struct {
		Nodes []api.Node `json:"nodes"`
	}
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
	Cells  []bar
}

// Calls is what narrows the list of calls to those.
func (r usedRow) Calls() string {
	return query("principal", string(r.Principal), "tool", string(r.Tool), "node", string(r.Node))
}

func usedRows(p *api.Privilege, labels map[capabilities.NodeID]string) []usedRow {
	apart := map[api.PrivilegeRow]map[time.Time]int64{}
	for _, r := range p.Rows {
		start, n := r.Start.UTC(), r.Executions
		r.Start, r.Executions = time.Time{}, 0
		if apart[r] == nil {
			apart[r] = map[time.Time]int64{}
		}
		apart[r][start] += n
	}
	times, most := starts(p.GovernanceSpan), mostOf(maps.Values(apart))
	all := make([]usedRow, 0, len(apart))
	for r, n := range apart {
		one := usedRow{PrivilegeRow: r, Device: orElse(labels[r.Node], string(r.Node)), Cells: strip(times, p.Grain, n, most)}
		for _, calls := range n {
			one.Executions += calls
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b usedRow) int {
		return cmp.Or(cmp.Compare(b.Executions, a.Executions), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// mostOf is the largest number of several rows, at least 1.
func mostOf(rows iter.Seq[map[time.Time]int64]) int64 {
	most := int64(1)
	for n := range rows {
		for _, calls := range n {
			most = max(most, calls)
		}
	}
	return most
}

// stripHigh is how high a strip is, in its own units; it is 600 wide.
const stripHigh = 60

// strip is a row of numbers by time: the darker, the more.
func strip(times []time.Time, grain string, n map[time.Time]int64, most int64) []bar {
	wide := 600 / float64(max(1, len(times)))
	var all []bar
	for i, t := range times {
		if count := n[t.UTC()]; count > 0 {
			heat := 1 + int(3*float64(count)/float64(most))
			all = append(all, bar{
				fixed(float64(i) * wide), "0", fixed(max(1, wide-1)), strconv.Itoa(stripHigh), "heat" + strconv.Itoa(min(heat, 4)),
				fmt.Sprintf("%s: %d", stampOf(t, grain), count),
			})
		}
	}
	return all
}

// frictionRow is what a rule denied, with the way to the rule.
type frictionRow struct{ api.FrictionRow }

// Written reports whether the rule stands in a file that somebody can change.
func (r frictionRow) Written() bool { return r.Rule != "" && !strings.Contains(r.Rule, " ") }

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

func profileRows(list []api.ProfileRow) []profileRow {
	var all []profileRow
	for _, r := range list {
		all = append(all, profileRow{r})
	}
	return all
}

// Edit is what opens the files at the rule.
func (r frictionRow) Edit() string { return query("rule", r.Rule) }

func frictionRows(list []api.FrictionRow) []frictionRow {
	var all []frictionRow
	for _, r := range list {
		all = append(all, frictionRow{r})
	}
	return all
}

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
	type at struct {
		start    time.Time
		severity string
	}
	n, sums := map[at]int64{}, map[time.Time]int64{}
	var out bars
	for _, r := range d.Rows {
		n[at{r.Start.UTC(), r.Severity}] += r.Events
		sums[r.Start.UTC()] += r.Events
		out.Total += r.Events
		out.Most = max(out.Most, sums[r.Start.UTC()])
	}
	times := starts(d.GovernanceSpan)
	wide := 600 / float64(max(1, len(times)))
	for i, t := range times {
		y := 118.0
		for _, severity := range severities {
			count := n[at{t.UTC(), severity}]
			if count == 0 {
				continue
			}
			high := max(1, 116*float64(count)/float64(out.Most))
			y -= high
			out.Bars = append(out.Bars, bar{
				fixed(float64(i) * wide), fixed(y), fixed(max(1, wide-1)), fixed(high), severity,
				fmt.Sprintf("%s: %d %s", stampOf(t, d.Grain), count, severity),
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
	Rows        []heatRow
	Unavailable int
}

// heatRow is one pool.
type heatRow struct {
	Device string
	Calls  int64
	Cells  []bar
	Class  capabilities.IsolationClass
	Given  capabilities.IsolationClass
	Node   capabilities.NodeID
}

// Those is what narrows the list of calls to those of the pool.
func (r heatRow) Those() string { return query("node", string(r.Node), "isolation", string(r.Class)) }

// maxPools bounds the pools that are shown.
const maxPools = 40

func heatmapOf(i *api.Isolation, labels map[capabilities.NodeID]string) heatmap {
	type pool struct {
		class, given capabilities.IsolationClass
		node         capabilities.NodeID
	}
	n := map[pool]map[time.Time]int64{}
	for _, r := range i.Rows {
		p := pool{r.Class, r.Given, r.Node}
		if n[p] == nil {
			n[p] = map[time.Time]int64{}
		}
		n[p][r.Start.UTC()] += r.Executions
	}
	out := heatmap{}
	for _, r := range i.Unavailable {
		out.Unavailable += int(r.Executions)
	}
	pools := slices.SortedFunc(maps.Keys(n), func(a, b pool) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.given, b.given), cmp.Compare(a.node, b.node))
	})
	times, most := starts(i.GovernanceSpan), mostOf(maps.Values(n))
	for _, p := range pools[:min(len(pools), maxPools)] {
		row := heatRow{
			Device: orElse(labels[p.node], string(p.node)), Cells: strip(times, i.Grain, n[p], most), Class: p.class, Given: p.given, Node: p.node,
		}
		for _, calls := range n[p] {
			row.Calls += calls
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
