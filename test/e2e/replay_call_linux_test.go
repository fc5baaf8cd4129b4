package e2e

import (
	"net/http"
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
		Now  struct{ Effect string }
		Then *struct {
			Effect  string
			Rules   []string
			Differs bool
		}
		NoThen string `json:"no_then"`
	}
	admin.ok(http.MethodPost, "/v1/calls/"+string(r.Call)+"/replay", `{}`, &got)
	if got.Was != "allow" || got.Now.Effect != "deny" || got.Then == nil || got.Then.Effect != "allow" || got.Then.Differs || len(got.Then.Rules) != 1 || got.Then.Rules[0] != "provider-local.allow" {
		t.Errorf("%+v, then %+v", got, got.Then)
	}
}
