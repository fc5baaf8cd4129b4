package rest

import (
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
)

func (s *Server) nodes(*visit, none) (api.NodeList, error) {
	snapshot := s.opts.Roster.Snapshot()
	views := s.opts.Roster.Views()
	out := api.NodeList{Nodes: make([]api.Node, 0, len(views))}
	for i := range views {
		out.Nodes = append(out.Nodes, front.ViewNode(&views[i], snapshot))
	}
	return out, nil
}

func nodeOf(c *visit) capabilities.NodeID { return capabilities.NodeID(c.r.PathValue("node")) }

func (s *Server) shown(v nodes.View, err error) (api.Node, error) {
	if err != nil {
		return api.Node{}, err
	}
	return front.ViewNode(&v, s.opts.Roster.Snapshot()), nil
}

func (s *Server) node(c *visit, _ none) (api.Node, error) {
	return s.shown(s.opts.Roster.View(nodeOf(c)))
}

// checkAllow refuses a name that no tool of this gateway has, and that the node does not
// offer either: whoever withholds or allows it means something by it.
func (s *Server) checkAllow(allow []string, node capabilities.NodeID) error {
	var offers []string
	if node != "" {
		if v, err := s.opts.Roster.View(node); err == nil {
			offers = slices.Clone(v.Allow)
			for _, c := range v.Offers {
				offers = append(offers, string(c))
			}
		}
	}
	for _, name := range allow {
		name := name
		if rest, ok := strings.CutPrefix(name, "tool."); ok {
			name = "tyrum." + rest
		}
		family, isFamily := strings.CutSuffix(name, ".*")
		named := func(c string) bool { return c == name || isFamily && strings.HasPrefix(c, family+".") }
		if name == "*" || slices.ContainsFunc(offers, named) ||
			slices.ContainsFunc(s.opts.Tools.All(), func(d *catalog.Descriptor) bool { return d.Capability != "" && named(string(d.Capability)) }) {
			continue
		}
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "allow: there is no tool %.128q", name).
			WithAction(capabilities.Action{
				Key: capabilities.ActionListAllTools,
			}, "Write a tool as tool.browser.click, or a family as tool.browser.*.")
	}
	return nil
}

func (s *Server) approve(c *visit, in api.NodeApproval) (api.Node, error) {
	if err := s.checkAllow(in.Allow, nodeOf(c)); err != nil {
		return api.Node{}, err
	}
	return s.shown(s.opts.Roster.Approve(c.r.Context(), nodeOf(c), nodes.Approval{
		By: c.who.Principal, Label: in.Label, Trust: in.Trust, Allow: in.Allow,
	}))
}

func (s *Server) deny(c *visit, in api.Reason) (api.Node, error) {
	return s.shown(s.opts.Roster.Deny(c.r.Context(), nodeOf(c), c.who.Principal, in.Reason))
}

func (s *Server) revoke(c *visit, in api.Reason) (api.Node, error) {
	return s.shown(s.opts.Roster.Revoke(c.r.Context(), nodeOf(c), c.who.Principal, in.Reason))
}

func (s *Server) change(c *visit, in api.NodeChange) (api.Node, error) {
	if in.Owner != nil {
		if err := c.who.Require(principal.ActNameOwner); err != nil {
			return api.Node{}, err
		}
		if *in.Owner != "" {
			if err := s.opts.Tokens.Person(*in.Owner); err != nil {
				return api.Node{}, err
			}
		}
	}
	if in.Allow != nil {
		if err := s.checkAllow(*in.Allow, nodeOf(c)); err != nil {
			return api.Node{}, err
		}
	}
	return s.shown(s.opts.Roster.Change(c.r.Context(), nodeOf(c), nodes.Edit{
		By: c.who.Principal, Label: in.Label, Trust: in.Trust, Allow: in.Allow, Labels: in.Labels, Owner: in.Owner,
	}))
}

func (s *Server) invite(c *visit, in api.NewInvite) (api.Invited, error) {
	ttl, err := seconds("ttl_s", in.TTLSeconds)
	if err == nil {
		err = s.checkAllow(in.Allow, "")
	}
	if err != nil {
		return api.Invited{}, err
	}
	made, paste, err := s.opts.Roster.Invite(c.r.Context(), nodes.InviteSpec{
		By: c.who.Principal, Label: in.Label, Trust: in.Trust, Allow: in.Allow, Labels: in.Labels,
		AutoApprove: in.AutoApprove, TTL: ttl, Uses: in.Uses,
	})
	if err != nil {
		return api.Invited{}, err
	}
	paste.Door = s.opts.Site().Door
	text, err := paste.Encode()
	if err != nil && paste.Door != nil { // with that many addresses there is no room for it
		paste.Door = nil
		text, err = paste.Encode()
	}
	if err != nil {
		return api.Invited{}, err
	}
	return api.Invited{Invite: front.ViewInvite(&made), Paste: text}, nil
}

func (s *Server) invites(c *visit, _ none) (api.InviteList, error) {
	all, err := s.opts.Roster.Invites(c.r.Context())
	list := api.InviteList{Invites: make([]api.Invite, 0, len(all))}
	for i := range all {
		list.Invites = append(list.Invites, front.ViewInvite(&all[i]))
	}
	return list, err
}

func (s *Server) withdraw(c *visit, _ none) (api.WithdrawnInvite, error) {
	id := pairing.InviteID(c.r.PathValue("invite"))
	return api.WithdrawnInvite{Invite: string(id), Withdrawn: true}, s.opts.Roster.Withdraw(c.r.Context(), id, c.who.Principal)
}

// seconds bounds a duration given in seconds before it can overflow.
func seconds(name string, n int64) (time.Duration, error) {
	const most = 100 * 366 * 24 * 3600
	if n < 0 || n > most {
		return 0, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s must be a number of seconds from 0 to %d", name, int64(most))
	}
	return time.Duration(n) * time.Second, nil
}
