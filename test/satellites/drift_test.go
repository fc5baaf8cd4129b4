package satellites

import (
	"context"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
	book "github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/satellite"
)

// A satellite of another maker tells what its calls were kept from, each signal that it can see: a
// host and a file are violations, which the third quarantines; a secret is critical, its call's
// result is void, and its tool waits for a review (S1-44 to S1-46, S1-50 to S1-53).
func TestASatelliteTellsOfEachSignal(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	h.Drifts = true
	tries := func(name, key, detail string) satellite.Tool {
		return satellite.Tool{Name: name, Description: "Tries it.", ReadOnly: true, Run: func(_ context.Context, c satellite.Call) (satellite.Result, error) {
			c.Refused(key, detail)
			return satellite.Result{Text: "tried"}, nil
		}}
	}
	run(t, satellite.Options{Name: "vault", Dir: t.TempDir(), Paste: h.invite("vault"), Tools: []satellite.Tool{
		tries("reach", "network.egress.https", "evil.example:443"), tries("write", capabilities.KeyWrite, "/etc/cron.d/own"), tries("secret", capabilities.KeySecret, "prod-database"),
	}})
	h.approve("vault")
	for _, c := range []struct {
		tool     capabilities.ToolID
		signal   drift.Number
		severity drift.Severity
		response drift.Response
		status   capabilities.Status
		code     capabilities.Code
		evidence string
	}{
		{"tool.vault.reach", drift.Network, drift.Violation, drift.Refused, capabilities.StatusOK, "", "evil.example:443"},
		{"tool.vault.write", drift.Write, drift.Violation, drift.Refused, capabilities.StatusOK, "", "/etc/cron.d/own"},
		{"tool.vault.secret", drift.Secret, drift.Critical, drift.Restricted, capabilities.StatusError, capabilities.CodeDriftCritical, "prod-database"},
	} {
		h.callable(c.tool)
		r := h.call(c.tool, `{}`, "")
		want(t, r, c.status, c.code)
		if strings.Contains(string(r.Output), "tried") == (c.severity == drift.Critical) {
			t.Errorf("%s returned %s", c.tool, r.Output)
		}
		list, _, err := h.Drift.List(t.Context(), book.Filter{Tool: c.tool})
		must(t, err)
		if len(list) != 1 || list[0].Call != r.Call || list[0].Signal != c.signal || list[0].Severity != c.severity || list[0].Response != c.response || list[0].Evidence != c.evidence || list[0].Runner == "" {
			t.Errorf("%s: %+v", c.tool, list)
		}
	}
	want(t, h.call("tool.vault.secret", `{}`, ""), capabilities.StatusDenied, capabilities.CodeToolRestricted)
	want(t, h.call("tool.vault.reach", `{}`, ""), capabilities.StatusOK, "")
	want(t, h.call("tool.vault.reach", `{}`, ""), capabilities.StatusDenied, capabilities.CodeRunnerQuarantined)
}
