package rest

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// Selector chooses a tool for an intent (S4-18) and records that it did.
type Selector interface {
	// SelectTool chooses among candidates only.
	SelectTool(ctx context.Context, who dispatch.Caller, intent registry.Intent,
		candidates []capabilities.ToolID) (registry.ToolSelection, error)
}

// maxCandidates bounds those that a caller names.
const maxCandidates = 256

// selectTool chooses among the tools the caller may use now, so that a selection
// is never a tool that its dispatch would refuse to know. It carries nothing out.
func (s *Server) selectTool(c *visit, in api.SelectTool) (api.ToolSelection, error) {
	if in.Lane == "" {
		in.Lane = c.who.Lane
	}
	if len(in.Candidates) > maxCandidates {
		return api.ToolSelection{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "at most %d candidates", maxCandidates)
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, in.Lane); err != nil {
		return api.ToolSelection{}, err
	}
	who := front.Caller(c.who, in.Lane)
	usable := map[capabilities.ToolID]bool{}
	all := []capabilities.ToolID{}
	for _, d := range s.opts.Dispatcher.Visible(c.r.Context(), who) {
		usable[d.Tool] = true
		all = append(all, d.Tool)
	}
	if in.Candidates == nil {
		in.Candidates = all
	}
	for _, id := range in.Candidates {
		if !usable[id] {
			return api.ToolSelection{}, capabilities.Errorf(capabilities.CodeUnknownTool, "candidate %.128q is no tool that you may use now", id)
		}
	}
	chosen, err := s.opts.Selector.SelectTool(c.r.Context(), who, registry.Intent{Text: in.Intent, Tags: in.Tags, Args: in.Args},
		in.Candidates)
	return front.ViewSelection(&chosen), err
}
