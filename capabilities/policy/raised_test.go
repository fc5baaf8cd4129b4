package policy

import "testing"

// Drift raises the risk that policy reads and that envelopes have, never lowers it, and adds no
// permission to rules that go by it (S1-05).
func TestRaisedRisk(t *testing.T) {
	e := mustLoad(t, `permit (principal, action, resource);
		@id("suspect") forbid (principal, action == Action::"tool.browser.snapshot", resource) when { context.raised >= 2 };
		@id("ask") forbid (principal, action == Action::"tool.browser.snapshot", resource) when { context.risk == "high" } unless { context.consent };`)
	r := request("tool.browser.snapshot", `{}`)
	base := e.Profile(r.Tool).Risk
	if base != RiskMedium {
		t.Fatalf("the test expects medium, not %s", base)
	}
	for raised, want := range []Effect{Allow, Ask, Deny, Deny} {
		r.Raised = raised
		if got := e.Decide(r); got.Effect != want {
			t.Errorf("raised by %d: %+v", raised, got)
		}
		if got := e.Possible(r); got.Effect < want {
			t.Errorf("in lists, raised by %d: %+v", raised, got)
		}
		in := envelopeInput()
		in.Profile, in.Raised = e.Profile(r.Tool), raised
		s := mustBuild(t, in)
		if s.Risk != base.Raise(raised) || s.Raised() != min(raised, 2) {
			t.Errorf("raised by %d: risk %s, by %d", raised, s.Risk, s.Raised())
		}
	}
	for _, risk := range []Risk{RiskLow, RiskMedium, RiskHigh, RiskCritical, "new"} {
		for levels := range 5 {
			if risk.Raise(levels).rank() < risk.rank() || risk.Raise(-levels) != risk {
				t.Errorf("%s raised by %d", risk, levels)
			}
		}
	}
}
