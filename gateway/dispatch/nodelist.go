package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
)

// nodeList carries out tool.node.list, the only generic helper to find nodes
// (S0-06). It reports tools, not capabilities, so that no second step is needed
// (S0-07).
type nodeList struct{ d *Dispatcher }

type nodeListArgs struct {
	Tool         capabilities.ToolID `json:"tool_id"`
	Dispatchable bool                `json:"dispatchable_only"`
	Key          capabilities.LaneID `json:"key"`
}

// Fields stand in the order of their names, so that what encoding/json writes is
// canonical already.
type listedNode struct {
	Attached  bool                `json:"attached_to_requested_conversation"`
	Connected bool                `json:"connected"`
	Device    *listedDevice       `json:"device,omitempty"`
	Label     string              `json:"label,omitempty"`
	Node      capabilities.NodeID `json:"node_id"`
	Paired    string              `json:"paired_status"`
	Tools     []listedTool        `json:"tools"`
	Trust     string              `json:"trust_level,omitempty"`
}

type listedDevice struct {
	Platform string `json:"platform,omitempty"`
}

type listedTool struct {
	Available bool                        `json:"available"`
	Backend   string                      `json:"backend,omitempty"`
	Degraded  string                      `json:"degraded,omitempty"`
	Devices   []capabilities.Device       `json:"devices,omitempty"`
	Fake      bool                        `json:"fake,omitempty"`
	Fix       string                      `json:"fix,omitempty"`
	Isolation capabilities.IsolationClass `json:"isolation,omitempty"`
	Approval  bool                        `json:"needs_approval,omitempty"`
	Reason    capabilities.Reason         `json:"reason,omitempty"`
	Tool      capabilities.ToolID         `json:"tool_id"`
}

// maxListed bounds the answer; a larger site names the tool it wants.
const maxListed = 200

// Execute answers from the roster as it stands now.
func (p nodeList) Execute(_ context.Context, o registry.Order) (capabilities.Output, error) {
	var args nodeListArgs
	if err := json.Unmarshal(o.Args, &args); err != nil {
		return capabilities.Output{}, err
	}
	lane := o.Caller.Lane
	if args.Key != "" && args.Key != lane {
		// Which nodes hang on another conversation is not an agent's to know.
		if o.Caller.Role == policy.RoleAgent {
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeForbidden, "an agent may ask about its own lane only")
		}
		lane = args.Key
	}
	attached := p.d.opts.Lanes.Attached(lane)
	engine := p.d.opts.Policy()
	nodes := make([]listedNode, 0, 8)
	truncated := false
	roster := p.d.opts.Nodes.Snapshot()
	list := p.d.list(engine, Caller{Principal: o.Caller.Principal, Role: o.Caller.Role, Lane: o.Caller.Lane}, roster)
	for i := range roster {
		n := &roster[i]
		if n.Serves != "" {
			continue // a satellite is no node
		}
		ln := listedNode{
			Node: n.ID, Label: n.Summary.Label, Trust: n.Summary.Trust, Connected: n.Connected, Paired: n.Paired,
			Attached: slices.Contains(attached, n.ID), Tools: p.tools(list, n, args),
		}
		if n.Summary.Platform != "" {
			ln.Device = &listedDevice{Platform: n.Summary.Platform}
		}
		if args.Dispatchable && len(ln.Tools) == 0 {
			continue
		}
		if len(nodes) == maxListed {
			truncated = true
			break
		}
		nodes = append(nodes, ln)
	}
	sort.SliceStable(nodes, func(i, j int) bool {
		a, b := &nodes[i], &nodes[j]
		switch {
		case a.Attached != b.Attached:
			return a.Attached
		case a.Connected != b.Connected:
			return a.Connected
		}
		return a.Node < b.Node
	})
	filters := map[string]any{"dispatchable_only": args.Dispatchable, "conversation_key": lane}
	if args.Tool != "" {
		filters["tool_id"] = args.Tool
	}
	result := map[string]any{
		"status": "ok", "generated_at": time.Now().UTC().Format(time.RFC3339Nano), "conversation_key": lane,
		"applied_filters": filters, "nodes": nodes,
	}
	if truncated {
		result["truncated"] = true
	}
	return capabilities.Output{Result: result, Effect: capabilities.EffectConfirmed}, nil
}

// tools returns what n has to say about each tool it advertises, or, when one is
// asked for, about that one whether advertised or not.
func (p nodeList) tools(list *listing, n *route.Node, args nodeListArgs) []listedTool {
	tools := []listedTool{}
	for _, desc := range p.d.opts.Registry.List(nil, "") {
		capability := desc.NodeCapability()
		if desc.OnRequest && args.Tool != desc.Tool {
			continue // as in lists: it is told of where it is asked for
		}
		if capability == "" || !desc.ModelFacing || !p.d.delivers(list.caller.Principal, desc) || (args.Tool != "" && desc.Tool != args.Tool) {
			continue
		}
		ready, advertised := n.Readiness[capability]
		if !advertised && args.Tool == "" {
			continue
		}
		var verdict policy.Decision
		check := route.Check(n, capability, func(capabilities.NodeID) bool {
			verdict = list.possible(desc, n)
			return verdict.Effect == policy.Deny
		})
		var held *capabilities.Error
		if check.Eligible() {
			held = p.d.opts.Drift.Refuses(desc.Tool, func() drift.Runner { return runnerOf(desc, n.ID, &ready, p.d.opts.Program) })
		}
		if args.Dispatchable && (!check.Eligible() || held != nil) {
			continue
		}
		t := listedTool{
			Tool: desc.Tool, Available: check.Eligible(), Reason: check.Reason, Fix: check.Fix,
			Approval:  check.Eligible() && verdict.Effect == policy.Ask,
			Isolation: ready.Isolation, Degraded: ready.Degraded, Backend: ready.Backend, Devices: ready.Devices, Fake: ready.Fake,
		}
		if check.Reason == capabilities.ReasonHiddenByPolicy && list.caller.readsPolicy(p.d.opts.Policy()) {
			t.Fix, _ = ruleFix(desc.Tool, n.ID)
		}
		if check.Reason == capabilities.ReasonHiddenByPolicy && verdict.Code == capabilities.CodeIsolationUnavailable {
			t.Reason, t.Fix = capabilities.ReasonIsolationMissing, verdict.Reason
		}
		if held != nil {
			t.Available, t.Approval, t.Reason, t.Fix = false, false, capabilities.Reason(held.Code), held.PublicHint()
		}
		tools = append(tools, t)
	}
	return tools
}
