package rest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// calls returns the packets of a tool's calls, oldest first.
func (a *surface) packetsOf(tool capabilities.ToolID) []ledger.Packet {
	a.t.Helper()
	all, err := a.Ledger.Packets(a.t.Context(), ledger.Query{Tool: tool})
	if err != nil {
		a.t.Fatal(err)
	}
	return all
}

func kinds(all []ledger.Packet) string {
	var names []string
	for _, p := range all {
		names = append(names, strings.TrimPrefix(string(p.Kind), "tool.call."))
	}
	return strings.Join(names, " ")
}

// A change of rights or secrets has a descriptor, an envelope, a decision, a grant that is bound to
// the policy's snapshot, and packets (S1-04, S1-61, S1-64); no value of a secret is in them.
func TestAdminWorkIsRecorded(t *testing.T) {
	a := start(t)
	a.ok(a.admin, "POST", "/v1/tokens", `{"principal":"bob","role":"operator","ttl_s":60}`, nil)
	all := a.packetsOf("tool.admin.token-create")
	if kinds(all) != "request decision dispatch result" {
		t.Fatalf("%s", kinds(all))
	}
	var request packet.Request
	var decision packet.Decision
	must(t, json.Unmarshal(all[0].Body, &request))
	must(t, json.Unmarshal(all[1].Body, &decision))
	if request.Evidence["principal"] != "bob" || request.Evidence["role"] != "operator" || request.Surface != "rest" || all[0].Principal != "root" {
		t.Errorf("%+v", request)
	}
	e, err := policy.OpenEnvelope(decision.Envelope)
	must(t, err)
	if decision.Effect != policy.Allow || e.Tool != "tool.admin.token-create" || e.Risk != policy.RiskCritical || e.Role != "admin" || fmt.Sprint(e.Grants) != "[privileged.admin.mutate_policy]" ||
		!slices.Contains(decision.Policies, "role-administers") {
		t.Errorf("%s", all[1].Body)
	}
	grants, err := a.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.grant.made"})
	must(t, err)
	if len(grants) != 1 || grants[0].Seq > all[2].Seq || !strings.Contains(string(grants[0].Body), decision.Grant) || !strings.Contains(string(grants[0].Body), a.snapshot) ||
		!strings.Contains(string(grants[0].Body), `"max_uses":1`) || !strings.Contains(string(grants[0].Body), `"used":1`) {
		t.Errorf("%+v", grants)
	}

	a.fails(a.admin, "DELETE", "/v1/tokens/none", "", capabilities.CodeNotFound)
	if all := a.packetsOf("tool.admin.token-revoke"); kinds(all) != "request decision dispatch failed" || !strings.Contains(string(all[3].Body), "not_found") {
		t.Errorf("%s", kinds(all))
	}
	a.do(a.admin, "PUT", "/v1/secrets/bank", `{"value":"hunter2hunter2"}`)
	if all := a.packetsOf("tool.admin.secret-set"); len(all) != 4 || strings.Contains(string(all[0].Body), "hunter2") || !strings.Contains(string(all[0].Body), "bank") {
		t.Errorf("%s", kinds(all))
	}
	a.fails(a.agent, "POST", "/v1/tokens", `{"principal":"bob","role":"agent"}`, capabilities.CodeForbidden)
}

// A rule can name one piece of admin work, or the action that it is a part of: it is refused and
// recorded, and nothing is done.
func TestAdminWorkIsDecidedByPolicy(t *testing.T) {
	a := start(t)
	engine, err := policy.Load([]policy.Source{{Name: "mine.cedar", Data: []byte(`@id("no-links") forbid (principal, action == Action::"tool.admin.token-create", resource);
		@id("no-secrets") forbid (principal, action in Action::"secrets", resource) unless { principal == User::"ann" };`)}}, a.Dispatcher.Catalog)
	must(t, err)
	before := len(a.Tokens.List())
	a.engine = engine
	a.fails(a.admin, "POST", "/v1/tokens", `{"principal":"bob","role":"operator"}`, capabilities.CodeDeniedByPolicy)
	all := a.packetsOf("tool.admin.token-create")
	if kinds(all) != "request decision failed" || !strings.Contains(string(all[1].Body), "no-links") || len(a.Tokens.List()) != before {
		t.Errorf("%s", kinds(all))
	}
	a.fails(a.admin, "DELETE", "/v1/tokens/none", "", capabilities.CodeNotFound) // the rest of the action goes on
	a.fails(a.admin, "PUT", "/v1/secrets/bank", `{"value":"x"}`, capabilities.CodeDeniedByPolicy)
}

// Every route that changes something says what it is, or is one of those whose packets are others'.
func TestRoutesThatChangeRightsAreAdminWork(t *testing.T) {
	a := start(t)
	for route, tool := range a.rest.Works() {
		d, ok := a.Dispatcher.Catalog.Get(tool)
		if !ok || d.ModelFacing || d.Surface != string(a.rest.Actions()[route]) {
			t.Errorf("%s is %s, which is a part of another action, or of none", route, tool)
		}
	}
	for route, action := range a.rest.Actions() {
		if strings.HasPrefix(route, "GET ") || a.rest.Works()[route] != "" {
			continue
		}
		switch action {
		case "tokens", "secrets", "invites", "providers", "drift", "nodes.manage":
			t.Errorf("%s changes rights and is no admin work", route)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
