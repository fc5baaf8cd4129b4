package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
)

// elsewhere refuses requests of which it is not known that they come from another device
// than those on which an agent has its hands now: whatever is typed
// there may be the agent's. But is a device that the request is itself about to take from
// the agent, or has; "" for none.
func (g *Gateway) elsewhere(r *http.Request, but capabilities.NodeID) error {
	hands, err := g.asked.HandsThere(r.Context())
	if err != nil {
		return capabilities.Wrap(capabilities.CodeHandsElsewhere, err,
			"Another gateway does not say whether an agent has its hands on a device, and this request may come from there.").
			WithHint("Repeat it in some seconds: that gateway answers by then, or is out. Denying, revoking and stopping work at once.")
	}
	if !slices.ContainsFunc(hands, func(h consent.Hands) bool { return h.Node != but }) {
		return nil
	}
	from, net := origin(r), ownNetwork()
	for _, h := range hands {
		if h.Node == but {
			continue
		}
		if at, connected := g.Nodes.Peer(h.Node); connected && net.apart(from, at) {
			continue
		}
		return g.handsElsewhere(h)
	}
	return nil
}

// handsElsewhere says whose hands are where, until when, and what would do instead.
func (g *Gateway) handsElsewhere(h consent.Hands) error {
	name := string(h.Node)
	if v, err := g.Nodes.View(h.Node); err == nil && v.Label != "" {
		name = v.Label
	}
	about := capabilities.Presence{Node: h.Node, Label: name, By: h.By}
	if !h.Until.IsZero() {
		about.Until, about.Seconds = h.Until.UTC().Truncate(time.Second), max(1, int64(math.Ceil(time.Until(h.Until).Seconds())))
	}
	refused := func(format string, args ...any) *capabilities.Error {
		return capabilities.Errorf(capabilities.CodeHandsElsewhere, format, args...).WithDetails(about)
	}
	switch {
	case h.Until.IsZero():
		return refused("%s is using mouse, keyboard or browser of %s in a call that runs now, and this request may come from there", h.By, name).
			WithHint(
				"Repeat it when the call has ended, or do it from another device or with a passkey. Denying, revoking and stopping work at once.")
	case h.Over:
		return refused("%s used mouse, keyboard or browser of %s a moment ago, and this request may come from there", h.By, name).
			WithHint(fmt.Sprintf("Repeat it in %d seconds. Denying, revoking and stopping work at once.", about.Seconds))
	}
	keys := ""
	if g.Nodes.Asks(h.Node) {
		keys = "answer by the keys that a notice of the device shows, "
	}
	return refused("%s may use mouse, keyboard or browser of %s until %s, and this request may come from there", h.By, name, h.Until.UTC().
		Format("15:04:05 MST")).
		WithAction(capabilities.Action{Key: capabilities.ActionRevokeGrant}, "Do it from another device, "+keys+
			"confirm it with a passkey in the console where that is offered, or revoke the grant and wait 15 seconds. "+
			"Denying, revoking and stopping work at once.")
}

// origin is where a request comes from, as the front found it out; behind a trusted
// proxy that is the client which the proxy names. Not valid: nobody knows.
func origin(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !front.Told(r) {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// known reports whether a principal has a valid token of that role.
func (g *Gateway) known(who capabilities.PrincipalID, role string) bool {
	return slices.ContainsFunc(g.Tokens.List(), func(t principal.Token) bool {
		return t.Principal == who && string(t.Role) == role && g.Tokens.Valid(t.ID)
	})
}

// manifests digests what a tool, or all tools of a family, declare: whatever of it a
// new version changes, its hash does.
func manifests(tools *registry.Registry) func(string) string {
	return func(pattern string) string {
		h := sha256.New()
		for _, d := range tools.All() {
			if consent.Names(pattern, d.Tool) {
				sum := d.Hash()
				h.Write(sum[:])
			}
		}
		return hex.EncodeToString(h.Sum(nil))
	}
}

// ownerHosts are those that a node's owner lets tools and families reach there.
func (g *Gateway) ownerHosts(patterns []string, node capabilities.NodeID) []string {
	var hosts []string
	for _, n := range g.Nodes.Snapshot() {
		if n.ID != node {
			continue
		}
		for _, ready := range n.Readiness {
			if slices.ContainsFunc(patterns, func(p string) bool { return consent.Names(p, ready.Capability.Tool()) }) {
				hosts = append(hosts, ready.Hosts...)
			}
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// movesInput says of a tool or a family whether it is hands on a node: it moves the mouse
// or types, or it acts in pages of a browser that belongs to the person's session there,
// who may be signed in to the console in it.
func (g *Gateway) movesInput() func(string, capabilities.NodeID) bool {
	types := func(d *catalog.Descriptor) bool {
		return slices.ContainsFunc(d.Manifest.Privileged, func(k string) bool { return strings.HasPrefix(k, "input.") })
	}
	acts := func(d *catalog.Descriptor) bool {
		return d.SideEffects == catalog.EffectsExternal && d.Manifest.Has(capabilities.KeyPages)
	}
	return func(pattern string, node capabilities.NodeID) bool {
		named := slices.DeleteFunc(g.Registry.All(), func(d *catalog.Descriptor) bool { return !consent.Names(pattern, d.Tool) })
		return slices.ContainsFunc(named, types) ||
			slices.ContainsFunc(named, func(d *catalog.Descriptor) bool { return acts(d) && g.ofPerson(node, d.Capability) })
	}
}

// ofPerson reports whether what a node does by a capability happens in the person's own
// session, as far as it is known: a node that has said nothing yet may be such a one.
func (g *Gateway) ofPerson(id capabilities.NodeID, c capabilities.CapabilityID) bool {
	nodes := g.Nodes.Snapshot()
	at := slices.IndexFunc(nodes, func(n route.Node) bool { return n.ID == id })
	return at >= 0 && (nodes[at].Readiness == nil || nodes[at].Readiness[c].Isolation == capabilities.ClassSession)
}

// callBound says of a tool, or of every tool of a family, whether a person is asked at
// each call, as its descriptor has it.
func callBound(tools *registry.Registry) func(string) bool {
	return func(pattern string) bool {
		found := false
		for _, d := range tools.All() {
			if consent.Names(pattern, d.Tool) {
				if d.Consent != catalog.ConsentCall {
					return false
				}
				found = true
			}
		}
		return found
	}
}
