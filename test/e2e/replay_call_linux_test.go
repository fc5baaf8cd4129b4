package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// The policy that a call was decided by answers for it however many came into force since: another
// provider is approved, and the one of another rule is removed, so that the set names a tool that
// is gone (S4-05).
func TestAReplayKnowsThePolicyOfThen(t *testing.T) {
	h, n, admin := hosting(t)
	for _, name := range []string{"local", "former"} {
		approved(t, admin, added(t, admin, n, name, programs, t.TempDir()), "allow")
	}
	n.AwaitReady("tyrum.local.upper")
	r := h.Call(ctx(), "tool.local.upper", `{"text":"hello"}`, "")
	want(t, r, capabilities.StatusOK, "")
	var p api.Provider
	admin.ok(http.MethodGet, "/v1/providers/local", "", &p)
	approved(t, admin, p, "deny")
	approved(t, admin, added(t, admin, n, "another", programs, t.TempDir()), "allow")
	admin.ok(http.MethodDelete, "/v1/providers/former", "", nil)
	var got struct {
		Was  string
		Now  struct{ Effect, Reason string }
		Then *struct {
			Effect  string
			Rules   []string
			Differs bool
			Unsure  bool
		}
		NoThen string `json:"no_then"`
	}
	admin.ok(http.MethodPost, "/v1/calls/"+string(r.Call)+"/replay", `{}`, &got)
	if got.Was != "allow" || got.Now.Effect != "deny" || got.Then == nil || got.Then.Effect != "allow" || got.Then.Differs || len(got.Then.Rules) != 1 || got.Then.Rules[0] != "provider-local.allow" {
		t.Errorf("%+v, then %+v", got, got.Then)
	}

	// A call of a tool that is gone is decided again like any: today there is no such tool, and the
	// policy of then says what it had said.
	for _, gone := range []func(){
		func() {
			admin.ok(http.MethodPost, "/v1/tools/tool.local.upper/state", `{"state":"retired","hash":"`+p.Tools[slices.IndexFunc(p.Tools, upper)].Hash+`"}`, nil)
		},
		func() { admin.ok(http.MethodDelete, "/v1/providers/local", "", nil) },
	} {
		gone()
		got.Then = nil
		admin.ok(http.MethodPost, "/v1/calls/"+string(r.Call)+"/replay", `{}`, &got)
		if got.Was != "allow" || got.Now.Effect != "deny" || !strings.Contains(got.Now.Reason, "no such tool") ||
			got.Then == nil || got.Then.Effect != "allow" || got.Then.Differs || got.Then.Unsure || !slices.Equal(got.Then.Rules, []string{"provider-local.allow"}) {
			t.Errorf("its tool is gone: %+v, then %+v", got, got.Then)
		}
		admin.fails(http.MethodPost, "/v1/calls/"+string(r.Call)+"/replay", `{"run":true}`, capabilities.CodeUnknownTool)
	}
}

func upper(t api.ProviderTool) bool { return t.Tool == "tool.local.upper" }
