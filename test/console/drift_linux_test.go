package console

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The page shows what drifted and what holds because of it, and an admin ends each with a reason.
// An operator sees the same, and no button (S1-50 to S1-54).
func TestDriftIsEndedOnThePage(t *testing.T) {
	d := startSite(t)
	d.Drifts = true
	d.handler.Stray = func(inv capabilities.Invocation, text string) {
		if key, ok := strings.CutPrefix(text, "stray "); ok {
			inv.Observe(key, "evil.example")
		}
	}
	d.enter(principal.RoleOperator)
	for _, key := range []string{"network.egress.https", "data.write.workspace", "network.egress.https"} {
		d.result(d.call("robot", string(site.ToolEcho), `{"text":"stray `+key+`"}`))
	}
	d.goTo("/console/governance")
	d.says("violation", "data.write.workspace")
	d.goTo("/console/drift")
	d.says("In quarantine", "takes no calls", "Raised risk", "Open events", "network.egress.https", "evil.example", "It was recorded.")
	if n := d.value(`document.querySelectorAll("main form[method=post]").length`); n != "0" {
		t.Errorf("an operator has %s forms", n)
	}
	d.enter(principal.RoleAdmin)
	d.goTo("/console/drift")
	d.says("Lift quarantine", "Resolve event")
	d.shots("drift-quarantine")
	end := func(label, outcome string) {
		t.Helper()
		must(t, d.run(`(() => { const b = document.querySelector("button[aria-label^='`+label+`']"); b.form.reason.value = "looked at"; b.click() })(); 1`, nil))
		d.await(`document.body.innerText.includes("` + outcome + `")`)
	}
	end("Lift quarantine", "It takes calls again.")
	end("Resolve event", "It raises no risk any more.")
	d.result(d.call("robot", string(site.ToolEcho), `{"text":"stray privileged.secret.read"}`))
	d.goTo("/console/drift")
	d.says("Restricted tools", "restricted", "critical", "Approve tool")
	d.shots("drift-restricted")
	end("Approve tool", "The tool can be called again.")
	d.goTo("/console/drift?all=1")
	d.says("All events", "looked at", "Resolved")
	d.quiet()
}

// Several events end with one reason: those that are chosen, or all that are shown, which the form
// above narrows; each has a packet of its own. The page of the call says what drifted in it
// (S1-49, S1-54, S1-55).
func TestSeveralEventsAreResolvedOnThePage(t *testing.T) {
	d := startSite(t)
	d.Drifts = true
	d.handler.Stray = func(inv capabilities.Invocation, text string) {
		for _, key := range strings.Fields(text) {
			inv.Observe(key, "evil.example")
		}
	}
	d.enter(principal.RoleAdmin)
	var last capabilities.Result
	for range 2 {
		last = d.result(d.call("robot", string(site.ToolEcho), `{"text":"network.egress.https data.write.workspace"}`))
	}
	d.goTo("/console/calls/" + string(last.Call))
	d.says("What drifted", "data.write.workspace", "violation", "Isolation needed", "Isolation it got", "Runner")
	d.shots("call-drifted")
	d.goTo("/console/drift")
	const cards = `document.querySelectorAll("article[id^='e-']").length`
	d.await(cards + ` === 4`)
	d.shots("drift-several")
	open := func() int {
		list, _, err := d.Drift.List(t.Context(), events.Filter{Open: true})
		must(t, err)
		return len(list)
	}
	press := func(button string) {
		t.Helper()
		must(t, d.run(`(() => { const f = document.getElementById("several"); f.reason.value = "looked at"; f.querySelector("button[value=`+button+`]").click() })(); 1`, nil))
	}
	press("chosen")
	d.await(`document.body.innerText.includes("Choose the events")`)
	if open() != 4 {
		t.Fatalf("%d are open", open())
	}
	must(t, d.run(`[...document.querySelectorAll("input[name=event]")].slice(0, 2).forEach((b) => b.click()); 1`, nil))
	press("chosen")
	d.await(`document.body.innerText.includes("They raise no risk any more.") && ` + cards + ` === 2`)
	d.goTo("/console/drift?signal=write")
	d.await(cards + ` === 1 && !document.getElementById("several")`)
	d.goTo("/console/drift?tool=" + string(site.ToolEcho))
	press("shown")
	d.await(`document.body.innerText.includes("They raise no risk any more.") && ` + cards + ` === 0`)
	packets, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: ledger.KindDriftResolved})
	must(t, err)
	if len(packets) != 4 || open() != 0 {
		t.Errorf("%d packets, %d are open", len(packets), open())
	}
	d.quiet("/console/drift") // where nothing was chosen
}

// The drift monitor shows all five signals in all three severities, of a device that lies: it tells
// of a host, a file and a secret that no call was granted, and of a class below the one that was
// needed; and a page tells of what it offered. The six indicators follow (S1-43 to S1-50, S1-56,
// S1-57).
func TestTheMonitorShowsFiveSignals(t *testing.T) {
	d := startSite(t)
	d.Drifts = true
	d.node.Lie(func(ticket *wire.Ticket) wire.Answer {
		a := wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"text":"x"}`), Isolation: capabilities.ClassT2, Effect: capabilities.EffectConfirmed}
		see := func(key, detail string) {
			a.Observed = append(a.Observed, wire.Observation{Key: key, Detail: detail, Count: 1})
		}
		switch text := string(ticket.Args); {
		case strings.Contains(text, "network"):
			see("network.egress.https", "evil.example:443")
		case strings.Contains(text, "write"):
			see("data.write.workspace", "/etc/cron.d/own")
		case strings.Contains(text, "secret"):
			see("privileged.secret.read", "prod-database")
		case strings.Contains(text, "class"):
			a.Isolation = capabilities.ClassT0
		}
		return a
	})
	d.enter(principal.RoleAdmin)
	d.Grant("robot", d.node, string(site.ToolPress))
	for _, one := range []struct {
		tool capabilities.ToolID
		text string
		code capabilities.Code
	}{{site.ToolPress, "class", capabilities.CodeDriftCritical}, {site.ToolEcho, "network", ""}, {site.ToolSlow, "write", ""}, {site.ToolEcho, "secret", capabilities.CodeDriftCritical}} {
		if r := d.result(d.call("robot", string(one.tool), `{"text":"`+one.text+`"}`)); r.Code != one.code {
			t.Errorf("%s: %s %s", one.text, r.Code, r.Message)
		}
	}
	if got := d.sendJSON("/console/surfaced", map[string]any{"surface": "console", "page": "/console/stop", "controls": []string{"POST /v1/no-such"}}); got != "204" {
		t.Error(got)
	}
	d.goTo("/console/governance?days=1")
	monitor := d.value(`document.getElementById("drift").innerText`)
	for _, want := range []string{"network", "write", "secret", "surface", "isolation", "warning", "violation", "critical"} {
		if !strings.Contains(monitor, want) {
			t.Errorf("the monitor has no %s: %s", want, monitor)
		}
	}
	if n := d.value(`new Set([...document.querySelectorAll("#drift svg:not(.strip) rect")].map((r) => r.getAttribute("class"))).size`); n != "3" {
		t.Errorf("bars of %s severities", n)
	}
	d.shots("drift-monitor")
	kpi := func(name, want string) {
		t.Helper()
		if got := d.value(`document.querySelector("#k-` + name + ` .big").innerText`); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
	// Of four calls three did what their tools do not declare; one was privileged and below its
	// class. The start's activation of its policy is the fifth.
	kpi("declaration_completeness", "40.0 %")
	kpi("grant_reduction_ratio", "0.0 %")
	kpi("drift_per_1000", "1000")
	kpi("privileged_share", "40.0 %")
	kpi("isolation_mismatches", "1")
	kpi("mean_time_to_remediate_s", "nothing yet")
	exposed := d.value(`document.getElementById("privilege").innerText`)
	for _, want := range []string{"robot", string(site.ToolPress), "privileged.input.inject", "study"} {
		if !strings.Contains(exposed, want) {
			t.Errorf("privilege exposure has no %s: %s", want, exposed)
		}
	}
	d.goTo("/console/drift")
	d.says("evil.example:443", "/etc/cron.d/own", "prod-database", "POST /v1/no-such", "Restricted tools")
	if n := d.value(`document.querySelectorAll("a[href*='/console/policies/'], a[href*='profile=']").length`); n == "0" {
		t.Error("no event leads to its profile and its policy")
	}
	d.shots("drift-events")
	own := d.value(`document.querySelector("a[href*='runner=']").href`)
	d.goTo(own[strings.Index(own, "/console/"):])
	d.says(string(site.ToolEcho))
	d.shots("drift-calls-of-a-runner")
	// The agent had hands on this device a moment ago, so its pages end no event yet.
	list, _, err := d.Drift.List(t.Context(), events.Filter{Open: true})
	must(t, err)
	_, err = d.Drift.Resolve(t.Context(), "ann", "looked at", list[0].ID)
	must(t, err)
	d.goTo("/console/governance?days=1")
	if got := d.value(`document.querySelector("#k-mean_time_to_remediate_s .big").innerText`); got == "nothing yet" {
		t.Error("no time to remediate")
	}
	d.quiet()
}
