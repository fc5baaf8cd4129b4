package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The record of a call says who made it in which conversation, in which role, and which permission
// of a person's it used (S4-20).
func TestACallBringsItsContext(t *testing.T) {
	h := start(t, site.Options{Rules: askEcho})
	n := h.AddNode("one", site.NewHandler())
	token := h.MustToken("anna", principal.RoleAgent) // its lane has her name
	h.Grant("anna", n, string(site.ToolEcho))
	r, err := newCaller(t, h.URL(), token).call(ctx(), site.ToolEcho, text("x"), "")
	must(t, err)
	want(t, r, "ok", "")
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Call: r.Call, Limit: 10})
	must(t, err)
	var role, grant string
	for _, p := range packets {
		if p.Principal != "anna" || p.Lane != "anna" {
			t.Errorf("%s is of %q in %q", p.Kind, p.Principal, p.Lane)
		}
		if p.Kind == ledger.KindCallDecision {
			var body struct{ Role, Grant string }
			must(t, json.Unmarshal(p.Body, &body))
			role, grant = body.Role, body.Grant
		}
	}
	if all := h.Consent.Grants(); role != "agent" || len(all) != 1 || grant != all[0].ID {
		t.Errorf("role %q, grant %q of %+v", role, grant, all)
	}
}

// The figures that operators look at have fixed names (S4-46), with '_' for '.'.
func TestFiguresHaveTheirNames(t *testing.T) {
	h, _, _ := one(t)
	want(t, h.Call(ctx(), site.ToolEcho, text("x"), ""), "ok", "")
	want(t, h.Call(ctx(), site.ToolFail, `{"text":"y","code":"internal"}`, ""), "error", "internal")
	admin := newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	admin.ok(http.MethodPost, "/v1/selections", `{"intent":"take a screenshot of the page"}`, nil)
	_, metrics := admin.do(http.MethodGet, "/metrics", "")
	for _, line := range []string{
		"tools_select_latency_ms_count 1", `tools_dispatch_latency_ms_count{status="ok",tool="tool.fixture.echo"} 1`,
		`tools_dispatch_latency_ms_count{status="error",tool="tool.fixture.fail"} 1`, "tools_dispatch_error_rate 0.5", "tools_registry_size ",
	} {
		if !strings.Contains(string(metrics), "\n"+line) {
			t.Errorf("no line %q in\n%s", line, metrics)
		}
	}
}
