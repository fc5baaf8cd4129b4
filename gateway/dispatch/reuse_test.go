package dispatch

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/registry"
)

const toolStill = capabilities.ToolID("tool.test.still")

// counting is a provider of a tool that returns the same again, and counts how often it runs.
type counting struct {
	runs atomic.Int64
	do   func(run int64) error // nil: it goes well
}

func (c *counting) Execute(_ context.Context, o registry.Order) (capabilities.Output, error) {
	run := c.runs.Add(1)
	if c.do != nil {
		if err := c.do(run); err != nil {
			return capabilities.Output{}, err
		}
	}
	return capabilities.Output{Result: map[string]any{"text": run}, Effect: capabilities.EffectConfirmed}, nil
}

// stillHouse is a house whose registry has such a tool, by rules.
func stillHouse(t *testing.T, p *counting, cedar string) *house {
	t.Helper()
	h := newHouse(t, nodestest.New("n1"), func(o *Options) {
		must(t, o.Registry.Register(registry.Tool{Provider: p, Descriptor: &catalog.Descriptor{
			Tool: toolStill, Title: "Still", Description: "Gives the same again.", Version: "1.0.0", Tags: []string{"test"},
			SideEffects: catalog.EffectsNone, ModelFacing: true, Nature: catalog.NatureTool,
			Input:    json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","maxLength":64},"more":{"type":"string","maxLength":64}}}`),
			Result:   json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"integer"}}}`),
			Defaults: catalog.Defaults{Isolation: capabilities.ClassT0, CacheEligible: true}, Routing: catalog.Routing{Target: catalog.TargetGateway},
			Idempotency: catalog.Idempotency{Mode: catalog.IdempotencyCached, WindowMS: 3_600_000}, Limits: catalog.Limits{TimeoutMS: 10_000, MaxTimeoutMS: 10_000, MaxResultBytes: 4096},
			Annotations: catalog.Annotations{ReadOnly: true}, Consent: catalog.ConsentCall,
		}}))
	})
	h.stillRules(cedar)
	return h
}

func (h *house) stillRules(cedar string) {
	h.t.Helper()
	e, err := policy.Load([]policy.Source{{Name: "test.cedar", Data: []byte(cedar)}}, h.opts.Registry)
	must(h.t, err)
	h.engine.Store(e)
}

// Without a request ID the same call of the same principal in the same lane gets the recorded
// result, where the descriptor's keys allow it, and anything else runs (S4-28, S4-29, S4-44).
func TestTheSameCallGetsTheRecordedResult(t *testing.T) {
	var p counting
	h := stillHouse(t, &p, permitAll)
	still := func(caller Caller, args string, id capabilities.RequestID) capabilities.Result {
		t.Helper()
		return h.Call(t.Context(), Request{Caller: caller, Tool: toolStill, Args: json.RawMessage(args), RequestID: id, Surface: "test"})
	}
	first := still(agentCaller, `{"text":"a","more":"b"}`, "")
	want(t, first, capabilities.StatusOK, "")
	if first.Deduplicated {
		t.Error("the first is said to repeat one")
	}
	again := still(agentCaller, ` {"more":"b", "text":"a"}`, "") // in another order: the same call
	want(t, again, capabilities.StatusOK, "")
	if !again.Deduplicated || again.Call != first.Call || string(again.Output) != string(first.Output) || p.runs.Load() != 1 {
		t.Errorf("%+v after %d runs", again, p.runs.Load())
	}
	all, _ := h.repeats()
	if len(all) != 1 || all[0].How != repeatReused || all[0].Of != first.Call {
		t.Errorf("%+v", all)
	}
	for name, other := range map[string]struct {
		caller Caller
		args   string
		id     capabilities.RequestID
	}{
		"other arguments":   {agentCaller, `{"text":"a"}`, ""},
		"another lane":      {Caller{Principal: agentCaller.Principal, Role: policy.RoleAgent, Lane: "other"}, `{"text":"a","more":"b"}`, ""},
		"another principal": {Caller{Principal: "agent-2", Role: policy.RoleAgent, Lane: agentCaller.Lane}, `{"text":"a","more":"b"}`, ""},
		"a request ID":      {agentCaller, `{"text":"a","more":"b"}`, "r1"},
	} {
		before := p.runs.Load()
		if r := still(other.caller, other.args, other.id); r.Status != capabilities.StatusOK || r.Deduplicated || p.runs.Load() != before+1 {
			t.Errorf("%s: %+v after %d runs", name, r, p.runs.Load()-before)
		}
	}
	if r := still(agentCaller, `{"text":"a","more":"b"}`, "r1"); !r.Deduplicated {
		t.Errorf("a request ID that was seen: %+v", r)
	}
	h.stillRules(permitAll + `@id("no") forbid (principal, action == Action::"tool.test.still", resource);`)
	want(t, still(agentCaller, `{"text":"a","more":"b"}`, ""), capabilities.StatusDenied, capabilities.CodeDeniedByPolicy)
	// Nobody is asked here, so a call that a person is asked about is refused; no old result
	// stands in for their word.
	h.stillRules(`@id("ask") permit (principal, action, resource) when { context.consent };`)
	want(t, still(agentCaller, `{"text":"a","more":"b"}`, ""), capabilities.StatusDenied, capabilities.CodeConsentUnavailable)
}

// The same call while the first runs joins it, and one that failed is made again.
func TestTheSameCallJoinsAndFailuresAreNotUsedAgain(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	p := &counting{do: func(run int64) error {
		if run > 1 {
			return nil
		}
		close(began)
		<-finish
		return capabilities.Errorf(capabilities.CodeInternal, "not this time")
	}}
	h := stillHouse(t, p, permitAll)
	ends := make(chan capabilities.Result, 2)
	call := func() { ends <- h.call(context.Background(), toolStill, `{"text":"a"}`, "") }
	go call()
	<-began
	go call()
	for { // until the second has said that it joins: it is recorded before it waits
		if all, _ := h.repeats(); len(all) == 1 && all[0].How == repeatJoined {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(finish)
	first, second := <-ends, <-ends
	if first.Call != second.Call || first.Deduplicated == second.Deduplicated || p.runs.Load() != 1 {
		t.Errorf("%+v and %+v after %d runs", first, second, p.runs.Load())
	}
	want(t, first, capabilities.StatusError, capabilities.CodeInternal)
	if r := h.call(t.Context(), toolStill, `{"text":"a"}`, ""); r.Status != capabilities.StatusOK || r.Deduplicated || p.runs.Load() != 2 {
		t.Errorf("after a failure: %+v after %d runs", r, p.runs.Load())
	}
}

// No answer of a device is used again.
func TestNoResultOfADeviceIsUsedAgain(t *testing.T) {
	h := newHouse(t, nodestest.New("n1"), nil)
	for _, d := range h.opts.Registry.All() {
		if d.NodeCapability() != "" && d.Reuses() {
			t.Errorf("%s", d.Tool)
		}
	}
}
