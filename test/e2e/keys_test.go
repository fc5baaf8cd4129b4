package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// S1-38: what only a person's grant adds is one hop, by a second envelope and a
// second decision; the first stays as it was, and both are kept.
func TestEscalationIsASecondEnvelope(t *testing.T) {
	s := site.Start(t, site.Options{ApprovalWait: time.Minute, Rules: site.Rules +
		`@id("only-asked") forbid (principal, action in Action::"keys:privileged", resource) unless { context.consent };`})
	h := site.NewHandler()
	n := s.AddNode("desk", h)
	n.AwaitReady()
	s.Grant("agent", n, "tool.fixture.*")
	r := s.Call(context.Background(), site.ToolPress, `{"text":"x"}`, "")
	if r.Status != capabilities.StatusOK || h.Runs("x") != 1 {
		t.Fatalf("%+v", r)
	}
	packets, err := s.Gateway.Ledger.Packets(t.Context(), ledger.Query{Call: r.Call})
	if err != nil {
		t.Fatal(err)
	}
	var envelopes []policy.Envelope
	var hashes, effects []string
	for _, p := range packets {
		if p.Kind != ledger.KindCallDecision {
			continue
		}
		var d struct {
			Effect   string          `json:"effect"`
			Hash     string          `json:"envelope_hash"`
			Envelope policy.Envelope `json:"envelope"`
		}
		if err := json.Unmarshal(p.Body, &d); err != nil {
			t.Fatal(err)
		}
		envelopes, hashes, effects = append(envelopes, d.Envelope), append(hashes, d.Hash), append(effects, d.Effect)
	}
	if len(envelopes) != 2 || effects[0] != "ask" || effects[1] != "allow" {
		t.Fatalf("%v", effects)
	}
	first, second := envelopes[0], envelopes[1]
	x := second.Escalation
	if first.Escalation != nil || x == nil || x.From != hashes[0] || x.Code != policy.EscalatedByLease || x.Grant == "" || first.Snapshot == second.Snapshot {
		t.Fatalf("%+v\n%+v", first, second)
	}
	for _, k := range x.Delta {
		if slices.Contains(first.Grants, k) || !slices.Contains(second.Grants, k) {
			t.Fatalf("%s: %v, then %v", k, first.Grants, second.Grants)
		}
	}
}

// The untrusted content that a lane has read is known to policy from the result on, in that lane
// alone, and after a restart.
func TestLanesAreTaintedByWhatTheyRead(t *testing.T) {
	s := site.Start(t, site.Options{Rules: site.Rules +
		`@id("clean-only") forbid (principal, action == Action::"tool.fixture.image", resource) when { context.taint.contains("fixture") };`})
	n := s.AddNode("desk", site.NewHandler())
	n.AwaitReady()
	image := func() capabilities.Result {
		return s.Call(context.Background(), site.ToolImage, `{"text":"x","size":10}`, "")
	}
	echo := func(text string) {
		t.Helper()
		if r := s.Call(context.Background(), site.ToolEcho, `{"text":"`+text+`"}`, ""); r.Status != capabilities.StatusOK {
			t.Fatalf("%+v", r)
		}
	}
	echo("clean")
	if r := image(); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	echo("untrusted words of a page")
	if r := image(); r.Status != capabilities.StatusDenied {
		t.Fatalf("%+v", r)
	}
	s.Restart()
	n.AwaitReady()
	if r := image(); r.Status != capabilities.StatusDenied {
		t.Fatalf("after a restart: %+v", r)
	}
}
