package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// A change of rights is a call of a whole site: recorded before it is done, decided by the policy
// in force, and judged again by replays (S1-04, S1-61).
func TestAdminWorkIsACall(t *testing.T) {
	h := start(t, site.Options{})
	admin := h.client(principal.RoleAdmin)
	admin.ok(http.MethodPost, "/v1/tokens", `{"principal":"bob","role":"operator"}`, nil)
	packets, err := h.Ledger.Packets(t.Context(), ledger.Query{Tool: "tool.admin.token-create"})
	must(t, err)
	if len(packets) != 4 || packets[0].Principal != "admin" {
		t.Fatalf("%+v", packets)
	}
	h.wantStory(packets[0].Call, "request", "decision", "dispatch", "result")
	var result capabilities.Result // nobody calls it as a tool
	if admin.ok(http.MethodPost, "/v1/calls", `{"tool":"tool.admin.token-create","args":{}}`, &result); result.Code != capabilities.CodeUnknownTool {
		t.Errorf("%+v", result)
	}

	must(t, os.WriteFile(filepath.Join(h.Dir, "policy", "mine.cedar"), []byte(`@id("only-eve") forbid (principal, action == Action::"tokens", resource) unless { principal == User::"eve" };
@id("hands-off") forbid (principal, action == Action::"live.control", resource);`), 0o600))
	var active, staged struct {
		Snapshot string `json:"snapshot_id"`
	}
	admin.ok(http.MethodGet, "/v1/policy/sets/active", "", &active)
	admin.ok(http.MethodGet, "/v1/policy/sets/staged", "", &staged)
	admin.ok(http.MethodPost, "/v1/policy/activate", fmt.Sprintf(`{"from":%q,"to":%q,"reason":"a test"}`, active.Snapshot, staged.Snapshot), nil)
	admin.fails(http.MethodPost, "/v1/tokens", `{"principal":"carl","role":"operator"}`, capabilities.CodeDeniedByPolicy)
	if packets, err = h.Ledger.Packets(t.Context(), ledger.Query{Tool: "tool.admin.token-create"}); err != nil || len(packets) != 10 { // those of the call that is none, too
		t.Fatalf("%d packets, %v", len(packets), err)
	}
	h.wantStory(packets[7].Call, "request", "decision", "failed")
	if !bytes.Contains(packets[8].Body, []byte("only-eve")) {
		t.Errorf("%s", packets[8].Body)
	}
	// Nobody takes a device over whom the same policy forbids it.
	admin.fails(http.MethodPost, "/v1/control/n1", "", capabilities.CodeDeniedByPolicy)
	// The role's own refusal stays as it was.
	h.client(principal.RoleOperator).fails(http.MethodGet, "/v1/policy", "", capabilities.CodeForbidden)
}

// A policy under which nobody could activate another one does not come into force.
func TestAPolicyThatLocksEverybodyOut(t *testing.T) {
	h := start(t, site.Options{})
	admin := h.client(principal.RoleAdmin)
	must(t, os.WriteFile(filepath.Join(h.Dir, "policy", "mine.cedar"), []byte(`forbid (principal, action == Action::"policy.activate", resource) unless { principal == User::"nobody" };`), 0o600))
	var active, staged struct {
		Snapshot string `json:"snapshot_id"`
	}
	admin.ok(http.MethodGet, "/v1/policy/sets/active", "", &active)
	admin.ok(http.MethodGet, "/v1/policy/sets/staged", "", &staged)
	admin.fails(http.MethodPost, "/v1/policy/activate", fmt.Sprintf(`{"from":%q,"to":%q,"reason":"a test"}`, active.Snapshot, staged.Snapshot), capabilities.CodePolicyLocksOut)
	if h.Rulebook.Engine().SnapshotID() != active.Snapshot {
		t.Error("it is in force")
	}
}
