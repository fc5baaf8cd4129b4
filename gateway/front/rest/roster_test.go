package rest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/pairing"
)

// roster is a small roster in memory: the real one needs devices that dial it.
type roster struct {
	mu      sync.Mutex
	views   map[capabilities.NodeID]nodes.View
	invites []nodes.Invite
	changed chan struct{}
}

func newRoster() *roster {
	r := &roster{views: map[capabilities.NodeID]nodes.View{}, changed: make(chan struct{})}
	for id, state := range map[capabilities.NodeID]pairing.State{"n1": pairing.StateApproved, "n2": pairing.StatePending, "n3": pairing.StatePending} {
		r.views[id] = nodes.View{
			ID: id, Label: "desk " + string(id), State: state, Connected: id == "n1", Platform: "linux", Arch: "amd64",
			Fingerprint: fingerprint(), JoinedAt: time.Unix(1, 0).UTC(), LastSeen: time.Unix(2, 0).UTC(), Allow: []string{"tyrum.browser.*"}, Labels: nil,
			Readiness: []capabilities.Readiness{
				{Capability: "tyrum.browser.navigate", Isolation: capabilities.ClassT2, Backend: "chromium 1"},
				{Capability: "tyrum.browser.snapshot", Reason: capabilities.ReasonBackendMissing, Fix: "install it"},
				{Capability: "tyrum.desktop.act"},
			},
		}
	}
	return r
}

func (r *roster) set(id capabilities.NodeID, edit func(*nodes.View) error) (nodes.View, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.views[id]
	if !ok {
		return nodes.View{}, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node with that ID")
	}
	if err := edit(&v); err != nil {
		return nodes.View{}, err
	}
	r.views[id] = v
	close(r.changed)
	r.changed = make(chan struct{})
	return v, nil
}

func (r *roster) become(id capabilities.NodeID, next pairing.State, by capabilities.PrincipalID, reason string) (nodes.View, error) {
	return r.set(id, func(v *nodes.View) error {
		if err := v.State.Become(next); err != nil {
			return err
		}
		v.State, v.DecidedBy, v.Reason, v.Connected = next, by, reason, false
		return nil
	})
}

func (r *roster) Views() []nodes.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []nodes.View
	for _, v := range r.views {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b nodes.View) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list
}

func (r *roster) View(id capabilities.NodeID) (nodes.View, error) {
	for _, v := range r.Views() {
		if v.ID == id {
			return v, nil
		}
	}
	return nodes.View{}, capabilities.Errorf(capabilities.CodeNodeNotFound, "there is no node with that ID")
}

func (r *roster) Snapshot() []route.Node {
	var list []route.Node
	for _, v := range r.Views() {
		n := route.Node{
			ID: v.ID, Summary: capabilities.NodeSummary{Label: v.Label, Platform: v.Platform}, Paired: string(v.State),
			Connected: v.Connected, Allow: route.AllowPatterns(v.Allow...), Readiness: map[capabilities.CapabilityID]capabilities.Readiness{},
		}
		for _, ready := range v.Readiness {
			n.Readiness[ready.Capability] = ready
		}
		list = append(list, n)
	}
	return list
}

func (r *roster) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *roster) Approve(_ context.Context, id capabilities.NodeID, a nodes.Approval) (nodes.View, error) {
	if _, err := r.become(id, pairing.StateApproved, a.By, ""); err != nil {
		return nodes.View{}, err
	}
	return r.set(id, func(v *nodes.View) error {
		v.Allow, v.Trust = a.Allow, a.Trust
		return nil
	})
}

func (r *roster) Deny(_ context.Context, id capabilities.NodeID, by capabilities.PrincipalID, reason string) (nodes.View, error) {
	return r.become(id, pairing.StateDenied, by, reason)
}

func (r *roster) Revoke(_ context.Context, id capabilities.NodeID, by capabilities.PrincipalID, reason string) (nodes.View, error) {
	return r.become(id, pairing.StateRevoked, by, reason)
}

func (r *roster) Change(_ context.Context, id capabilities.NodeID, e nodes.Edit) (nodes.View, error) {
	return r.set(id, func(v *nodes.View) error {
		if e.Label != nil {
			v.Label = *e.Label
		}
		if e.Allow != nil {
			v.Allow = *e.Allow
		}
		if e.Labels != nil {
			v.Labels = *e.Labels
		}
		return nil
	})
}

func (r *roster) Invite(_ context.Context, spec nodes.InviteSpec) (nodes.Invite, pairing.Paste, error) {
	secret := pairing.NewSecret()
	i := nodes.Invite{
		ID: secret.Invite(), Label: spec.Label, Uses: max(spec.Uses, 1), AutoApprove: spec.AutoApprove,
		CreatedBy: spec.By, CreatedAt: time.Unix(1, 0).UTC(), ExpiresAt: time.Unix(1, 0).UTC().Add(max(spec.TTL, time.Minute)),
	}
	r.mu.Lock()
	r.invites = append(r.invites, i)
	r.mu.Unlock()
	return i, pairing.Paste{Addrs: []string{"127.0.0.1:7443"}, Site: site, Secret: secret}, nil
}

func (r *roster) Invites(context.Context) ([]nodes.Invite, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.invites), nil
}

func (r *roster) Withdraw(_ context.Context, id pairing.InviteID, _ capabilities.PrincipalID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.invites {
		if r.invites[i].ID == id {
			r.invites[i].Withdrawn = true
			return nil
		}
	}
	return capabilities.Errorf(capabilities.CodeNotFound, "there is no invitation with that ID")
}
