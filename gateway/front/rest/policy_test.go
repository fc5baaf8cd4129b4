package rest_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/rules"
)

func TestPolicy(t *testing.T) {
	a := start(t)
	var view struct {
		ID      string `json:"snapshot_id"`
		Sources []struct{ Name, Text string }
	}
	a.ok(a.admin, "GET", "/v1/policy", "", &view)
	if view.ID == "" || len(view.Sources) != 1 || view.Sources[0].Text != string(policy.DefaultSource()) {
		t.Errorf("policy %.200v", view)
	}
	var out struct {
		Decision struct {
			Effect string
			Code   string `json:"reason_code"`
		}
		Rules []any
	}
	for body, effect := range map[string]string{
		`{"principal":"p","role":"agent","tool":"tool.node.list"}`:                                                          "allow",
		`{"principal":"p","role":"agent","tool":"tool.browser.navigate","node":"n1","args":{"url":"https://example.com/"}}`: "allow",
		`{"principal":"p","role":"agent","tool":"tool.browser.navigate","args":{"node_id":"n1","url":"http://127.0.0.1/"}}`: "deny",
		`{"principal":"p","role":"agent","tool":"tool.desktop.act","node":"n1"}`:                                            "deny",
		`{"principal":"p","role":"agent","tool":"tool.browser.navigate","args":{"url":"https://example.com/"}}`:             "allow", // n1 is the only one that can
	} {
		a.ok(a.admin, "POST", "/v1/policy/explain", body, &out)
		if out.Decision.Effect != effect {
			t.Errorf("%s: %+v", body, out.Decision)
		}
	}
	for body, code := range map[string]capabilities.Code{
		`{"principal":"p","role":"agent","tool":"no.such"}`:                                               capabilities.CodeUnknownTool,
		`{"principal":"p","role":"root","tool":"tool.node.list"}`:                                         capabilities.CodeInvalidRequest,
		`{"principal":"p","role":"agent","tool":"tool.browser.close"}`:                                    capabilities.CodeAmbiguousNode,
		`{"principal":"p","role":"agent","tool":"tool.browser.close","node":"zz"}`:                        capabilities.CodeNodeNotFound,
		`{"principal":"p","role":"agent","tool":"tool.browser.navigate","node":"n1","args":{"uri":"x:"}}`: capabilities.CodeInvalidArguments,
	} {
		a.fails(a.admin, "POST", "/v1/policy/explain", body, code)
	}
}

// selections chooses with the real registry and records nothing.
type selections struct{ catalog *catalog.Catalog }

func (s selections) SelectTool(ctx context.Context, who dispatch.Caller, intent registry.Intent, candidates []capabilities.ToolID) (registry.ToolSelection, error) {
	return registry.New(s.catalog, slog.New(slog.DiscardHandler)).Select(ctx, s, intent, registry.Context{Principal: who.Principal, Lane: who.Lane}, candidates)
}

func (selections) RecordSelection(context.Context, registry.Record) error { return nil }

func TestSelectionStaysAmongWhatTheCallerMayUse(t *testing.T) {
	a := start(t)
	var got api.ToolSelection
	a.ok(a.agent, "POST", "/v1/selections", `{"intent":"take a screenshot of the page"}`, &got)
	if got.SelectedTool != "tool.browser.screenshot" || len(got.CandidateTools) == 0 || got.WhySelected == "" {
		t.Fatalf("%+v", got)
	}
	a.fails(a.agent, "POST", "/v1/selections", `{"intent":"hidden","candidates":["test.hidden"]}`, capabilities.CodeUnknownTool)
	a.fails(a.agent, "POST", "/v1/selections", `{"intent":""}`, capabilities.CodeInvalidRequest)
}

// ruleSets adds the ledger to the policy sets.
type ruleSets struct {
	*rules.Book
	f *fronttest.Front
}

func (r ruleSets) ReplayCall(ctx context.Context, call capabilities.CallID) (rules.CallReplay, error) {
	return rules.ReplayCall(ctx, r.Book, r.f.Dispatcher.Catalog, r.f.Ledger, call)
}

func (r ruleSets) Replay(ctx context.Context, engine, now *policy.Engine, after uint64) (rules.Replay, error) {
	return rules.Run(ctx, engine, now, r.f.Dispatcher.Catalog, r.f.Ledger, after)
}
