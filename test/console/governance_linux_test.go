package console

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
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
	d.says("Declaration completeness", "100.0 %", "Drift per 1,000 calls", "166.67", "off target", "Capability coverage", string(site.ToolEcho),
		"Isolation", "Drift", "POST /v1/no-such", "warning", "Privilege exposure", "Policy friction", "no such tool", "unknown_tool")
	if n := d.value(`document.querySelectorAll("svg.chart rect").length`); n == "0" {
		t.Error("no chart has a bar")
	}
	d.shots("governance")
	for _, view := range []string{"coverage", "isolation", "drift", "privilege", "friction", "changes", "profiles"} {
		d.goTo("/console/governance/" + view + "?days=30")
		d.says("All views", "One view, some rows at a time")
		if n := d.value(`document.querySelectorAll("section.card").length`); n != "1" {
			t.Errorf("%s: %s views", view, n)
		}
	}
	d.goTo("/console/governance/report?days=30")
	d.says("Compliance report", "counted through packet", "Signed hash", string(site.ToolEcho), "handrail ledger verify")
	d.shots("report")
	d.says("Personal data and retention", "pii_masked", "retention_extended", "Packets of that time")
	for view, want := range map[string]string{"compliance": "pii_masked", "profiles": "capability_profile_id", "changes": "before", "coverage": "tool_id,tool_slug,action,key", "friction": "unknown_tool", "drift": "POST /v1/no-such", "kpis": "privileged_share", "isolation": "isolation_class", "privilege": "principal"} {
		if body := read(t, d.URL()+"/console/governance/csv/"+view+"?days=7", session); !strings.Contains(body, want) {
			t.Errorf("%s: %s", view, body)
		}
	}
	d.quiet()
}

// An admin answers by links alone what they are asked: who used the microphone, which tools ask for
// more than they use, what changed since the last policy, which denials annoy most; the rule to
// change is opened, and the change is tried on last week's calls before it counts. From each number
// a link leads down to the calls (S1-55, S1-56).
func TestAnAdminAnswersWithoutAManual(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleAdmin)
	for range 3 {
		d.result(d.call("robot", string(site.ToolEcho), `{"text":"x"}`))
		d.result(d.call("robot", string(site.ToolSlow)+"er", `{}`))
	}
	staged, err := d.Rulebook.Stage(t.Context(), rules.Edit{By: "ann", Files: []policy.Source{{Name: "more.cedar", Data: []byte(`@id("no-echo") forbid (principal, action == Action::"tool.fixture.echo", resource);`)}}})
	must(t, err)
	d.goTo("/console/policies/" + staged.SnapshotID())
	d.await(`document.querySelector("input[name=read]")`)
	must(t, d.run(`document.querySelector("input[name=read]").checked = true; document.querySelector("button[value=activate]").click()`, nil))
	d.await(`document.getElementById("outcome").innerText.includes("Activated")`)
	if r := d.result(d.call("robot", string(site.ToolEcho), `{"text":"x"}`)); r.Status != capabilities.StatusDenied {
		t.Fatalf("%+v", r)
	}
	d.goTo("/console/governance")
	d.says("Often asked", "Since the last policy", "A policy came into force", "no-echo", "Profiles and policies")
	d.shots("governance-answers")
	d.click("who used the microphone last week")
	d.await(`new URLSearchParams(location.search).get("key") === "data.capture.audio" && document.getElementById("f-key").value === "data.capture.audio"`)
	d.says("Whose calls had data.capture.audio granted", "No call had such a key in this time")
	// Down to the calls.
	must(t, d.run(`document.querySelector("#coverage a[href*='tools']").click()`, nil))
	d.await(`location.pathname === "/console/tools/` + string(site.ToolEcho) + `"`)
	d.click("Its calls")
	d.await(`location.pathname === "/console/calls" && document.querySelectorAll("tbody tr").length === 4`)
	// From a profile to its calls under either policy, from the number to those under one, and from
	// such a call to its profile and its policy (S1-58).
	d.goTo("/console/governance")
	must(t, d.run(`document.querySelector("#profiles a[href*='snapshot=']").click()`, nil))
	d.await(`location.pathname === "/console/calls" && document.getElementById("f-snapshot").value.startsWith("sha256:") && document.getElementById("f-profile").value.startsWith("sha256:")`)
	const narrowed = `document.querySelectorAll("tbody tr").length`
	if n := d.value(narrowed); n != "3" && n != "1" {
		t.Errorf("%s calls under one policy", n)
	}
	must(t, d.run(`document.querySelector("tbody a").click()`, nil))
	d.await(`document.querySelector("a[href*='profile=']")`)
	must(t, d.run(`document.querySelector("a[href*='profile=']").click()`, nil))
	d.await(`location.pathname === "/console/calls" && location.search.startsWith("?profile=") && ` + narrowed + ` === 3`)
	d.goTo("/console/governance")
	must(t, d.run(`document.querySelector("#isolation td a").click()`, nil))
	d.await(`location.pathname === "/console/calls" && document.getElementById("f-isolation").value && ` + narrowed + ` === 3`)
	// From the denial to its rule, and what a change would have done.
	d.goTo("/console/governance")
	must(t, d.run(`[...document.querySelectorAll("#friction a")].find((a) => a.innerText === "no-echo").click()`, nil))
	d.await(`location.pathname === "/console/policies/edit" && document.activeElement.matches("textarea") && getSelection().toString().includes("no-echo")`)
	d.says("The rule no-echo is in more.cedar")
	d.shots("governance-rule")
	must(t, d.run(`(() => { const f = document.activeElement; f.value = '@id("no-echo") forbid (principal, action == Action::"tool.fixture.fail", resource);'; f.dispatchEvent(new Event("input", {bubbles: true})); })()`, nil))
	d.click("Stage it and see the difference")
	d.await(`document.querySelector("button[value=replay]") && document.getElementById("replay-days").value === "7"`)
	d.click("What would it have decided?")
	d.await(`document.getElementById("replay")`)
	if said := d.value(`document.getElementById("replay").innerText`); !strings.Contains(said, string(site.ToolEcho)) || !strings.Contains(said, "deny") {
		t.Errorf("the replay says %s", said)
	}
	d.shots("governance-replay")
	d.quiet()
}
