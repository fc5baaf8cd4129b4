package governance

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/metrics"
	"github.com/handrail-dev/handrail/gateway/outcome"
)

// The compliance report tells calls whose results were masked from those that say nothing of it,
// artifacts by their class, and its range of the ledger (S1-17, S1-59).
func TestCompliance(t *testing.T) {
	h := newHouse(t)
	h.opts.Retained = func(context.Context) (standard, extended outcome.Retained, _ error) {
		return outcome.Retained{Kept: 4}, outcome.Retained{Kept: 3, Overdue: 1}, nil
	}
	h.Model = New(h.opts)
	h.put(t, called{tool: "tool.a.b", effect: policy.Deny}.drafts()...) // of another time
	before, _ := h.ledger.Tip()
	h.now = h.now.Add(30 * 24 * time.Hour)
	three := int64(3)
	for _, end := range []packet.End{{Masked: &three}, {Masked: new(int64)}, {}} {
		end.Status = capabilities.StatusOK
		end.Artifacts = []packet.Artifact{{ID: "x", Retention: outcome.RetentionExtended}, {ID: "y"}, {ID: "z", Code: capabilities.CodeArtifactSpace}}
		h.put(t, ledger.Draft{Kind: ledger.KindCallDispatch, Tool: "tool.a.b", Principal: "ann", Body: &packet.Dispatch{Target: "node", Grants: []string{capabilities.KeyMasked}, Isolation: "t1"}},
			ledger.Draft{Kind: ledger.KindCallResult, Tool: "tool.a.b", Body: &end})
	}
	last, _ := h.ledger.Tip()
	got, err := h.Compliance(t.Context(), Span{})
	if err != nil || got.FirstSeq != before+1 || got.LastSeq != last || len(got.Checks) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []api.ComplianceCheck{{Name: "pii_masked", Records: 3, Held: 2, Missing: 1}, {Name: "retention_standard", Met: true, Records: 4, Held: 4}, {Name: "retention_extended", Records: 3, Held: 2, Missing: 1}} {
		c := got.Checks[i]
		if c.Definition == "" {
			t.Errorf("%s has no definition", c.Name)
		}
		if c.Definition = ""; c != want {
			t.Errorf("%+v, not %+v", c, want)
		}
	}
	if len(got.Artifacts) != 2 || got.Artifacts[0] != (api.RetentionRow{Retention: "extended", Recorded: 3}) || got.Artifacts[1].Recorded != 3 {
		t.Errorf("%+v", got.Artifacts)
	}
}

// Since finds where a time begins among the packets.
func TestSince(t *testing.T) {
	h, r := newHouse(t), rand.New(rand.NewPCG(3, 4))
	began := h.now
	if seq, err := h.Since(t.Context(), began); err != nil || seq != 0 {
		t.Errorf("%d, %v", seq, err)
	}
	var times []time.Time
	for range 200 {
		h.now = h.now.Add(time.Duration(r.IntN(3)) * time.Second)
		h.put(t, ledger.Draft{Kind: "node.joined", Body: map[string]any{}})
		times = append(times, h.now)
	}
	for s := -2 * time.Second; s < 500*time.Second; s += 7 * time.Second {
		want := uint64(0)
		for _, at := range times {
			if at.Before(began.Add(s)) {
				want++
			}
		}
		if got, err := h.Since(t.Context(), began.Add(s)); err != nil || got != want {
			t.Fatalf("after %v: %d, not %d, %v", s, got, want, err)
		}
	}
}

// The view of changes has both sides of the last policy (S1-56), and the way from a tool to its
// profile and policy is told (S1-55).
func TestChangesAndProfiles(t *testing.T) {
	h := newHouse(t)
	denied := called{tool: "tool.fs.bash", principal: "ann", effect: policy.Deny, code: capabilities.CodeDeniedByPolicy, rule: "old", class: "t1"}
	h.put(t, denied.drafts()...)
	h.now = h.now.Add(2 * time.Hour)
	h.put(t, ledger.Draft{Kind: "gateway.policy.activated", Body: packet.Activated{Snapshot: "s2", Before: "s1", Reason: "too open"}, Principal: "root"})
	denied.rule = "new"
	h.put(t, denied.drafts()...)
	h.put(t, denied.drafts()...)
	h.now = h.now.Add(90 * time.Minute)
	got, err := h.Changes(t.Context(), Span{})
	if err != nil || len(got.Rows) != 2 || got.Packet == 0 || got.Activated.IsZero() || got.Snapshot != "s2" || got.Replaced != "s1" || got.By != "root" || got.Reason != "too open" {
		t.Fatalf("%+v, %v", got, err)
	}
	if r := got.Rows[0]; r.Rule != "new" || r.Calls != 2 || r.Before != 0 {
		t.Errorf("%+v", r)
	}
	if r := got.Rows[1]; r.Rule != "old" || r.Calls != 0 || r.Before != 1 {
		t.Errorf("%+v", r)
	}
	profiles, err := h.Profiles(t.Context(), Span{})
	if err != nil || len(profiles.Rows) != 1 || profiles.Rows[0] != (api.ProfileRow{Tool: "tool.fs.bash", Profile: "profile-tool.fs.bash", Snapshot: "snapshot-1", Decisions: 3}) {
		t.Errorf("%+v, %v", profiles, err)
	}
}

// Prometheus reads the numbers of the views, and no second count.
func TestMetricsAreTheSameNumbers(t *testing.T) {
	h, r := newHouse(t), rand.New(rand.NewPCG(5, 6))
	for range 200 {
		h.put(t, random(r)...)
	}
	all := metrics.New()
	h.Register(all)
	page := httptest.NewRecorder()
	all.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	friction, err := h.Friction(t.Context(), Span{})
	if err != nil {
		t.Fatal(err)
	}
	var decided int64
	for line := range strings.Lines(page.Body.String()) {
		if rest, ok := strings.CutPrefix(line, "handrail_governance_decisions{"); ok {
			_, n, _ := strings.Cut(rest, "} ")
			count, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			decided += count
		}
	}
	if decided == 0 || decided != friction.Decisions {
		t.Errorf("/metrics counts %d decisions, the view %d:\n%s", decided, friction.Decisions, page.Body)
	}
	if !strings.Contains(page.Body.String(), `handrail_governance_kpi{kpi="drift_per_1000"}`) {
		t.Errorf("no indicator: %s", page.Body)
	}
}
