package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/test/site"
)

const toolWord capabilities.ToolID = "tool.plug.word"

// word is a tool of the gateway that no catalog holds.
func word() *catalog.Descriptor {
	schema := json.RawMessage(`{"type":"object","additionalProperties":false,"required":["text"],"properties":{"text":{"type":"string","maxLength":64}}}`)
	return &catalog.Descriptor{
		Tool: toolWord, Title: "Word", Description: "Answers with its text, from a plug.", Version: "1.0.0", Tags: []string{"plug"},
		SideEffects: catalog.EffectsNone, ModelFacing: true, Nature: catalog.NatureTool, Input: schema, Result: schema,
		Defaults: catalog.Defaults{Isolation: capabilities.ClassT0}, Evidence: catalog.Evidence{Args: []string{"/text"}},
		Routing: catalog.Routing{Target: catalog.TargetGateway}, Idempotency: catalog.Idempotency{Mode: catalog.IdempotencyNone},
		Limits:      catalog.Limits{TimeoutMS: 5000, MaxTimeoutMS: 5000, MaxResultBytes: 4096},
		Annotations: catalog.Annotations{ReadOnly: true}, Consent: catalog.ConsentNone,
	}
}

// plug carries the tool out.
type plug struct{}

func (plug) Execute(_ context.Context, o registry.Order) (capabilities.Output, error) {
	return capabilities.Output{Result: o.Args, Effect: capabilities.EffectConfirmed}, nil
}

// embeddedOnly is a gateway that knows nothing of the fixture family when it starts.
func embeddedOnly(o *gateway.Options) { o.Catalog = nil }

// A tool that is registered while the gateway runs is one like any other: policy decides
// about it by a rule that names it, both surfaces list it and clients are told, it is
// carried out, and the ledger has it (S2-20, S4-10, S4-14).
func TestAToolRegisteredAtRunTime(t *testing.T) {
	h := start(t, site.Options{Rules: "// nothing yet", Door: embeddedOnly})
	token := h.MustToken("agent", principal.RoleAgent)
	told := make(chan struct{}, 16)
	mcp := h.listening(token, told)
	lists := func() (rest, model bool) {
		t.Helper()
		var list struct {
			Tools []struct {
				ID string `json:"tool_id"`
			}
		}
		newCaller(t, h.URL(), token).ok(http.MethodGet, "/v1/tools", "", &list)
		offered, err := mcp.ListTools(ctx(), nil)
		must(t, err)
		for _, tool := range list.Tools {
			rest = rest || tool.ID == string(toolWord)
		}
		return rest, slices.ContainsFunc(offered.Tools, func(tool *sdk.Tool) bool { return tool.Name == toolWord.WireName() })
	}
	call := func() capabilities.Result {
		return h.by("agent", "agent", toolWord, text("hello"), "")
	}
	want(t, call(), capabilities.StatusError, capabilities.CodeUnknownTool)

	before := h.Registry.Now().Version()
	must(t, h.Registry.Register(registry.Tool{Descriptor: word(), Provider: plug{}}))
	if h.Registry.Now().Version() <= before {
		t.Error("the version did not move")
	}
	// Nothing permits it: it is denied by policy, not unknown, and no list has it.
	want(t, call(), capabilities.StatusDenied, capabilities.CodeDeniedByPolicy)
	if rest, model := lists(); rest || model {
		t.Errorf("it is listed though nothing permits it: %v %v", rest, model)
	}
	for len(told) > 0 {
		<-told
	}
	h.rules(`@id("plug") permit (principal, action == Action::"tool.plug.word", resource) when { context.args has text && context.args.text == "hello" };`)
	await(t, "the list_changed", told)
	if rest, model := lists(); !rest || !model {
		t.Errorf("listed by REST %v, by MCP %v", rest, model)
	}
	r := call()
	want(t, r, capabilities.StatusOK, "")
	if out, err := json.Marshal(r.Output); err != nil || !strings.Contains(string(out), "hello") {
		t.Errorf("%s %v", out, err)
	}
	h.wantStory(r.Call, "request", "decision", "dispatch", "result")
	if body := string(h.story(r.Call).bodys[1]); !strings.Contains(body, `"plug"`) {
		t.Errorf("the decision does not name its rule: %s", body)
	}
	want(t, h.by("agent", "agent", toolWord, text("other"), ""), capabilities.StatusDenied, capabilities.CodeDeniedByPolicy)
	over, err := mcp.CallTool(ctx(), &sdk.CallToolParams{Name: toolWord.WireName(), Arguments: map[string]any{"text": "hello"}})
	must(t, err)
	if over.IsError {
		t.Errorf("by MCP: %+v", over.Content)
	}
}

// A capability that nodes offered all along becomes a tool when it is registered: policy
// that permits its family lists it at once, and a node carries it out.
func TestANodesToolRegisteredAtRunTime(t *testing.T) {
	h := start(t, site.Options{Rules: `@id("all") permit (principal, action, resource);`, Door: embeddedOnly})
	handler := site.NewHandler()
	n := h.AddNode("one", handler)
	want(t, h.Call(ctx(), site.ToolEcho, text("x"), ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	told := make(chan struct{}, 16)
	mcp := h.listening(h.MustToken("agent", principal.RoleAgent), told)
	_, err := mcp.ListTools(ctx(), nil)
	must(t, err)
	cat, err := site.Catalog()
	must(t, err)
	echo, _ := cat.Get(site.ToolEcho)
	must(t, h.Registry.Register(registry.Tool{Descriptor: echo}))
	await(t, "the list_changed", told)
	offered, err := mcp.ListTools(ctx(), nil)
	must(t, err)
	if !slices.ContainsFunc(offered.Tools, func(tool *sdk.Tool) bool { return tool.Name == site.ToolEcho.WireName() }) {
		t.Error("MCP does not list it")
	}
	r := h.Call(ctx(), site.ToolEcho, text("x"), "")
	want(t, r, capabilities.StatusOK, "")
	if r.Routing.Selected != n.ID || handler.Runs("x") != 1 {
		t.Errorf("%+v", r.Routing)
	}
	h.wantStory(r.Call, "request", "decision", "dispatch", "result")
	listed := h.Call(ctx(), "tool.node.list", `{}`, "")
	if out, _ := json.Marshal(listed.Output); !strings.Contains(string(out), string(site.ToolEcho)) {
		t.Errorf("the node list has no word on it: %s", out)
	}
}

// A tool that the policy in force could not judge is not registered: nothing changes then.
func TestARegistrationThatPolicyCannotJudge(t *testing.T) {
	h := start(t, site.Options{Rules: "// nothing yet", Door: embeddedOnly})
	must(t, h.Registry.Register(registry.Tool{Descriptor: word(), Provider: plug{}}))
	h.rules(`@id("plug") permit (principal, action in Action::"family:plug", resource) when { context.args has text && context.args.text like "h*" };`)
	number := word()
	number.Tool = "tool.plug.number"
	number.Input = json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"integer","minimum":0,"maximum":9}}}`)
	version, engine := h.Registry.Now().Version(), h.Rulebook.Engine()
	err := h.Registry.Register(registry.Tool{Descriptor: number, Provider: plug{}})
	if capabilities.CodeOf(err) != capabilities.CodeConflict || !strings.Contains(err.Error(), "test.cedar:1") {
		t.Errorf("%v", err)
	}
	if h.Registry.Now().Version() != version || h.Rulebook.Engine() != engine {
		t.Error("something changed")
	}
	want(t, h.by("agent", "agent", toolWord, text("hello"), ""), capabilities.StatusOK, "")
}

// listening opens an MCP session that is told when its list changes.
func (h *house) listening(token string, told chan<- struct{}) *sdk.ClientSession {
	h.t.Helper()
	c := newCaller(h.t, h.URL(), token)
	mcp, err := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
	}).Connect(ctx(), &sdk.StreamableClientTransport{Endpoint: h.URL() + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{c}}},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	must(h.t, err)
	h.t.Cleanup(func() { _ = mcp.Close() })
	return mcp
}
