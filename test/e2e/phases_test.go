package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// The four phases of the seed's rollout are in force together on a site that was just started: each
// call has its envelope; pages and routing follow the effective grants; what a node saw is
// compared, and counted on the dashboard; what is privileged asks, whatever a permit says (S1-66).
func TestFourPhasesAreInForce(t *testing.T) {
	h, handler := start(t, site.Options{ApprovalWait: time.Minute}), site.NewHandler()
	h.Drifts = true
	n := h.AddNode("one", handler)
	handler.Stray = func(inv capabilities.Invocation, text string) {
		if key, ok := strings.CutPrefix(text, "stray "); ok {
			inv.Observe(key, "the fixture")
		}
	}
	admin := newCaller(t, h.URL(), h.MustToken("ada", principal.RoleAdmin))
	get := func(path string) (text string) {
		t.Helper()
		var got json.RawMessage
		admin.ok(http.MethodGet, path, "", &got)
		return string(got)
	}

	r := h.Call(ctx(), site.ToolEcho, text("stray network.egress.https"), "")
	want(t, r, capabilities.StatusOK, "")
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Call: r.Call, Kind: ledger.KindCallDecision})
	must(t, err)
	var decided packet.Decision
	must(t, json.Unmarshal(packets[0].Body, &decided))
	var envelope policy.Envelope
	must(t, json.Unmarshal(decided.Envelope, &envelope))
	if decided.EnvelopeHash != r.EnvelopeHash || envelope.Profile == "" || envelope.ManifestHash == "" {
		t.Errorf("phase A: %+v", decided)
	}

	var tool api.Tool
	admin.ok(http.MethodGet, "/v1/tools/"+string(site.ToolEcho), "", &tool)
	if tool.Surface == nil || r.Routing == nil || r.Routing.Selected != n.ID || decided.Given == "" {
		t.Errorf("phase B: %+v, routed by %+v", tool.Surface, r.Routing)
	}

	if list := get("/v1/drift"); !strings.Contains(list, string(r.Call)) || !strings.Contains(list, "network.egress.https") {
		t.Errorf("phase C: %s", list)
	}
	for _, view := range []string{"coverage", "isolation", "drift", "privilege", "friction", "kpis"} {
		if !strings.Contains(get("/v1/governance/"+view), `"rows"`) && view != "kpis" {
			t.Errorf("phase C: no view %s", view)
		}
	}

	done := h.calling(ctx(), site.ToolPress, text("privileged"), "")
	if asked := waiting(t, h.Site); asked.Tool != site.ToolPress || handler.Runs("privileged") != 0 {
		t.Errorf("phase D: %+v", asked)
	} else {
		h.Consent.Withdraw(asked.ID)
	}
	if await(t, "the call that asked", done); handler.Runs("privileged") != 0 {
		t.Error("phase D: it ran without a yes")
	}
}
