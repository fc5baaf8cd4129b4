package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// A question is withdrawn when another policy comes into force, since no yes to it would count: the
// record and whoever answers late are told why, and its call is decided anew by the policy of now.
// It goes on, is asked about again, or is denied. A caller that was told to come back asks anew
// (S1-34, S1-64).
func TestAQuestionEndsWithItsPolicy(t *testing.T) {
	h := start(t, site.Options{ApprovalWait: time.Minute})
	handler := site.NewHandler()
	h.AddNode("one", handler)
	asks := func(id string) string {
		return `@id("` + id + `") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`
	}
	h.rules(asks("first"))
	done := h.calling(ctx(), site.ToolEcho, text("held"), "")
	first := waiting(t, h.Site)
	superseded := func(a consent.Approval) {
		t.Helper()
		until(t, "the question of before to be withdrawn", func() bool {
			now, err := h.Consent.Approval(a.ID)
			return err == nil && now.State == consent.StateClosed && now.Closed == consent.ClosedPolicy
		})
		_, err := h.Consent.Answer(ctx(), a.ID, consent.Answer{Allow: true, By: "anna"})
		if e := capabilities.AsError(err); e.Code != capabilities.CodeConflict || !strings.Contains(e.PublicMessage(), "another policy is in force") || e.PublicHint() == "" {
			t.Errorf("a late yes: %+v", e)
		}
	}

	h.rules(asks("second"))
	superseded(first)
	second := waiting(t, h.Site)
	if second.ID == first.ID || second.Snapshot == first.Snapshot || second.Snapshot != h.Gateway.Rulebook.Engine().SnapshotID() {
		t.Errorf("asked anew as %+v", second)
	}
	h.rules(`@id("all") permit (principal, action in Action::"family:fixture", resource);`)
	superseded(second)
	r := await(t, "the call that is allowed by now", done)
	if want(t, r, capabilities.StatusOK, ""); handler.Runs("held") != 1 {
		t.Errorf("it ran %d times", handler.Runs("held"))
	}
	decisions, err := h.Ledger.Packets(ctx(), ledger.Query{Call: r.Call, Kind: ledger.KindCallDecision})
	must(t, err)
	if len(decisions) != 1 || !strings.Contains(string(decisions[0].Body), `"policies":["all"]`) || !strings.Contains(string(decisions[0].Body), `"effect":"allow"`) {
		t.Errorf("%d decisions: %s", len(decisions), decisions[0].Body)
	}

	h.rules(asks("third"))
	done = h.calling(ctx(), site.ToolEcho, text("denied"), "")
	third := waiting(t, h.Site)
	h.rules(`@id("none") forbid (principal, action in Action::"family:fixture", resource);`)
	superseded(third)
	if want(t, await(t, "the call that is denied by now", done), capabilities.StatusDenied, capabilities.CodeDeniedByPolicy); handler.Runs("denied") != 0 {
		t.Error("it ran")
	}
	if all := h.Consent.Approvals(); len(all) != 0 {
		t.Errorf("still listed: %+v", all)
	}
	closed, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: "gateway.approval.closed", Limit: 10})
	must(t, err)
	if len(closed) != 3 {
		t.Errorf("%d closures are recorded", len(closed))
	}
	for _, p := range closed {
		if !strings.Contains(string(p.Body), `"reason":"superseded"`) {
			t.Errorf("%s", p.Body)
		}
	}
}
