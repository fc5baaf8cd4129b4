package nodes

import (
	"cmp"
	"slices"
	"sort"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/pairing"
)

// Snapshot returns the roster as node selection sees it, sorted by ID. It is built
// once after each change and shared: nobody may change it.
func (n *Nodes) Snapshot() []route.Node {
	if s := n.snapshot.Load(); s != nil {
		return *s
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.snapshot.Load(); s != nil {
		return *s
	}
	list := make([]route.Node, 0, len(n.roster))
	for id, r := range n.roster {
		p, session, recall := n.presence[id], uint64(0), ""
		s := n.sessions[id]
		if s == nil {
			s = n.elsewhere[id]
		}
		if s != nil {
			session, recall = s.epoch, s.recall
		}
		list = append(list, route.Node{
			ID:      id,
			Summary: capabilities.NodeSummary{Label: r.label, Platform: r.profile.Platform, Trust: r.trust},
			Labels:  r.labels,
			Paired:  string(r.state),
			Revoked: r.state == pairing.StateRevoked,
			// A node counts as connected once it has said what it offers; until then
			// nothing could be routed to it anyway.
			Connected: s != nil && p.readiness != nil,
			Session:   session,
			Recall:    recall,
			Stopped:   p.stopped,
			Allow:     r.allows,
			Readiness: p.readiness,
		})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].ID < list[j].ID })
	n.snapshot.Store(&list)
	return list
}

// Order returns the hosts of a provider as they are: no node is preferred to another.
func (n *Nodes) Order(hosts []capabilities.NodeID) []capabilities.NodeID { return hosts }

// Views returns every node as people see it, sorted by ID.
func (n *Nodes) Views() []View {
	n.mu.RLock()
	records := make([]*record, 0, len(n.roster))
	for _, r := range n.roster {
		records = append(records, r)
	}
	n.mu.RUnlock()
	slices.SortFunc(records, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	views := make([]View, len(records))
	for i, r := range records {
		views[i] = n.view(r)
	}
	return views
}

// Pools sums what the connected nodes said last of their calls, by class.
func (n *Nodes) Pools() map[capabilities.IsolationClass]wire.Pool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	sums := map[capabilities.IsolationClass]wire.Pool{}
	for _, s := range n.sessions {
		last := s.pools.Load()
		if last == nil {
			continue
		}
		for _, p := range *last {
			sum := sums[p.Class]
			sum.Running, sum.Waiting, sum.Refused = sum.Running+p.Running, sum.Waiting+p.Waiting, sum.Refused+p.Refused
			sum.Ready, sum.Warm, sum.Cold = sum.Ready+p.Ready, sum.Warm+p.Warm, sum.Cold+p.Cold
			sums[p.Class] = sum
		}
	}
	return sums
}

// View returns one node; CodeNodeNotFound if there is none.
func (n *Nodes) View(id capabilities.NodeID) (View, error) {
	r := n.lookup(id)
	if r == nil {
		return View{}, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node %s", short(string(id)))
	}
	return n.view(r), nil
}

func (n *Nodes) view(r *record) View {
	n.mu.RLock()
	s := n.sessions[r.id]
	if s == nil {
		s = n.elsewhere[r.id]
	}
	p, connected := n.presence[r.id], s != nil
	n.mu.RUnlock()
	v := View{
		ID: r.id, Label: r.label, Trust: r.trust, Owner: r.ownedBy(), State: r.state, Platform: r.profile.Platform, Arch: r.profile.Arch,
		Host: r.profile.Host, Agent: r.profile.Agent, Fingerprint: pairing.Fingerprint(r.key), Connected: connected && p.readiness != nil,
		LastSeen: r.lastSeen, JoinedAt: r.joinedAt, DecidedAt: r.decidedAt, DecidedBy: r.decidedBy, Reason: r.reason,
		Allow: append([]string{}, r.allow...), Labels: append([]string{}, r.labels...), Invite: r.invite, Offers: slices.Clone(r.profile.Offers),
		Stopped: p.stopped, StopEpoch: p.stopEpoch, SiteStopped: p.site.on, CatalogSkew: p.skew,
	}
	if connected {
		v.Transport = s.over()
		if last := s.pools.Load(); last != nil {
			v.Pools = *last
		}
		v.LastSeen = n.opts.Now()
	}
	for _, c := range p.readiness {
		v.Readiness = append(v.Readiness, c)
		if c.Reason != capabilities.ReasonNotAdvertised && !r.allows(c.Capability) {
			v.Wants = append(v.Wants, c.Capability)
		}
	}
	sort.Slice(v.Readiness, func(i, j int) bool { return v.Readiness[i].Capability < v.Readiness[j].Capability })
	slices.Sort(v.Wants)
	return v
}

// CloseLane tells a node to free what a lane holds. A node that is away frees it
// itself when it is idle for long.
func (n *Nodes) CloseLane(id capabilities.NodeID, lane capabilities.LaneID) {
	if s := n.session(id); s != nil {
		if err := s.send(&wire.LaneClosed{Lane: lane}); err != nil {
			n.log.Debug("node.lane_closed", "node", id, "lane", lane, "err", err)
		}
	}
}
