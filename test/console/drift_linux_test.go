package console

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
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
