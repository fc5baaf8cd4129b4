package dispatch

import (
	"context"
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// toolSearch carries out tool.catalog.search: it finds tools by words and keeps what it found for
// the lane. It chooses among what the caller may use now, by the decision of lists and calls, and
// calls nothing; nodes are found by tool.node.list alone (S0-06).
type toolSearch struct{ d *Dispatcher }

// Selector chooses tools by words and records that it did (S4-18, S4-22); the gateway joins it of
// registry and ledger.
type Selector interface {
	SelectTool(ctx context.Context, who Caller, intent registry.Intent, candidates []capabilities.ToolID) (registry.ToolSelection, error)
}

// Working keeps what lanes found; gateway/lane implements it.
type Working interface {
	Find(ctx context.Context, lane capabilities.LaneID, tools []capabilities.ToolID) error
}

// noWorking is a Working that keeps nothing.
type noWorking struct{}

// Find keeps nothing.
func (noWorking) Find(context.Context, capabilities.LaneID, []capabilities.ToolID) error { return nil }

// mostFound is how many tools a search returns.
const mostFound = 5

// mostAbout is how many bytes of a tool's description a search shows.
const mostAbout = 200

// Fields stand in the order of their names, so that what encoding/json writes is canonical already.
type foundTool struct {
	About string              `json:"about"`
	Title string              `json:"title"`
	Tool  capabilities.ToolID `json:"tool_id"`
}

// Execute finds at most five tools.
func (p toolSearch) Execute(ctx context.Context, o registry.Order) (capabilities.Output, error) {
	var args struct {
		Words string `json:"words"`
	}
	if err := json.Unmarshal(o.Args, &args); err != nil {
		return capabilities.Output{}, err
	}
	who := Caller{Principal: o.Caller.Principal, Role: o.Caller.Role, Lane: o.Caller.Lane}
	candidates := []capabilities.ToolID{} // nil would be every tool there is
	for _, d := range p.d.Visible(ctx, who) {
		if !d.Face { // those are in every list
			candidates = append(candidates, d.Tool)
		}
	}
	sel, err := p.d.opts.Selector.SelectTool(ctx, who, registry.Intent{Text: args.Words}, candidates)
	if err != nil {
		return capabilities.Output{}, err
	}
	ids := sel.CandidateTools[:min(len(sel.CandidateTools), mostFound)]
	if err := p.d.opts.Working.Find(ctx, who.Lane, ids); err != nil {
		return capabilities.Output{}, err
	}
	found := make([]foundTool, 0, len(ids))
	for _, id := range ids {
		if d, ok := p.d.opts.Registry.Get(id); ok { // or its provider went away meanwhile
			found = append(found, foundTool{Tool: id, Title: d.Title, About: capabilities.Clip(d.Description, mostAbout)})
		}
	}
	return capabilities.Output{Result: map[string]any{"tools": found}, Effect: capabilities.EffectConfirmed}, nil
}
