package front

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/route"
)

// ViewNode is a node, with what each of its capabilities is ready for by a snapshot of the
// roster.
func ViewNode(v *nodes.View, snapshot []route.Node) api.Node {
	out := api.Node{
		ID: v.ID, Label: v.Label, Trust: v.Trust, Owner: v.Owner, State: string(v.State), Platform: v.Platform, Arch: v.Arch, Host: v.Host,
		Agent: v.Agent, Fingerprint: v.Fingerprint, Connected: v.Connected, LastSeen: v.LastSeen, JoinedAt: v.JoinedAt, DecidedAt: v.DecidedAt,
		DecidedBy: v.DecidedBy, Reason: v.Reason, Allow: v.Allow, Labels: v.Labels, Invite: string(v.Invite), Offers: v.Offers, Wants: v.Wants,
		Stopped: v.Stopped, StopEpoch: v.StopEpoch, SiteStopped: v.SiteStopped, CatalogSkew: v.CatalogSkew, Transport: string(v.Transport),
		Capabilities: make([]api.Capability, 0, len(v.Readiness)),
	}
	for _, p := range v.Pools {
		out.Pools = append(out.Pools, api.Pool(p))
	}
	if out.Allow == nil {
		out.Allow = []string{}
	}
	if out.Labels == nil {
		out.Labels = []string{}
	}
	at, found := slices.BinarySearchFunc(snapshot, v.ID, func(n route.Node, id capabilities.NodeID) int {
		return strings.Compare(string(n.ID), string(id))
	})
	for _, r := range v.Readiness {
		c := api.Capability{
			Capability: r.Capability, Tool: r.Capability.Tool(), Reason: r.Reason,
			Isolation: r.Isolation, Degraded: r.Degraded, Backend: r.Backend, Devices: r.Devices, Fake: r.Fake, Hosts: r.Hosts,
		}
		c.Fix, c.Action = r.Action.Worded(r.Fix, commandWords(r.Action))
		if found {
			verdict := route.Check(&snapshot[at], r.Capability, nil)
			c.Available, c.Reason = verdict.Eligible(), verdict.Reason
			if !c.Available {
				c.Fix, c.Action = verdict.Action.Worded(verdict.Fix, commandWords(verdict.Action))
			}
		} else if c.Reason == "" {
			c.Reason = capabilities.ReasonNodeNotPaired
		}
		out.Capabilities = append(out.Capabilities, c)
	}
	return out
}

// ViewInvite is an invitation without its secret.
func ViewInvite(i *nodes.Invite) api.Invite {
	v := api.Invite{
		ID: string(i.ID), Label: i.Label, Trust: i.Trust, Allow: i.Allow, Labels: i.Labels, AutoApprove: i.AutoApprove, Uses: i.Uses,
		Used: i.Used, CreatedAt: i.CreatedAt, CreatedBy: i.CreatedBy, ExpiresAt: i.ExpiresAt, Withdrawn: i.Withdrawn,
	}
	for _, u := range i.UsedBy {
		v.UsedBy = append(v.UsedBy, api.InviteUse(u))
	}
	return v
}
