package governance

import (
	"context"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/gateway/metrics"
)

// measuredFor is how long figures stand for those of a moment: one reading of all series is one
// moment, and costs one look.
const measuredFor = 2 * time.Second

// measured are the figures of one moment.
type measured struct {
	mu sync.Mutex // above what follows
	at time.Time
	by map[string]map[string]float64
}

// Register has a registry show the six KPIs of the last week and the sums of the views, of all the
// time that there are packets of: the same numbers as the views, counted once.
func (m *Model) Register(r *metrics.Registry) {
	for _, one := range [...]struct{ name, help, label string }{
		{"handrail_governance_kpi", "The six numbers of governance over the last week; one that is not known is absent.", "kpi"},
		{"handrail_governance_decisions", "Decisions by effect.", "effect"},
		{"handrail_governance_executions", "Calls carried out by the isolation class that they needed.", "isolation_class"},
		{"handrail_governance_drift", "Drift events by severity.", "severity"},
		{"handrail_governance_withheld", "Keys that policy took away from calls, by key.", "key"},
		{"handrail_governance_privileged", "Calls carried out with a privileged key, by tool.", "tool"},
		{"handrail_governance_through", "The last packet that is counted.", "chain"},
	} {
		r.GaugeBy(one.name, one.help, one.label, func() map[string]float64 { return m.measure()[one.name] })
	}
}

// measure reads all figures, or returns those of a moment ago.
func (m *Model) measure() map[string]map[string]float64 {
	c := &m.measured
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := m.opts.Now(); c.by != nil && now.Sub(c.at) < measuredFor && !now.Before(c.at) {
		return c.by
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	by, err := m.figures(ctx)
	if err != nil {
		m.opts.Log.Warn("governance.metrics", "err", err)
		return nil
	}
	c.at, c.by = m.opts.Now(), by
	return by
}

func (m *Model) figures(ctx context.Context) (map[string]map[string]float64, error) {
	kpis, err := m.KPIs(ctx, Span{})
	if err != nil {
		return nil, err
	}
	by := map[string]map[string]float64{"handrail_governance_kpi": {}, "handrail_governance_through": {"gateway": float64(kpis.Through)}}
	for _, k := range kpis.All() {
		if k.Known {
			by["handrail_governance_kpi"][k.Name] = k.Value
		}
	}
	all := span{from: time.Unix(0, 0), to: m.opts.Now().AddDate(1, 0, 0), grain: Month}
	for _, one := range [...]struct {
		name string
		fact fact
		by   column
	}{
		{"handrail_governance_decisions", decisions, byA}, {"handrail_governance_executions", executions, byA},
		{"handrail_governance_drift", drifts, byA}, {"handrail_governance_withheld", withheld, byA},
		{"handrail_governance_privileged", privileged, byTool},
	} {
		list, err := m.sums(ctx, all, one.fact, one.by)
		if err != nil {
			return nil, err
		}
		to := map[string]float64{}
		for _, s := range list {
			label := s.a
			if one.by == byTool {
				label = string(s.tool)
			}
			to[label] = float64(s.n)
		}
		by[one.name] = to
	}
	return by, nil
}
