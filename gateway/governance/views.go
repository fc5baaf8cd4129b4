package governance

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
)

// Span is what a view is asked about. Empty fields match all.
type Span struct {
	From time.Time // default: a week before To
	To   time.Time // not in it; default: now
	Tool capabilities.ToolID
	Key  string // for Privilege alone
	// Sum has Isolation, Drift and Privilege add up all of the time, the largest rows first, each
	// with its trend; default: a row for each time of the grain.
	Sum bool
	// Offset and Limit are which rows of a view are wanted; default: all.
	Offset, Limit int
}

// rowsOf returns those of the rows of a view that are wanted.
func rowsOf[T any](in Span, rows []T) ([]T, api.GovernanceRows) {
	first := min(max(0, in.Offset), len(rows))
	last := len(rows)
	if in.Limit > 0 {
		last = min(last, first+in.Limit)
	}
	return rows[first:last], api.GovernanceRows{Total: len(rows), Offset: first}
}

// Bounds of a span and of an answer.
const (
	hoursUpTo = 3 * 24 * time.Hour  // longer ones are counted by the day
	daysUpTo  = 93 * 24 * time.Hour // and longer ones by the month
	maxSpan   = 20 * 365 * 24 * time.Hour
)

// span is a Span in whole times of its grain.
type span struct {
	from, to time.Time
	grain    Grain
	tool     capabilities.ToolID
}

func (m *Model) span(in Span) (span, error) {
	now := m.opts.Now().UTC()
	if in.To.IsZero() {
		in.To = now
	}
	if in.From.IsZero() {
		in.From = in.To.Add(-7 * 24 * time.Hour)
	}
	long := in.To.Sub(in.From)
	if long <= 0 || long > maxSpan {
		return span{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "from must be before to, by at most twenty years")
	}
	s := span{grain: Month, tool: in.Tool}
	switch {
	case long <= hoursUpTo && in.From.After(now.Add(-keepHours)):
		s.grain = Hour
	case long <= daysUpTo && in.From.After(now.Add(-keepDays)):
		s.grain = Day
	}
	s.from, s.to = s.grain.start(in.From), s.grain.start(in.To)
	if s.to.Before(in.To) {
		s.to = s.grain.next(s.to)
	}
	return s, nil
}

// before is the span of the same length before s.
func (s span) before() span {
	was := s
	was.to = s.from
	was.from = s.from.Add(-s.to.Sub(s.from))
	if s.grain == Month {
		months := (s.to.Year()-s.from.Year())*12 + int(s.to.Month()-s.from.Month())
		was.from = s.from.AddDate(0, -months, 0)
	}
	return was
}

// starts are the times of s, at most a few hundred.
func (s span) starts() []time.Time {
	var all []time.Time
	for t := s.from; t.Before(s.to); t = s.grain.next(t) {
		all = append(all, t)
	}
	return all
}

// about makes what every answer begins with, and folds what is not counted yet.
func (m *Model) about(ctx context.Context, in Span) (span, api.GovernanceSpan, error) {
	s, err := m.span(in)
	if err != nil {
		return s, api.GovernanceSpan{}, err
	}
	through, err := m.CatchUp(ctx)
	if err != nil {
		return s, api.GovernanceSpan{}, err
	}
	head := m.opts.Ledger.Head()
	return s, api.GovernanceSpan{
		From: s.from, To: s.to, Grain: s.grain.String(), Through: through, Head: hex.EncodeToString(head.Hash[:]), HeadSeq: head.Seq,
	}, nil
}

// Coverage returns what tools declare beside what they are granted and what they use: the keys
// that are granted and never used first, then by tool and key.
func (m *Model) Coverage(ctx context.Context, in Span) (api.Coverage, error) {
	s, about, err := m.about(ctx, in)
	out := api.Coverage{GovernanceSpan: about, Rows: []api.CoverageRow{}}
	if err != nil {
		return out, err
	}
	type key struct {
		tool capabilities.ToolID
		key  string
	}
	rows := map[key]*api.CoverageRow{}
	declares := map[capabilities.ToolID]bool{}
	runs := map[capabilities.ToolID]bool{} // tools that are programs: nothing tells what one reads
	for _, part := range [...]struct {
		fact fact
		put  func(*api.CoverageRow) *int64
	}{
		{declared, func(r *api.CoverageRow) *int64 { return &r.Declared }}, {effective, func(r *api.CoverageRow) *int64 { return &r.Effective }},
		{withheld, func(r *api.CoverageRow) *int64 { return &r.Withheld }}, {used, func(r *api.CoverageRow) *int64 { return &r.Executions }},
		{observed, func(r *api.CoverageRow) *int64 { return &r.Observed }},
	} {
		list, err := m.sums(ctx, s, part.fact, byTool, byA)
		if err != nil {
			return out, err
		}
		for _, one := range list {
			at := key{one.tool, one.a}
			r := rows[at]
			if r == nil {
				r = &api.CoverageRow{Tool: one.tool, Slug: one.tool.Family(), Action: one.tool.Action(), Key: one.a, Category: category(one.a)}
				rows[at] = r
			}
			*part.put(r) = one.n
			declares[one.tool] = true
			if one.a == "execution.proc.spawn" {
				runs[one.tool] = true
			}
		}
	}
	everybody := s
	everybody.tool = "" // a filter changes no row
	told, err := m.sums(ctx, everybody, observed, byA)
	if err != nil {
		return out, err
	}
	reported := map[string]bool{} // keys whose use nodes tell
	for _, one := range told {
		reported[one.a] = true
	}
	ran, err := m.sums(ctx, s, executions, byTool)
	if err != nil {
		return out, err
	}
	for _, one := range ran { // a tool that declares nothing has a row, too
		if !declares[one.tool] {
			rows[key{tool: one.tool}] = &api.CoverageRow{Tool: one.tool, Slug: one.tool.Family(), Action: one.tool.Action(), Executions: one.n}
		}
	}
	for _, r := range rows {
		r.Unused = r.Executions > 0 && r.Observed == 0 && reported[r.Key] && !(runs[r.Tool] && strings.HasPrefix(r.Key, "data.read."))
		out.Rows = append(out.Rows, *r)
	}
	sort.Slice(out.Rows, func(i, j int) bool {
		a, b := out.Rows[i], out.Rows[j]
		if a.Unused != b.Unused {
			return a.Unused
		}
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Key, b.Key)) < 0
	})
	out.Rows, out.GovernanceRows = rowsOf(in, out.Rows)
	return out, nil
}

// Isolation returns in which classes and pools of runners calls ran, by time.
func (m *Model) Isolation(ctx context.Context, in Span) (api.Isolation, error) {
	s, about, err := m.about(ctx, in)
	out := api.Isolation{GovernanceSpan: about, Rows: []api.IsolationRow{}, Unavailable: []api.IsolationRow{}}
	if err != nil {
		return out, err
	}
	ran, err := m.counted(ctx, s, in, executions, nil, byA, byB, byC)
	if err != nil {
		return out, err
	}
	ran.rows, out.GovernanceRows = rowsOf(in, ran.rows)
	trends := ran.trends(s)
	for i, one := range ran.rows {
		out.Rows = append(out.Rows, api.IsolationRow{
			Start: one.start, Class: capabilities.IsolationClass(one.a), Given: capabilities.IsolationClass(one.b), Node: capabilities.NodeID(one.c),
			Executions: one.n, Trend: trends[i],
		})
	}
	none, err := m.counted(ctx, s, in, mismatches, nil, byA)
	if err != nil {
		return out, err
	}
	for _, one := range none.rows {
		out.Unavailable = append(out.Unavailable,
			api.IsolationRow{Start: one.start, Class: capabilities.IsolationClass(one.a), Executions: one.n})
	}
	return out, err
}

// Drift returns how many events there were, by time, tool, severity, signal and key; of sums the
// worst first.
func (m *Model) Drift(ctx context.Context, in Span) (api.DriftMonitor, error) {
	s, about, err := m.about(ctx, in)
	out := api.DriftMonitor{GovernanceSpan: about, Rows: []api.DriftRow{}, Severities: []api.DriftSeverity{}}
	if err != nil {
		return out, err
	}
	all, err := m.counted(ctx, s, Span{Sum: true}, drifts, nil, byA)
	if err != nil {
		return out, err
	}
	trends := all.trends(s)
	for i, one := range all.rows {
		out.Severities = append(out.Severities, api.DriftSeverity{Severity: one.a, Events: one.n, Trend: trends[i]})
	}
	events, err := m.counted(ctx, s, in, drifts, nil, byTool, byA, byB, byC)
	if err != nil {
		return out, err
	}
	if in.Sum {
		sort.SliceStable(events.rows, func(i, j int) bool {
			return drift.Severity(events.rows[i].a).Worse(drift.Severity(events.rows[j].a))
		})
	}
	events.rows, out.GovernanceRows = rowsOf(in, events.rows)
	trends = events.trends(s)
	for i, one := range events.rows {
		out.Rows = append(out.Rows,
			api.DriftRow{Start: one.start, Tool: one.tool, Severity: one.a, Signal: one.b, Key: one.c, Events: one.n, Trend: trends[i]})
	}
	return out, nil
}

// Privilege returns who used in.Key with which tools, by time; without one, all privileged keys.
func (m *Model) Privilege(ctx context.Context, in Span) (api.Privilege, error) {
	s, about, err := m.about(ctx, in)
	out := api.Privilege{GovernanceSpan: about, Rows: []api.PrivilegeRow{}}
	if err != nil {
		return out, err
	}
	wanted := func(c *cell) bool { return c.A == in.Key || in.Key == "" && isPrivileged(c.A) }
	had, err := m.counted(ctx, s, in, used, wanted, byTool, byA, byB, byC)
	if err != nil {
		return out, err
	}
	had.rows, out.GovernanceRows = rowsOf(in, had.rows)
	trends := had.trends(s)
	for i, one := range had.rows {
		out.Rows = append(out.Rows, api.PrivilegeRow{
			Start: one.start, Tool: one.tool, Key: one.a, Principal: capabilities.PrincipalID(one.b), Node: capabilities.NodeID(one.c),
			Executions: one.n, Trend: trends[i],
		})
	}
	return out, nil
}

// Friction returns what policy denied, asked about and took away, and by which rule: what happened
// most often first.
func (m *Model) Friction(ctx context.Context, in Span) (api.Friction, error) {
	s, about, err := m.about(ctx, in)
	out := api.Friction{GovernanceSpan: about, Categories: []api.FrictionCategory{}, Rows: []api.FrictionRow{}}
	if err != nil {
		return out, err
	}
	list, err := m.sums(ctx, s, decisions, byTool, byA, byB, byC)
	if err != nil {
		return out, err
	}
	for _, one := range list {
		out.Decisions += one.n
		if one.a != "allow" && !m.ownWork(one.tool, one.a) {
			out.Rows = append(out.Rows, api.FrictionRow{Effect: one.a, Tool: one.tool, Code: capabilities.Code(one.b), Rule: one.c, Calls: one.n})
		}
	}
	less, err := m.sums(ctx, s, withheld, byTool, byA, byB)
	if err != nil {
		return out, err
	}
	if out.Categories, err = m.byCategory(ctx, s, less); err != nil {
		return out, err
	}
	for _, one := range less {
		out.Rows = append(out.Rows,
			api.FrictionRow{Effect: "reduced", Category: category(one.a), Key: one.a, Tool: one.tool, Rule: one.b, Calls: one.n})
	}
	sort.SliceStable(out.Rows, func(i, j int) bool {
		a, b := out.Rows[i], out.Rows[j]
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Tool, b.Tool),
			cmp.Compare(a.Rule, b.Rule)) < 0
	})
	out.Rows, out.GovernanceRows = rowsOf(in, out.Rows)
	return out, nil
}

// ownWork reports whether a decision is about people's own work at a surface, which nobody had to
// allow them: their doing it is their consent.
func (m *Model) ownWork(tool capabilities.ToolID, effect string) bool {
	return effect == allowedByPerson && m.opts.Own != nil && m.opts.Own(tool)
}

// byCategory returns how often policy denied, asked and took keys away by the categories of what
// was wanted, in the order of their names.
func (m *Model) byCategory(ctx context.Context, s span, less []sum) ([]api.FrictionCategory, error) {
	refused, err := m.sums(ctx, s, refusals, byTool, byA, byB)
	if err != nil {
		return nil, err
	}
	rows := map[string]*api.FrictionCategory{}
	of := func(name string) *api.FrictionCategory {
		if rows[name] == nil {
			rows[name] = &api.FrictionCategory{Category: name}
		}
		return rows[name]
	}
	for _, one := range refused {
		switch {
		case m.ownWork(one.tool, one.b):
		case one.b == policy.Deny.String():
			of(one.a).Denied += one.n
		default:
			of(one.a).Asked += one.n
		}
	}
	for _, one := range less {
		of(category(one.a)).Reduced += one.n
	}
	list := make([]api.FrictionCategory, 0, len(rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		list = append(list, *rows[name])
	}
	return list, nil
}
