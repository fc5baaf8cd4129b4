package governance

import (
	"context"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
)

// amounts are the numbers that the six KPIs are made of, over some time.
type amounts struct {
	executions, undeclared, declared, effective, drifts, privileged, mismatches, below, resolved, resolvedMS int64
}

// kpi is one of the six: how it follows from the amounts, and when it is good.
type kpi struct {
	name       string
	unit       string
	target     float64
	least      bool // it is to be at least target, not at most
	definition string
	of         func(*amounts) (value float64, known bool)
}

// share is part of all, unknown of nothing.
func share(part, all int64) (float64, bool) {
	if all <= 0 {
		return 0, false
	}
	return float64(part) / float64(all), true
}

// kpis are the six of S1-57, in their order there. The seed names them and leaves their sums open:
// the definitions are ours and stand beside the numbers wherever these are shown.
var kpis = [...]kpi{
	{
		name: "declaration_completeness", unit: "share", target: 1, least: true,
		definition: "Calls in which nothing was seen that the tool does not declare, as a share of all calls that were carried out.",
		of:         func(a *amounts) (float64, bool) { return share(max(0, a.executions-a.undeclared), a.executions) },
	},
	{
		name: "grant_reduction_ratio", unit: "share", target: 0.1,
		definition: "Keys that tools declared and calls were not granted, as a share of all keys declared, over all decisions.",
		of:         func(a *amounts) (float64, bool) { return share(max(0, a.declared-a.effective), a.declared) },
	},
	{
		name: "drift_per_1000", unit: "per 1,000", target: 1,
		definition: "Drift events for every 1,000 calls that were carried out.",
		of: func(a *amounts) (float64, bool) {
			v, known := share(a.drifts, a.executions)
			return 1000 * v, known
		},
	},
	{
		name: "privileged_share", unit: "share", target: 0.05,
		definition: "Calls carried out with any privileged key granted, as a share of all calls carried out. Admin work is such a call: it is " +
			"most of what a new site does, and “Privilege exposure” says whose it was.",
		of: func(a *amounts) (float64, bool) { return share(a.privileged, a.executions) },
	},
	{
		name: "isolation_mismatches", unit: "count", target: 0,
		definition: "Calls for which the isolation that they need was not to be had, refused or let run by policy, and drift events of a call " +
			"below its class.",
		of: func(a *amounts) (float64, bool) { return float64(a.mismatches + a.below), true },
	},
	{
		name: "mean_time_to_remediate_s", unit: "seconds", target: 24 * 3600,
		definition: "Mean time from a drift event to a person's resolving it, over the events that were resolved in this time.",
		of: func(a *amounts) (float64, bool) {
			v, known := share(a.resolvedMS, a.resolved)
			return v / 1000, known
		},
	},
}

// amounts reads the amounts of s, apart by time; the zero time has all of them together.
func (m *Model) amounts(ctx context.Context, s span) (map[time.Time]*amounts, error) {
	by := map[time.Time]*amounts{{}: {}}
	for _, part := range [...]struct {
		fact fact
		put  func(*amounts) *int64
	}{
		{executions, func(a *amounts) *int64 { return &a.executions }}, {undeclared, func(a *amounts) *int64 { return &a.undeclared }},
		{declared, func(a *amounts) *int64 { return &a.declared }}, {effective, func(a *amounts) *int64 { return &a.effective }},
		{drifts, func(a *amounts) *int64 { return &a.drifts }}, {privileged, func(a *amounts) *int64 { return &a.privileged }},
		{mismatches, func(a *amounts) *int64 { return &a.mismatches }}, {resolved, func(a *amounts) *int64 { return &a.resolved }},
		{resolvedMS, func(a *amounts) *int64 { return &a.resolvedMS }},
	} {
		apart := []column{byTime}
		if part.fact == drifts {
			apart = append(apart, byB)
		}
		list, err := m.sums(ctx, s, part.fact, apart...)
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			a := by[one.start]
			if a == nil {
				a = &amounts{}
				by[one.start] = a
			}
			for _, to := range [...]*amounts{a, by[time.Time{}]} {
				*part.put(to) += one.n
				if one.b == "isolation" {
					to.below += one.n
				}
			}
		}
	}
	return by, nil
}

// KPIs returns the six numbers, each with its trend and what it was in the time before.
func (m *Model) KPIs(ctx context.Context, in Span) (api.KPIs, error) {
	s, about, err := m.about(ctx, in)
	out := api.KPIs{GovernanceSpan: about}
	if err != nil {
		return out, err
	}
	now, err := m.amounts(ctx, s)
	if err != nil {
		return out, err
	}
	before, err := m.amounts(ctx, s.before())
	if err != nil {
		return out, err
	}
	for i, to := range [...]*api.KPI{
		&out.DeclarationCompleteness, &out.GrantReductionRatio, &out.DriftPer1000, &out.PrivilegedShare, &out.IsolationMismatches,
		&out.MeanTimeToRemediate,
	} {
		k := kpis[i]
		*to = api.KPI{Name: k.name, Unit: k.unit, Target: k.target, Definition: k.definition, Trend: []float64{}}
		to.Value, to.Known = k.of(now[time.Time{}])
		to.Before, to.BeforeKnown = k.of(before[time.Time{}])
		to.Met = !to.Known || to.Value == k.target || k.least == (to.Value > k.target)
		for t := range slices.Values(s.starts()) {
			v := 0.0
			if a := now[t]; a != nil {
				v, _ = k.of(a)
			}
			to.Trend = append(to.Trend, v)
		}
	}
	return out, nil
}
