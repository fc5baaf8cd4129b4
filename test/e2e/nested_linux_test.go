package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// inside are the calls that a call made, in their order, with what they ended with.
func (h *house) inside(parent capabilities.CallID) (steps []string) {
	h.t.Helper()
	type one struct {
		step uint32
		text string
	}
	var list []one
	byCall := map[capabilities.CallID]int{}
	must(h.t, h.Ledger.Since(ctx(), 0, func(p *ledger.Packet) error {
		var body struct {
			Parent capabilities.CallID `json:"parent_call_id"`
			Step   uint32              `json:"step"`
			Status string              `json:"status"`
			Code   string              `json:"code"`
		}
		if err := json.Unmarshal(p.Body, &body); err != nil || body.Parent != parent {
			return err
		}
		if p.Kind == ledger.KindCallRequest {
			byCall[p.Call] = len(list)
			list = append(list, one{body.Step, string(p.Tool)})
		} else if p.Kind.Terminal() {
			list[byCall[p.Call]].text += " " + strings.TrimSpace(body.Status+" "+body.Code)
		}
		return nil
	}))
	slices.SortFunc(list, func(a, b one) int { return int(a.step) - int(b.step) })
	for _, l := range list {
		steps = append(steps, l.text)
	}
	return steps
}

// composed is a tool that the test registers while the gateway runs, and that makes the calls
// that a test tells it to: a sub-agent as far as the pipeline can know (S3-16).
type composed struct {
	make func(ctx context.Context, o registry.Order) []capabilities.Result
}

func (c composed) Execute(ctx context.Context, o registry.Order) (capabilities.Output, error) {
	var codes []string
	for _, r := range c.make(ctx, o) {
		code := string(r.Code)
		if code == "" {
			code = "ok"
		}
		codes = append(codes, code)
	}
	return capabilities.Output{Result: map[string]any{"text": strings.Join(codes, " ")}}, nil
}

func (h *house) register(name string, keys catalog.Categories, by registry.Provider, steps ...string) {
	h.t.Helper()
	must(h.t, h.Registry.Register(registry.Tool{Provider: by, Descriptor: &catalog.Descriptor{
		Tool: capabilities.ToolID("tool.fixture." + name), Title: name, Description: "A test's.", Version: "1.0.0", Tags: []string{"fixture"}, ModelFacing: true,
		SideEffects: catalog.EffectsLocal, Nature: catalog.NatureTool, Layer: catalog.LayerSubAgent, Steps: steps, Manifest: keys,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false}`), Result: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","maxLength":4096}}}`),
		Defaults: catalog.Defaults{Isolation: capabilities.ClassT0}, Routing: catalog.Routing{Target: catalog.TargetGateway}, Consent: catalog.ConsentLease,
		Idempotency: catalog.Idempotency{Mode: catalog.IdempotencyGuard}, Limits: catalog.Limits{TimeoutMS: 60000, MaxTimeoutMS: 60000, MaxResultBytes: 65536},
	}}))
}

// A call inside another has at most its grants, whatever policy allows by itself; it leads back to
// none that it is inside of, and no deeper than three (S3-16, S3-18).
func TestCallsInsideACallAreAttenuated(t *testing.T) {
	h, handler, n := one(t)
	h.Grant("agent", n, "tool.fixture.press")
	call := func(tools ...string) composed {
		return composed{func(ctx context.Context, o registry.Order) (all []capabilities.Result) {
			for _, tool := range tools {
				args := json.RawMessage(`{}`)
				if tool == "echo" || tool == "press" {
					args = json.RawMessage(text(tool))
				}
				all = append(all, o.Step(ctx, registry.Nested{Tool: capabilities.ToolID("tool.fixture." + tool), Args: args}))
			}
			return all
		}}
	}
	h.register("agent", catalog.Categories{}, call("echo", "press", "agent", "inner"), "fixture")
	h.register("inner", catalog.Categories{}, call("deepest", "agent"), "fixture")
	h.register("deepest", catalog.Categories{}, call("echo", "deep4"), "fixture")
	h.register("deep4", catalog.Categories{}, call("echo"), "fixture")
	h.register("narrow", catalog.Categories{}, call("echo", "press"), "tool.fixture.echo")
	r := h.Call(ctx(), "tool.fixture.agent", `{}`, "")
	want(t, r, capabilities.StatusOK, "")
	if string(r.Output) != `{"text":"ok denied_by_policy denied_by_policy ok"}` || handler.Runs("press") != 0 || handler.Runs("echo") != 2 {
		t.Errorf("%s, press ran %d times, echo %d", r.Output, handler.Runs("press"), handler.Runs("echo"))
	}
	if got := h.inside(r.Call); !slices.Equal(got, []string{"tool.fixture.echo ok", "tool.fixture.press denied denied_by_policy", "tool.fixture.agent denied denied_by_policy", "tool.fixture.inner ok"}) {
		t.Errorf("inside it: %q", got)
	}
	if r := h.Call(ctx(), "tool.fixture.narrow", `{}`, ""); string(r.Output) != `{"text":"ok unknown_tool"}` {
		t.Errorf("%s %s", r.Output, r.Message)
	}
	// By itself the call is allowed, with the grant of a person.
	want(t, h.Call(ctx(), "tool.fixture.press", text("press"), ""), capabilities.StatusOK, "")
}
