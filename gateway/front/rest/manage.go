package rest

import (
	"cmp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/pairing"
)

func (s *Server) health(c *visit, _ none) (api.Health, error) {
	view := api.Health{Status: "ok", Service: "handrail"}
	token, sent := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if !sent {
		return view, nil
	}
	if _, err := s.opts.Tokens.Authenticate(token); err == nil {
		site := s.opts.Site()
		view.SiteID, view.GatewayID, view.Version, view.StartedAt = site.SiteID, site.GatewayID, site.Version, site.StartedAt
	}
	return view, nil
}

// ready says whether calls are carried out; why they are not is for holders of a token.
func (s *Server) ready(*visit, none) (api.Health, error) {
	if s.opts.Site().ReadOnly {
		return api.Health{}, capabilities.Errorf(capabilities.CodeLedgerUnavailable, "The gateway is not ready.").WithHint("Ask the admin.")
	}
	if s.opts.Site().Draining {
		return api.Health{}, capabilities.Errorf(capabilities.CodeLedgerUnavailable, "The gateway is drained: it takes no new calls.").
			WithHint("Another gateway of the site takes them.")
	}
	return api.Health{Status: "ready", Service: "handrail"}, nil
}

func (s *Server) status(*visit, none) (api.Status, error) {
	site := s.opts.Site()
	out := api.Status{
		SiteID: site.SiteID, GatewayID: site.GatewayID, Version: site.Version, StartedAt: site.StartedAt,
		QUICAddr: site.QUICAddr, HTTPAddr: site.HTTPAddr, MCPURL: site.BaseURL + "/mcp", Fingerprint: site.Fingerprint,
	}
	for _, v := range s.opts.Roster.Views() {
		switch v.State {
		case pairing.StatePending:
			out.Nodes.Pending++
		case pairing.StateApproved:
		default:
			continue // who was put out is not counted
		}
		out.Nodes.Total++
		if v.Connected {
			out.Nodes.Connected++
		}
	}
	out.ReadOnly = site.ReadOnly
	seq, hash := s.opts.Ledger.Tip()
	out.Ledger = api.LedgerState{Seq: seq, Head: hash.String()}
	engine := s.opts.Policy()
	out.Policy = api.PolicyState{Snapshot: engine.SnapshotID(), Files: []string{}}
	for _, src := range engine.Sources() {
		out.Policy.Files = append(out.Policy.Files, src.Name)
	}
	return out, nil
}

func (s *Server) lanes(c *visit, _ none) (api.LaneList, error) {
	owner := c.who.Principal
	if c.who.May(principal.ActAnyLane) {
		owner = ""
	}
	all := s.opts.Lanes.List(owner)
	list := api.LaneList{Lanes: make([]api.Lane, 0, len(all))}
	for i := range all {
		list.Lanes = append(list.Lanes, front.ViewLane(&all[i]))
	}
	return list, nil
}

func (s *Server) attach(c *visit, _ none) (api.Lane, error) {
	// A node that does not exist would wait in the lane for one that gets its ID.
	if _, err := s.opts.Roster.View(nodeOf(c)); err != nil {
		return api.Lane{}, err
	}
	l, err := s.opts.Lanes.Attach(c.r.Context(), c.who, capabilities.LaneID(c.r.PathValue("lane")), nodeOf(c))
	return front.ViewLane(&l), err
}

func (s *Server) detach(c *visit, _ none) (api.Lane, error) {
	l, err := s.opts.Lanes.Detach(c.r.Context(), c.who, capabilities.LaneID(c.r.PathValue("lane")), nodeOf(c))
	return front.ViewLane(&l), err
}

func (s *Server) createToken(c *visit, in api.CreateToken) (api.MadeToken, error) {
	ttl, err := seconds("ttl_s", in.TTLSeconds)
	if err != nil {
		return api.MadeToken{}, err
	}
	if in.Lane == "" {
		in.Lane = capabilities.LaneID(in.Principal)
	}
	if err := capabilities.ValidateName("principal", string(in.Principal), 128); err != nil {
		return api.MadeToken{}, err
	}
	// The default lane is theirs from now on: nobody can take it before its first use.
	if err := s.opts.Lanes.Claim(c.r.Context(), in.Principal, in.Lane); err != nil {
		return api.MadeToken{}, err
	}
	rec, secret, err := s.opts.Tokens.Create(c.r.Context(), c.who,
		principal.Spec{Principal: in.Principal, Role: principal.Role(in.Role), Lane: in.Lane, TTL: ttl, Face: principal.Face(in.Face)})
	if err != nil {
		return api.MadeToken{}, err
	}
	return api.MadeToken{Token: front.ViewToken(&rec), Secret: secret.Reveal()}, nil
}

func (s *Server) tokens(*visit, none) (api.TokenList, error) {
	return api.TokenList{Tokens: front.ViewTokens(s.opts.Tokens.List())}, nil
}

func (s *Server) revokeToken(c *visit, _ none) (api.Token, error) {
	gone, err := s.opts.Tokens.Revoke(c.r.Context(), c.who, c.r.PathValue("token"))
	return front.ViewToken(&gone), err
}

func (s *Server) policy(*visit, none) (api.PolicySet, error) {
	return front.ViewPolicy(s.opts.Policy()), nil
}

// explain asks the policy the question dispatch would ask.
func (s *Server) explain(c *visit, in api.ExplainPolicy) (policy.Explanation, error) {
	d, ok := s.opts.Tools.Get(in.Tool)
	if !ok {
		return policy.Explanation{}, capabilities.Errorf(capabilities.CodeUnknownTool, "there is no tool %.128q", in.Tool)
	}
	if _, err := principal.ParseRole(in.Role); err != nil {
		return policy.Explanation{}, err
	}
	args, violations, err := d.SplitArgs(in.Args)
	if err != nil {
		return policy.Explanation{}, err
	}
	if len(violations) > 0 && len(in.Args) > 0 {
		return policy.Explanation{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "the arguments do not fit the tool's schema").
			WithDetails(map[string]any{"violations": violations})
	}
	q := policy.Request{
		Principal: in.Principal, User: policy.IsUser(in.Role), Role: in.Role, Tool: in.Tool, Lane: in.Lane,
		Args: args.Canonical, Time: s.opts.Now(),
	}
	if q.Lane == "" {
		q.Lane = capabilities.LaneID(in.Principal)
	}
	if in.Node == "" {
		in.Node = args.NodeID
	}
	if need := d.NodeCapability(); need != "" {
		n, err := s.explainedNode(in.Node, q.Lane, need, d.Routing.Implicit)
		if err != nil {
			return policy.Explanation{}, err
		}
		s.onNode(&q, n, need)
	}
	return s.opts.Policy().Explain(q), nil
}

// onNode puts into a question the node that it is about.
func (s *Server) onNode(q *policy.Request, n route.Node, need capabilities.CapabilityID) {
	ready := n.Readiness[need]
	q.Node = policy.Node{ID: n.ID, Label: n.Summary.Label, Platform: n.Summary.Platform, Trust: n.Summary.Trust, Labels: n.Labels}
	q.Given, q.Degraded, q.Hosts, q.Raised = ready.Isolation, ready.Degraded, ready.Hosts, s.opts.Drift.Raised(q.Tool, n.ID)
}

// someAgent is a principal that policy knows nothing special of, unless a rule names it.
const someAgent = "agent"

// nodePolicy asks policy about each tool of a node that is ready, as a list of tools does.
func (s *Server) nodePolicy(c *visit, _ none) (api.NodePolicy, error) {
	n, err := s.explainedNode(nodeOf(c), "", "", nil)
	if err != nil {
		return api.NodePolicy{}, err
	}
	out := api.NodePolicy{Principal: capabilities.PrincipalID(cmp.Or(c.param("principal"), someAgent)), Tools: []api.ToolPolicy{}}
	engine, now := s.opts.Policy(), s.opts.Now()
	for _, d := range s.opts.Tools.All() {
		need := d.NodeCapability()
		if ready, has := n.Readiness[need]; need == "" || !has || ready.Reason != "" {
			continue
		}
		q := policy.Request{
			Principal: out.Principal, Role: string(principal.RoleAgent), Tool: d.Tool, Lane: capabilities.LaneID(out.Principal), Time: now,
		}
		s.onNode(&q, n, need)
		out.Tools = append(out.Tools, api.ToolPolicy{Tool: d.Tool, Effect: engine.Possible(q).Effect.String()})
	}
	return out, nil
}

// explainedNode is the node that a question is about: the one it names, be it away
// or not, else the one that a call would go to if policy denied nothing (S0-20).
func (s *Server) explainedNode(named capabilities.NodeID, lane capabilities.LaneID, need capabilities.CapabilityID,
	implicit []capabilities.SelectionMode) (route.Node, error) {
	roster := s.opts.Roster.Snapshot()
	if named == "" {
		picked, err := route.Select(route.Input{Attached: s.opts.Lanes.Attached(lane), Capability: need, Implicit: implicit, Nodes: roster})
		if err != nil {
			return route.Node{}, err
		}
		named = picked.Node
	}
	for _, n := range roster {
		if n.ID == named {
			return n, nil
		}
	}
	return route.Node{}, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node %.128q", named)
}
