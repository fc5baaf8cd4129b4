package rest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

func TestNodes(t *testing.T) {
	a := start(t)
	type capability struct {
		Capability, Reason, Fix, Backend string
		Tool                             string `json:"tool_id"`
		Available                        bool
	}
	var list struct {
		Nodes []struct {
			ID           string `json:"node_id"`
			Label        string
			State        string
			Connected    bool
			Labels       []string
			Capabilities []capability
		}
	}
	a.ok(a.operator, "GET", "/v1/nodes", "", &list)
	if len(list.Nodes) != 3 || list.Nodes[0].Labels == nil {
		t.Fatalf("nodes %+v", list.Nodes)
	}
	want := []capability{
		{Capability: "tyrum.browser.navigate", Tool: "tool.browser.navigate", Available: true, Backend: "chromium 1"},
		{Capability: "tyrum.browser.snapshot", Tool: "tool.browser.snapshot", Reason: "backend_missing", Fix: "install it"},
	}
	got := list.Nodes[0].Capabilities
	if !slices.Equal(got[:2], want) || got[2].Available || got[2].Reason != "not_allowlisted" || got[2].Fix == "" {
		t.Errorf("capabilities %+v", got)
	}
	if c := list.Nodes[1].Capabilities[0]; c.Available || c.Reason != "node_not_paired" {
		t.Errorf("a pending node's capability %+v", c)
	}
	var node struct {
		State   string
		Trust   string
		Allow   []string
		Label   string
		Decided string `json:"decided_by"`
	}
	a.ok(a.operator, "POST", "/v1/nodes/n2/approve", `{"allow":["tyrum.browser.*"],"trust":"high"}`, &node)
	if node.State != "approved" || node.Trust != "high" || node.Decided != "op" {
		t.Errorf("approved %+v", node)
	}
	a.ok(a.operator, "POST", "/v1/nodes/n3/deny", ``, &node)
	a.fails(a.operator, "POST", "/v1/nodes/n3/approve", `{}`, pairingCode(t, a, "n3"))
	a.ok(a.operator, "PATCH", "/v1/nodes/n1", `{"label":"mine","allow":[]}`, &node)
	if node.Label != "mine" || len(node.Allow) != 0 {
		t.Errorf("changed %+v", node)
	}
	a.ok(a.operator, "POST", "/v1/nodes/n1/revoke", `{"reason":"lost"}`, &node)
	if node.State != "revoked" {
		t.Errorf("revoked %+v", node)
	}
	for _, path := range []string{"/v1/nodes/none", "/v1/nodes/%00"} {
		a.fails(a.operator, "GET", path, "", capabilities.CodeNodeNotFound)
	}
	a.fails(a.operator, "PATCH", "/v1/nodes/n1", `{"labels":"x"}`, capabilities.CodeInvalidRequest)
}

// pairingCode is the code that the roster returns for approving a node that was denied.
func pairingCode(t *testing.T, a *surface, id capabilities.NodeID) capabilities.Code {
	t.Helper()
	v, err := a.roster.View(id)
	if err != nil {
		t.Fatal(err)
	}
	return capabilities.CodeOf(v.State.Become(pairing.StateApproved))
}

func TestInvites(t *testing.T) {
	a := start(t)
	var made struct {
		ID    string `json:"invite_id"`
		Paste string
		Uses  int
	}
	a.ok(a.admin, "POST", "/v1/invites", `{"label":"lab","uses":3,"ttl_s":60,"auto_approve":true}`, &made)
	if paste, err := pairing.ParsePaste(made.Paste); err != nil || paste.Site != site || made.Uses != 3 {
		t.Fatalf("%+v %v", made, err)
	}
	list := a.ok(a.admin, "GET", "/v1/invites", "", nil)
	if !strings.Contains(list, made.ID) || strings.Contains(list, made.Paste) || strings.Contains(list, "hr1:") {
		t.Errorf("list %s", list)
	}
	a.ok(a.admin, "DELETE", "/v1/invites/"+made.ID, "", nil)
	a.fails(a.admin, "DELETE", "/v1/invites/nothing", "", capabilities.CodeNotFound)
	a.fails(a.admin, "POST", "/v1/invites", `{"ttl_s":-1}`, capabilities.CodeInvalidRequest)
	a.fails(a.admin, "POST", "/v1/invites", `{"ttl_s":9007199254740991}`, capabilities.CodeInvalidRequest)
}

func TestLanes(t *testing.T) {
	a := start(t)
	var list struct {
		Lanes []struct {
			Lane  string
			Nodes []string
		}
	}
	a.ok(a.operator, "PUT", "/v1/lanes/team%2Fx/nodes/n1", "", nil) // a name with a slash
	a.ok(a.operator, "PUT", "/v1/lanes/team%2Fx/nodes/n1", "", nil)
	a.ok(a.agent, "POST", "/v1/calls", `{"tool":"test.simple-text"}`, nil)
	a.ok(a.operator, "GET", "/v1/lanes", "", &list)
	if len(list.Lanes) != 2 || list.Lanes[1].Lane != "team/x" || !slices.Equal(list.Lanes[1].Nodes, []string{"n1"}) {
		t.Errorf("all lanes %+v", list)
	}
	a.ok(a.agent, "GET", "/v1/lanes", "", &list)
	if len(list.Lanes) != 1 || list.Lanes[0].Lane != "alice" {
		t.Errorf("the agent's lanes %+v", list)
	}
	a.fails(a.operator, "PUT", "/v1/lanes/l/nodes/none", "", capabilities.CodeNodeNotFound)
	a.ok(a.operator, "DELETE", "/v1/lanes/team%2Fx/nodes/n1", "", nil)
	a.fails(a.operator, "DELETE", "/v1/lanes/team%2Fx/nodes/n1", "", capabilities.CodeNotFound)
	a.fails(a.operator, "PUT", "/v1/lanes/a%20b/nodes/n1", "", capabilities.CodeInvalidRequest)
}
