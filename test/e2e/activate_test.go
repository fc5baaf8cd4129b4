package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// Files are staged: an edit changes nothing, a replay says what it would change, an
// activation changes it at once and for good, and the ledger tells who did it.
func TestPolicyComesIntoForceByActivationOnly(t *testing.T) {
	s := site.Start(t, site.Options{})
	n := s.AddNode("desk", site.NewHandler())
	call := func() capabilities.Result { return s.Call(t.Context(), site.ToolEcho, `{"text":"x"}`, "") }
	if r := call(); r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}
	admin, agent := s.MustToken("root", principal.RoleAdmin), s.MustToken("alice", principal.RoleAgent)
	do := func(token, method, path string, in, out any) int {
		t.Helper()
		body, _ := json.Marshal(in)
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/json")
		} else {
			req.Body = http.NoBody
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if out != nil && resp.StatusCode == http.StatusOK {
			if err := json.Unmarshal(text, out); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
		}
		return resp.StatusCode
	}

	dir := filepath.Join(s.Dir, "policy")
	if err := os.WriteFile(filepath.Join(dir, "no.cedar"), []byte(`@id("no-fixture") forbid (principal, action in Action::"family:fixture", resource);`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := call(); r.Status != capabilities.StatusOK {
		t.Fatalf("an edit came into force by itself: %+v", r)
	}
	s.Restart()
	n.AwaitReady()
	if r := call(); r.Status != capabilities.StatusOK {
		t.Fatalf("an edit came into force by a restart: %+v", r)
	}
	var replay api.PolicyReplay
	if code := do(admin, http.MethodPost, "/v1/policy/replay", map[string]any{}, &replay); code != http.StatusOK || replay.Stricter < 3 || replay.Looser != 0 || !slices.Contains(replay.Changes[0].Policies, "no-fixture") {
		t.Fatalf("%d %+v", code, replay)
	}
	var active, staged struct {
		Snapshot string `json:"snapshot_id"`
	}
	do(admin, http.MethodGet, "/v1/policy/sets/active", nil, &active)
	do(admin, http.MethodGet, "/v1/policy/sets/staged", nil, &staged)
	in := map[string]any{"from": active.Snapshot, "to": staged.Snapshot, "reason": "a test"}
	if code := do(agent, http.MethodPost, "/v1/policy/activate", in, nil); code != http.StatusForbidden {
		t.Fatalf("an agent's activation: %d", code)
	}
	changed := s.Gateway.Nodes.Changed()
	var v api.PolicyVersion
	if code := do(admin, http.MethodPost, "/v1/policy/activate", in, &v); code != http.StatusOK || v.Snapshot != staged.Snapshot || v.By != "root" {
		t.Fatalf("%d %+v", code, v)
	}
	s.Await("who watches tools is told", func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	})
	if r := call(); r.Status != capabilities.StatusDenied {
		t.Fatalf("in force, and still: %+v", r)
	}
	if code := do(admin, http.MethodPost, "/v1/policy/activate", in, nil); code != http.StatusConflict {
		t.Fatalf("the same once more: %d", code)
	}
	packets, err := s.Gateway.Ledger.Packets(t.Context(), ledger.Query{Tool: policy.ActivationTool})
	if err != nil || len(packets) != 8 || packets[0].Principal != "site" || packets[4].Principal != "root" || packets[6].Kind != ledger.KindCallDispatch { // the start took the first one in
		t.Fatalf("%d packets %v", len(packets), err)
	}
	var decision struct {
		Grant    string          `json:"grant"`
		Hash     string          `json:"envelope_hash"`
		Envelope policy.Envelope `json:"envelope"`
	}
	if err := json.Unmarshal(packets[5].Body, &decision); err != nil {
		t.Fatal(err)
	}
	if e := decision.Envelope; decision.Grant == "" || e.Principal != "root" || e.Role != "admin" || e.Risk != policy.RiskCritical || fmt.Sprint(e.Grants) != "[privileged.admin.mutate_policy]" {
		t.Fatalf("%+v", decision)
	}
	var used api.Privilege // as all admin work is counted
	if code := do(admin, http.MethodGet, "/v1/governance/privilege?tool="+string(policy.ActivationTool), nil, &used); code != http.StatusOK || len(used.Rows) != 2 ||
		!slices.ContainsFunc(used.Rows, func(r api.PrivilegeRow) bool {
			return r.Principal == "root" && r.Key == "privileged.admin.mutate_policy" && r.Executions == 1
		}) {
		t.Fatalf("%d %+v", code, used.Rows)
	}
	s.Restart()
	n.AwaitReady()
	if r := call(); r.Status != capabilities.StatusDenied {
		t.Fatalf("after a restart: %+v", r)
	}
}

// An activation that the policy in force forbids leaves the packets of a denied call (S4-43).
func TestARefusedActivationIsRecorded(t *testing.T) {
	h := start(t, site.Options{Rules: site.Rules + `@id("locked") forbid (principal, action == Action::"policy.activate", resource);`})
	must(t, os.WriteFile(filepath.Join(h.Dir, "policy", "more.cedar"), []byte(`@id("more") permit (principal, action, resource);`), 0o600))
	admin := h.client(principal.RoleAdmin)
	var active, staged struct {
		Snapshot string `json:"snapshot_id"`
	}
	admin.ok(http.MethodGet, "/v1/policy/sets/active", "", &active)
	admin.ok(http.MethodGet, "/v1/policy/sets/staged", "", &staged)
	admin.fails(http.MethodPost, "/v1/policy/activate", fmt.Sprintf(`{"from":%q,"to":%q,"reason":"a test"}`, active.Snapshot, staged.Snapshot), capabilities.CodeDeniedByPolicy)
	packets, err := h.Ledger.Packets(t.Context(), ledger.Query{Tool: policy.ActivationTool})
	must(t, err)
	packets = packets[min(4, len(packets)):] // the start took the first one in
	if len(packets) != 3 || packets[0].Principal != "admin" || packets[0].Call == "" {
		t.Fatalf("%+v", packets)
	}
	h.wantStory(packets[0].Call, "request", "decision", "failed")
	for i, holds := range [][]string{{staged.Snapshot, active.Snapshot}, {`"effect":"deny"`, `"locked"`, "privileged.admin.mutate_policy"}, {`"denied_by_policy"`}} {
		for _, text := range holds {
			if !bytes.Contains(packets[i].Body, []byte(text)) {
				t.Errorf("packet %d does not say %s: %s", i, text, packets[i].Body)
			}
		}
	}
	if h.Rulebook.Engine().SnapshotID() != active.Snapshot {
		t.Error("it is in force")
	}
}
