package rest

import (
	"context"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Drift is the events of drift, and what people do about them; the gateway implements it.
type Drift interface {
	// Surfaced keeps what a page showed without a grant.
	Uncounted(ctx context.Context, who principal.Identity, more packet.DriftUncounted) error
	Surfaced(ctx context.Context, who principal.Identity, report drift.Surfaced, signals []drift.Signal) error
	List(context.Context, events.Filter) (list []events.Event, before uint64, err error)
	Holding(context.Context) ([]events.Quarantine, []events.Restriction, []events.Raise, error)
	// Raised is by how many levels the risk of a tool is raised on a node.
	Raised(capabilities.ToolID, capabilities.NodeID) int
	// Restricted reports whether a tool waits for a review.
	Restricted(capabilities.ToolID) (events.Restriction, bool)
	// Manifest returns the hash of a tool's manifest; "": there is no such tool.
	Manifest(capabilities.ToolID) string
	Resolve(ctx context.Context, by capabilities.PrincipalID, reason string, ids ...string) ([]events.Event, error)
	Lift(ctx context.Context, by capabilities.PrincipalID, runner, reason string) error
	Review(ctx context.Context, by capabilities.PrincipalID, tool capabilities.ToolID, manifest, reason string) error
}

func (s *Server) driftTable() []*endpoint {
	return []*endpoint{
		serveJSON(endpoint{method: get, path: "/v1/drift", action: principal.ActReadLedger, summary: "Drift events, the newest first, with " +
			"quarantined runners, restricted tools and raised risks",
			query: []param{
				{"open", "1: only those that nobody has resolved", "boolean"}, {"tool", "of this tool", "string"},
				{"node", "of this node", "string"}, {"call", "of this call", "string"}, {"signal", strings.Join(drift.SignalWords(), ", "), "string"},
				{"severity", "warning, violation or critical", "string"},
				{"before", "the answer's before continues a list", "integer"}, limitParam,
			}}, s.driftList),
		serveJSON(endpoint{
			method: post, path: "/v1/drift/{drift}/resolve", action: principal.ActDrift, does: "tool.admin.drift-resolve",
			summary: "Resolve an event, with a reason; it raises no risk from then on",
		}, s.resolveDrift),
		serveJSON(endpoint{
			method: post, path: "/v1/drift/resolve", action: principal.ActDrift, does: "tool.admin.drift-resolve",
			summary: "Resolve several events with one reason, all or none; each has a packet of its own",
		}, s.resolveSeveral),
		serveJSON(endpoint{
			method: post, path: "/v1/runners/{runner}/lift", action: principal.ActDrift, does: "tool.admin.runner-lift",
			summary: "Lift the quarantine of a runner, with a reason",
		}, s.liftRunner),
		serveJSON(endpoint{
			method: post, path: "/v1/tools/{tool}/review", action: principal.ActDrift, does: "tool.admin.tool-review",
			summary: "Let a tool be called again that critical drift restricted: names the manifest that was looked at, and a reason",
		}, s.reviewTool),
	}
}

func (s *Server) driftList(c *visit, _ none) (out api.DriftList, err error) {
	f := events.Filter{
		Tool: capabilities.ToolID(c.param("tool")), Node: capabilities.NodeID(c.param("node")), Call: capabilities.CallID(c.param("call")),
		Signal: c.param("signal"), Severity: drift.Severity(c.param("severity")),
	}
	if f.Open, err = c.flag("open"); err != nil {
		return out, err
	}
	if f.Before, err = c.number("before", 0, 1<<56); err != nil {
		return out, err
	}
	limit, err := c.number("limit", 100, 500)
	if err != nil {
		return out, err
	}
	f.Limit = int(limit)
	list, before, err := s.opts.Drift.List(c.r.Context(), f)
	if err != nil {
		return out, err
	}
	quarantines, restrictions, raises, err := s.opts.Drift.Holding(c.r.Context())
	if err != nil {
		return out, err
	}
	out = api.DriftList{
		Before: before, Events: viewAll(list, front.ViewDrift), Quarantined: viewAll(quarantines, front.ViewQuarantine),
		Restricted: []api.RestrictedTool{}, Raised: []api.RaisedRisk{},
	}
	for _, r := range restrictions {
		one := api.RestrictedTool{
			Tool: r.Tool, Event: r.Event, Since: r.Since, ManifestThen: r.Manifest, ManifestHash: s.opts.Drift.Manifest(r.Tool), Keys: []string{},
		}
		if desc, ok := s.opts.Tools.Get(r.Tool); ok {
			one.Keys = append(one.Keys, desc.Manifest.Keys()...)
		}
		out.Restricted = append(out.Restricted, one)
	}
	for _, r := range raises {
		out.Raised = append(out.Raised, api.RaisedRisk{Tool: r.Tool, Node: r.Node, Levels: r.Levels, Clean: r.Clean})
	}
	return out, nil
}

func (s *Server) resolveDrift(c *visit, in api.DriftReason) (api.DriftEvent, error) {
	list, err := s.opts.Drift.Resolve(c.r.Context(), c.who.Principal, in.Reason, c.r.PathValue("drift"))
	if err != nil {
		return api.DriftEvent{}, err
	}
	return front.ViewDrift(&list[0]), nil
}

func (s *Server) resolveSeveral(c *visit, in api.ResolveDrift) (api.ResolvedDrift, error) {
	list, err := s.opts.Drift.Resolve(c.r.Context(), c.who.Principal, in.Reason, in.Events...)
	return api.ResolvedDrift{Events: viewAll(list, front.ViewDrift)}, err
}

func (s *Server) liftRunner(c *visit, in api.DriftReason) (api.DriftEnded, error) {
	runner := c.r.PathValue("runner")
	return api.DriftEnded{Runner: runner, Status: "lifted"}, s.opts.Drift.Lift(c.r.Context(), c.who.Principal, runner, in.Reason)
}

func (s *Server) reviewTool(c *visit, in api.ReviewTool) (api.DriftEnded, error) {
	tool := capabilities.ToolID(c.r.PathValue("tool"))
	return api.DriftEnded{
		Tool: tool, Status: "reviewed",
	}, s.opts.Drift.Review(c.r.Context(), c.who.Principal, tool, in.ManifestHash, in.Reason)
}

// restricted has a provider's tool that critical drift restricted say so: it is not called,
// whatever was decided about it before.
func (s *Server) restricted(t *api.ProviderTool) {
	if _, held := s.opts.Drift.Restricted(t.Tool); held && t.Callable {
		t.State, t.Callable = "restricted", false
	}
}
