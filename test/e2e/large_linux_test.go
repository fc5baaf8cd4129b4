package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// many are as many tools as a server may offer; every tenth only reads.
func many(tools int) string {
	list := make([]string, tools)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"tool-%d","description":"Does one thing.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":%v}}`, i, i%10 == 0)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Servers of 1,250 tools are added, approved and called by the API as any other; one of their tools
// is decided about alone; a restart has them all again (S4-14, S4-42).
func TestThousandsOfToolsAreApproved(t *testing.T) { toolsAreApproved(t, 2) }

// Eight of them are ten thousand tools.
func TestThousandsOfToolsAreApprovedAtLength(t *testing.T) {
	t.Parallel()
	toolsAreApproved(t, 8)
}

// toolsAreApproved has three servers on a node.
func toolsAreApproved(t *testing.T, servers int) {
	const each = 1250
	h, first, admin := hostingBy(t, site.Options{ApprovalWait: time.Minute})
	walls, err := site.NewWalls()
	must(t, err)
	nodes := []*site.Node{first, h.AddNodeWith("attic", hosts(t, walls), site.NewHandler()), h.AddNodeWith("cellar", hosts(t, walls), site.NewHandler())}
	for i := range servers {
		n := nodes[i/3]
		n.AwaitReady("tyrum.provider.host")
		w := newWords(t)
		w.say(many(each))
		name := fmt.Sprintf("p%d", i)
		body, err := json.Marshal(api.AddProvider{Name: name, Kind: "mcp", Host: n.ID, URL: w.URL})
		must(t, err)
		var p api.Provider
		admin.ok(http.MethodPost, "/v1/providers", string(body), &p)
		if len(p.Tools) != each || strings.Count(p.Rules, "@id") != 1 {
			t.Fatalf("%d tools, %d rules", len(p.Tools), strings.Count(p.Rules, "@id"))
		}
		body, err = json.Marshal(api.ApproveProvider{ManifestHash: p.ManifestHash, Tools: map[capabilities.ToolID]api.ToolChoice{
			capabilities.ToolID("tool." + name + ".tool-7"): {Effect: "allow"}, capabilities.ToolID("tool." + name + ".tool-8"): {Effect: "deny"},
		}})
		must(t, err)
		admin.ok(http.MethodPost, "/v1/providers/"+name+"/approve", string(body), &p)
		if strings.Count(p.Rules, "@id") != 2 {
			t.Fatalf("%.3000s", p.Rules)
		}
	}
	try := func() {
		t.Helper()
		for i := range servers {
			nodes[i/3].AwaitReady(capabilities.CapabilityID(fmt.Sprintf("tyrum.p%d.tool-7", i)))
			want(t, h.Call(ctx(), capabilities.ToolID(fmt.Sprintf("tool.p%d.tool-7", i)), `{"path":"a"}`, ""), capabilities.StatusOK, "")
			want(t, h.Call(ctx(), capabilities.ToolID(fmt.Sprintf("tool.p%d.tool-8", i)), `{}`, ""), capabilities.StatusDenied, capabilities.CodeDeniedByPolicy)
		}
		h.asks(capabilities.ToolID(fmt.Sprintf("tool.p%d.tool-1249", servers-1)))
	}
	try()

	d := admin.diff("tool.p1.tool-7")
	admin.ok(http.MethodPost, "/v1/tools/tool.p1.tool-7/state", decision(t, api.ToolDecision{State: "restricted", Hash: d.Hash}), nil)
	h.asks("tool.p1.tool-7")
	d = admin.diff("tool.p1.tool-7")
	admin.ok(http.MethodPost, "/v1/tools/tool.p1.tool-7/state", decision(t, api.ToolDecision{State: "active", Effect: "allow", Hash: d.Hash}), nil)

	h.Restart()
	admin = newCaller(t, h.URL(), h.MustToken("admin", principal.RoleAdmin))
	try()
	var listed struct {
		Tools []struct {
			Tool capabilities.ToolID `json:"tool_id"`
		} `json:"tools"`
	}
	admin.ok(http.MethodGet, "/v1/tools", "", &listed)
	if len(listed.Tools) < servers*(each-1) {
		t.Errorf("%d tools are listed", len(listed.Tools))
	}
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: "gateway.provider.approved", Limit: 1000})
	must(t, err)
	approved := 0
	for _, p := range packets {
		approved += strings.Count(string(p.Body), `"tool":`)
	}
	if approved != servers*each+2 {
		t.Errorf("the ledger has %d approvals of tools", approved)
	}
}
