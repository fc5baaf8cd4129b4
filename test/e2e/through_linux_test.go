package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/test/site"
)

// A person who is asked about a call of a provider's tool is told what carries it out and what
// that may reach; about a macro, its steps.
func TestAQuestionSaysWhatItGoesThrough(t *testing.T) {
	h, n, admin := hostingBy(t, site.Options{ApprovalWait: time.Minute})
	dir := t.TempDir()
	approved(t, admin, added(t, admin, n, "local", programs, dir), "ask")
	approved(t, admin, h.drafted(admin, "twice", twoEchoes), "ask")
	n.AwaitReady("tyrum.local.upper")
	for tool, c := range map[capabilities.ToolID]struct {
		args    string
		through []string
	}{
		"tool.local.upper": {`{"text":"x"}`, []string{"provider local (command tr)", "it may destroy something", "reads " + dir, "no network"}},
		"tool.macro.twice": {`{"text":"x"}`, []string{"provider twice (macro)", "step first: tool.fixture.echo", "step second: tool.fixture.echo"}},
	} {
		end := h.calling(ctx(), tool, c.args, "")
		id := waiting(t, h.Site).ID
		var asked api.Approval
		admin.ok(http.MethodGet, "/v1/approvals/"+id, "", &asked)
		if !slices.Equal(asked.Through, c.through) {
			text, _ := json.Marshal(asked)
			t.Errorf("%s: through %q, want %q: %s", tool, asked.Through, c.through, text)
		}
		_, err := h.Consent.Answer(ctx(), id, consent.Answer{By: "anna"})
		must(t, err)
		want(t, await(t, "the denied call", end), capabilities.StatusDenied, capabilities.CodeConsentDenied)
	}
}
