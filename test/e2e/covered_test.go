package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// A caller has its call made only if a live grant or a rule covers it, by one request: the answer
// names what does, and so does the decision that is recorded before anything runs. Where neither
// does, there is no call, nobody is asked, though a person could be, and nothing of a grant is used
// (S2-26, S2-27, S2-28).
func TestACallThatHasToBeCovered(t *testing.T) {
	s := site.Start(t, site.Options{ApprovalWait: time.Minute})
	h := site.NewHandler()
	n := s.AddNode("desk", h)
	agent, err := client.New(s.URL(), client.NewToken(s.MustToken("agent", principal.RoleAgent)))
	if err != nil {
		t.Fatal(err)
	}
	covered := func(tool capabilities.ToolID, text string) (made api.CallMade) {
		t.Helper()
		args, _ := json.Marshal(map[string]string{"text": text})
		if err := agent.Do(t.Context(), http.MethodPost, client.Path("calls"), api.MakeCall{Tool: tool, Args: args, Covered: true}, &made); err != nil {
			t.Fatal(err)
		}
		return made
	}
	recorded := func(call capabilities.CallID) (d packet.Decision, kinds []ledger.Kind) {
		t.Helper()
		all, err := s.Ledger.Packets(t.Context(), ledger.Query{Call: call})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if kinds = append(kinds, p.Kind); p.Kind == ledger.KindCallDecision {
				if err := json.Unmarshal(p.Body, &d); err != nil {
					t.Fatal(err)
				}
			}
		}
		return d, kinds
	}

	none := covered(site.ToolPress, "nothing")
	if p := none.Permission; p == nil || p.State != api.PermissionAsk || !p.Asks || p.By != "" || p.Node != n.ID {
		t.Errorf("nothing covers it: %+v", p)
	}
	if none.Code != capabilities.CodeConsentUnavailable || none.Status != capabilities.StatusDenied || h.Runs("nothing") != 0 {
		t.Errorf("%+v, %d runs", none.Result, h.Runs("nothing"))
	}
	if _, kinds := recorded(none.Call); len(kinds) > 0 || len(s.Consent.Approvals()) > 0 {
		t.Errorf("there is a call of %v, and %+v waits", kinds, s.Consent.Approvals())
	}

	g, err := s.Consent.Grant(t.Context(), consent.Spec{
		Principal: "agent", Tools: []string{"tool.fixture.press"}, Node: n.ID, AnyLane: true, MaxUses: 1, Approver: "anna",
	})
	if err != nil {
		t.Fatal(err)
	}
	leased := covered(site.ToolPress, "leased")
	if p := leased.Permission; p == nil || p.State != api.PermissionCovered || p.By != g.ID || p.Grant != g.ID {
		t.Errorf("a lease covers it: %+v", p)
	}
	d, kinds := recorded(leased.Call)
	if leased.Status != capabilities.StatusOK || h.Runs("leased") != 1 || d.Grant != g.ID {
		t.Errorf("%+v, %d runs, decided by %+v", leased.Result, h.Runs("leased"), d)
	}
	if decided, left := slices.Index(kinds, ledger.KindCallDecision), slices.Index(kinds, ledger.KindCallDispatch); decided < 0 || left < decided {
		t.Errorf("recorded %v", kinds)
	}
	if again := covered(site.ToolPress, "again"); again.Permission == nil || again.Permission.State != api.PermissionAsk || h.Runs("again") != 0 {
		t.Errorf("the lease's one use is over: %+v, %d runs", again, h.Runs("again"))
	}

	ruled := covered(site.ToolEcho, "ruled")
	d, _ = recorded(ruled.Call)
	if p := ruled.Permission; p == nil || p.State != api.PermissionCovered || p.By != "fixture" || p.Grant != "" || !slices.Equal(d.Policies, []string{"fixture"}) {
		t.Errorf("a rule covers it: %+v, decided by %v", p, d.Policies)
	}
	if ruled.Status != capabilities.StatusOK || h.Runs("ruled") != 1 {
		t.Errorf("%+v", ruled.Result)
	}

	// A call that policy denies is refused by it, on record.
	denied := covered("tool.fs.bash", "denied")
	if _, kinds := recorded(denied.Call); denied.Permission != nil || denied.Status == capabilities.StatusOK || !slices.Contains(kinds, ledger.KindCallDecision) {
		t.Errorf("%+v, recorded %v", denied, kinds)
	}
}
