package console

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The five views and the six KPIs show what calls did, on the screen, as CSV and as a report
// that names its range of the ledger (S1-56, S1-57, S1-59).
func TestGovernanceShowsWhatCallsDid(t *testing.T) {
	d := startSite(t)
	session := d.session(principal.RoleAdmin)
	d.enter(principal.RoleAdmin)
	for range 5 {
		d.result(d.call("robot", string(site.ToolEcho), `{"text":"x"}`))
	}
	d.result(d.call("robot", "tool.made.up", `{}`))
	if got := d.sendJSON("/console/surfaced", map[string]any{"surface": "console", "page": "/console/stop", "controls": []string{"POST /v1/no-such"}}); got != "204" {
		t.Fatal(got)
	}
	d.goTo("/console/governance")
	d.says("Declaration completeness", "100.0 %", "Drift per 1,000 calls", "200", "off target", "Capability coverage", string(site.ToolEcho),
		"Isolation", "Drift", "POST /v1/no-such", "warning", "Privilege exposure", "Policy friction", "no such tool", "unknown_tool")
	if n := d.value(`document.querySelectorAll("svg.chart rect").length`); n == "0" {
		t.Error("no chart has a bar")
	}
	d.shots("governance")
	d.goTo("/console/governance/report?days=30")
	d.says("Compliance report", "counted through packet", "Signed hash", string(site.ToolEcho), "handrail ledger verify")
	d.shots("report")
	for view, want := range map[string]string{"coverage": "tool_id,tool_slug,action,key", "friction": "unknown_tool", "drift": "POST /v1/no-such", "kpis": "privileged_share", "isolation": "isolation_class", "privilege": "principal"} {
		if body := read(t, d.URL()+"/console/governance/csv/"+view+"?days=7", session); !strings.Contains(body, want) {
			t.Errorf("%s: %s", view, body)
		}
	}
	d.quiet()
}
