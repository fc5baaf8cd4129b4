package rest_test

import (
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/governance"
)

// nothingCounted is a Governance of which nothing was recorded.
type nothingCounted struct{}

func (nothingCounted) Coverage(context.Context, governance.Span) (api.Coverage, error) {
	return api.Coverage{Rows: []api.CoverageRow{}}, nil
}

func (nothingCounted) Isolation(context.Context, governance.Span) (api.Isolation, error) {
	return api.Isolation{Rows: []api.IsolationRow{}, Unavailable: []api.IsolationRow{}}, nil
}

func (nothingCounted) Drift(context.Context, governance.Span) (api.DriftMonitor, error) {
	return api.DriftMonitor{Rows: []api.DriftRow{}}, nil
}

func (nothingCounted) Privilege(context.Context, governance.Span) (api.Privilege, error) {
	return api.Privilege{Rows: []api.PrivilegeRow{}}, nil
}

func (nothingCounted) Friction(context.Context, governance.Span) (api.Friction, error) {
	return api.Friction{Rows: []api.FrictionRow{}}, nil
}

func (nothingCounted) KPIs(context.Context, governance.Span) (out api.KPIs, err error) {
	for _, k := range []*api.KPI{&out.DeclarationCompleteness, &out.GrantReductionRatio, &out.DriftPer1000, &out.PrivilegedShare, &out.IsolationMismatches, &out.MeanTimeToRemediate} {
		k.Trend = []float64{}
	}
	return out, nil
}

func (nothingCounted) Compliance(context.Context, governance.Span) (api.Compliance, error) {
	return api.Compliance{Checks: []api.ComplianceCheck{}, Artifacts: []api.RetentionRow{}}, nil
}

func (nothingCounted) Profiles(context.Context, governance.Span) (api.Profiles, error) {
	return api.Profiles{Rows: []api.ProfileRow{}}, nil
}

func (nothingCounted) Changes(context.Context, governance.Span) (api.Changes, error) {
	return api.Changes{Rows: []api.ChangeRow{}}, nil
}

func (nothingCounted) Since(context.Context, time.Time) (uint64, error) { return 0, nil }

// told answers with one row and notes what it was asked.
type told struct {
	nothingCounted
	asked governance.Span
}

func (t *told) Privilege(_ context.Context, in governance.Span) (api.Privilege, error) {
	t.asked = in
	return api.Privilege{Rows: []api.PrivilegeRow{{Tool: "tool.a.b", Key: "privileged.secret.read", Principal: "=cmd|' /C calc'!A0", Executions: 3}}}, nil
}

func (t *told) KPIs(_ context.Context, in governance.Span) (api.KPIs, error) {
	t.asked = in
	return api.KPIs{DriftPer1000: api.KPI{Name: "drift_per_1000", Value: 0.5, Trend: []float64{1, 2}}}, nil
}

func (t *told) Friction(context.Context, governance.Span) (api.Friction, error) {
	return api.Friction{}, errors.New("none")
}

// Views are answered as JSON and as CSV, over the time that is asked for, to readers of the ledger.
func TestGovernanceViews(t *testing.T) {
	numbers := &told{}
	a := start(t, func(o *rest.Options) { o.Governance = numbers })
	var got api.Privilege
	a.ok(a.admin, "GET", "/v1/governance/privilege?from=2026-11-01&to=2026-11-20T09:00:00Z&tool=tool.a.b&key=data.capture.audio", "", &got)
	if len(got.Rows) != 1 || got.Rows[0].Executions != 3 {
		t.Errorf("%+v", got)
	}
	want := governance.Span{From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Tool: "tool.a.b", Key: "data.capture.audio"}
	if numbers.asked != want {
		t.Errorf("asked %+v", numbers.asked)
	}
	status, body := a.do(a.admin, "GET", "/v1/governance/privilege?format=csv", "")
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if status != 200 || err != nil || len(rows) != 2 || rows[0][1] != "tool_id" || rows[1][3] != "'=cmd|' /C calc'!A0" {
		t.Errorf("%d %q, %v", status, rows, err)
	}
	if status, body = a.do(a.admin, "GET", "/v1/governance/kpis?format=csv", ""); status != 200 || !strings.Contains(body, "drift_per_1000,0.5,") || strings.Count(body, "\n") != 7 {
		t.Errorf("%d %s", status, body)
	}
	a.ok(a.admin, "GET", "/v1/governance/privilege?sum=1&limit=25&offset=50", "", &got)
	if want = (governance.Span{Sum: true, Limit: 25, Offset: 50}); numbers.asked != want {
		t.Errorf("asked %+v", numbers.asked)
	}
	for _, bad := range []string{"limit=-1", "offset=many", "sum=yes"} {
		if status, body = a.do(a.admin, "GET", "/v1/governance/privilege?"+bad, ""); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	for _, bad := range []string{"from=yesterday", "to=2026", "format=xml", "limit=3"} {
		if status, body = a.do(a.admin, "GET", "/v1/governance/kpis?"+bad, ""); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	if status, _ = a.do(a.agent, "GET", "/v1/governance/kpis", ""); status != 403 {
		t.Errorf("an agent reads it: %d", status)
	}
	if status, _ = a.do(a.admin, "GET", "/v1/governance/friction", ""); status != 500 {
		t.Errorf("a failure is %d", status)
	}
}
