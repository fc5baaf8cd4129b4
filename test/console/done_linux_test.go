package console

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/secret"
)

// clips takes secrets for a clipboard.
type clips struct{ got atomic.Int64 }

func (*clips) Capabilities() []capabilities.CapabilityID {
	return []capabilities.CapabilityID{"tyrum.desktop.clipboard-write"}
}

func (c *clips) Readiness(context.Context) []capabilities.Readiness {
	return []capabilities.Readiness{{Capability: c.Capabilities()[0], Isolation: capabilities.ClassSession, Backend: "clips"}}
}

func (c *clips) Handle(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	if !inv.Secret.IsZero() {
		c.got.Add(1)
		inv.Cleared()
	}
	return capabilities.Output{Result: map[string]string{"status": "ok"}, Effect: capabilities.EffectConfirmed}, nil
}

func (*clips) CloseLane(capabilities.LaneID) {}
func (*clips) Close() error                  { return nil }

// Beside the command there is a button: on the page of the call that delivered a secret,
// for those who may answer. It is one person's word about one lane, and is written down.
func TestWhereASecretWasPastedMayBeLookedAtAgain(t *testing.T) {
	d := startSite(t)
	taken := &clips{}
	d.AddNode("laptop", taken)
	d.enter(principal.RoleOperator)
	must(t, d.Secrets.Set(t.Context(), "root", "mail", capabilities.NewSecret([]byte("value-nobody-sees"))))
	_, err := d.Secrets.Allow(t.Context(), "root", secret.Spec{Name: "mail", Principal: "robot", Alias: "work", Display: "Work mail", Tools: []capabilities.ToolID{"tool.secret.copy-to-node-clipboard"}})
	must(t, err)
	must(t, d.Lanes.Claim(t.Context(), "robot", "robot"))
	call := d.call("robot", "tool.secret.copy-to-node-clipboard", `{"secret_alias":"work"}`)
	d.waiting(1)
	d.goTo("/console/approvals")
	d.says("the agent does not see the value", "can work it out")
	d.shots("secret-question")
	_, err = d.Consent.Answer(t.Context(), d.Consent.Approvals()[0].ID, consent.Answer{By: "ann", Allow: true})
	must(t, err)
	if r := d.result(call); r.Status != capabilities.StatusOK || taken.got.Load() != 1 {
		t.Fatalf("%+v, %d deliveries", r, taken.got.Load())
	}
	d.goTo("/console/calls/" + string(d.newest("robot")))
	d.says("Where the secret was pasted", "Look at the device first")
	d.shots("secret-done")
	done := func() int {
		t.Helper()
		list, err := d.Ledger.Packets(t.Context(), ledger.Query{Kind: "secret.done", Limit: 10})
		must(t, err)
		return len(list)
	}
	if done() != 0 {
		t.Error("somebody's word was written down before it was given")
	}
	d.click("Let it look again")
	d.await(`document.body.innerText.includes("It may look again where it pasted the secret.")`)
	if done() != 1 {
		t.Errorf("%d words are written down", done())
	}
	d.quiet()
}
