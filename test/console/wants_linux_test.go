package console

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// A person at the console sees which host a running call wants, with what it runs, and that a yes
// is for it alone; the connection goes on, or not, by one button.
func TestARunningCallWantsAHost(t *testing.T) {
	d := startSite(t)
	d.enter(principal.RoleOperator)
	const target = "github.com:443"
	ask := func(call capabilities.CallID) <-chan consent.HostSaid {
		done := make(chan consent.HostSaid, 1)
		go func() {
			said, err := d.Consent.AskHost(d.ctx, consent.HostAsk{
				Running: consent.Running{
					Call: call, Principal: "robot", Role: "agent", Tool: "tool.fs.bash", Title: "Run a command", Node: "n1", NodeLabel: "desk", Lane: "robot",
					Snapshot: d.Rulebook.Engine().SnapshotID(),
				},
				Target: target, Key: capabilities.NarrowDomains + target, Args: []byte(`{"command":"git clone https://github.com/a/b"}`), Evidence: map[string]any{"cwd": "."}, Purpose: "to read the sources",
				Risk: "high", Envelope: &policy.Summary{Hash: "h", Grants: []string{capabilities.KeyEgress, "execution.proc.spawn"}},
			})
			if err != nil {
				t.Error(err)
			}
			done <- said
		}()
		return done
	}
	answer := func(value string) { // on the card of the question that waits, whatever page is still shown
		t.Helper()
		button := `document.querySelector("#q-` + d.Consent.Approvals()[0].ID + ` button[value=` + value + `]")`
		d.await(button + ` !== null && !("settling" in document.body.dataset)`) // at once it is not heard
		must(t, d.run(button+`.click()`, nil))
		d.waiting(0)
	}
	answered := func(said <-chan consent.HostSaid) consent.HostSaid {
		t.Helper()
		select {
		case got := <-said:
			return got
		case <-time.After(within):
			t.Fatal("nobody's answer came")
			return consent.HostSaid{}
		}
	}
	said := ask("c1")
	d.waiting(1)
	d.await(`document.querySelectorAll("[data-question]").length === 1`) // without a reload
	text := d.value(`document.querySelector("[data-question]").innerText`)
	for _, want := range []string{"This call wants github.com:443", "which nobody named for it", "this call and this host alone", "git clone https://github.com/a/b", "to read the sources"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not there: %s", want, text)
		}
	}
	d.shots("approval-host")
	answer("call")
	if got := answered(said); got.Permit.Grant == "" || got.Denied {
		t.Errorf("%+v", got)
	}
	said = ask("c2")
	d.waiting(1)
	answer("deny")
	if got := answered(said); got.Permit.Grant != "" || !got.Denied {
		t.Errorf("%+v", got)
	}
}
