package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/test/site"
)

// S4-05: a recorded call is decided again, by today's policy and the one in force at that time, and
// runs again as a call of its own where it leaves nothing behind and its arguments are kept.
func TestACallIsReplayed(t *testing.T) {
	permit := `@id("plug") permit (principal, action == Action::"tool.plug.word", resource);`
	h := start(t, site.Options{Rules: "// nothing yet", Door: embeddedOnly})
	must(t, h.Registry.Register(registry.Tool{Descriptor: word(), Provider: plug{}}))
	h.rules(permit)
	admin := newCaller(t, h.URL(), h.MustToken("root", principal.RoleAdmin))
	first := h.by("agent", "agent", toolWord, text("hello"), "r-1")
	want(t, first, capabilities.StatusOK, "")
	unkept := h.by("agent", "agent", toolWord, text("again"), "")
	want(t, unkept, capabilities.StatusOK, "")

	type verdict struct {
		Effect  string
		Rules   []string
		Differs bool
	}
	var got struct {
		Was    string
		Now    verdict
		Then   *verdict
		Result *struct {
			Call   capabilities.CallID `json:"call_id"`
			Status string
			Output json.RawMessage
		}
	}
	address := "/v1/calls/" + string(first.Call) + "/replay"
	admin.ok(http.MethodPost, address, `{"run":true}`, &got)
	if got.Was != "allow" || got.Now.Differs || got.Then == nil || got.Then.Differs || len(got.Now.Rules) != 1 || got.Now.Rules[0] != "plug" {
		t.Errorf("%+v, then %+v", got, got.Then)
	}
	if got.Result == nil || got.Result.Status != "ok" || !strings.Contains(string(got.Result.Output), "hello") || got.Result.Call == first.Call {
		t.Fatalf("run again: %+v", got.Result)
	}
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Call: got.Result.Call})
	must(t, err)
	if len(packets) < 3 || !strings.Contains(string(packets[0].Body), `"replay_of":"`+string(first.Call)+`"`) || packets[0].Principal != "root" {
		t.Errorf("the new call is recorded as %+v", packets)
	}
	admin.fails(http.MethodPost, "/v1/calls/"+string(unkept.Call)+"/replay", `{"run":true}`, capabilities.CodeResultExpired)
	admin.fails(http.MethodPost, "/v1/calls/nosuch/replay", `{}`, capabilities.CodeNotFound)
	newCaller(t, h.URL(), h.MustToken("agent", principal.RoleAgent)).fails(http.MethodPost, address, `{}`, capabilities.CodeForbidden)

	// Another policy: the answer differs now, and the rule of that time is still told.
	h.rules(permit + ` @id("enough") forbid (principal, action == Action::"tool.plug.word", resource);`)
	got.Then, got.Result = nil, nil
	admin.ok(http.MethodPost, address, `{"run":true}`, &got)
	if !got.Now.Differs || got.Now.Effect != "deny" || got.Now.Rules[0] != "enough" || got.Then == nil || got.Then.Differs || got.Then.Rules[0] != "plug" {
		t.Errorf("%+v, then %+v", got, got.Then)
	}
	if got.Result == nil || got.Result.Status != "denied" { // what runs again is decided like any call
		t.Errorf("run again: %+v", got.Result)
	}
}
