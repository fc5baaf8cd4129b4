package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
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
)

// elsewhere refuses requests from a device whose mouse and keyboard an agent holds
// now (DESIGN section 6): whatever is typed there may be the agent's. Where it can
// not be told where a request comes from, it comes from there. But is a device that
// the request is itself about to take from the agent, or has; "" for none.
func (g *Gateway) elsewhere(r *http.Request, but capabilities.NodeID) error {
	held := slices.DeleteFunc(g.Consent.HandsOn(), func(n capabilities.NodeID) bool { return n == but })
	if len(held) == 0 {
		return nil
	}
	from, known := origin(r)
	for _, node := range held {
		at, connected := g.Nodes.Peer(node)
		if known && connected && from != at && !(here(from) && here(at)) {
			continue
		}
		name := string(node)
		if v, err := g.Nodes.View(node); err == nil && v.Label != "" {
			name = v.Label
		}
		if until := g.Consent.HandsUntil(); time.Until(until) <= consent.CallGrace {
			return capabilities.Errorf(capabilities.CodeForbidden, "an agent used mouse or keyboard of %s a moment ago, and this request may come from there", name).
				WithHint("Repeat it in five seconds, or do it from another device. Denying and revoking work at once.")
		}
		return capabilities.Errorf(capabilities.CodeForbidden, "an agent holds mouse or keyboard of %s, and this request may come from there", name).
			WithHint("Do it from another device, confirm an approval with a passkey in the console, or end that ('handrail grant list', 'handrail grant revoke') and wait 15 seconds. Denying and revoking work from anywhere.")
	}
	return nil
}

// origin is where a request comes from, as the front found it out; behind a trusted
// proxy that is the client which the proxy names.
func origin(r *http.Request) (netip.Addr, bool) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap().WithZone(""), err == nil && front.Told(r)
}

// here reports whether an address is one of this host's own.
func here(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap().WithZone("") == addr
	})
}

// known reports whether a principal has a valid token of that role.
func (g *Gateway) known(who capabilities.PrincipalID, role string) bool {
	return slices.ContainsFunc(g.Tokens.List(), func(t principal.Token) bool {
		return t.Principal == who && string(t.Role) == role && g.Tokens.Valid(t.ID)
	})
}

// manifests digests what a tool, or all tools of a family, declare: whatever of it a
// new version changes, its hash does.
func manifests(cat *catalog.Catalog) func(string) string {
	return func(pattern string) string {
		h := sha256.New()
		for _, d := range cat.All() {
			if consent.Names(pattern, d.Tool) {
				sum := d.Hash()
				h.Write(sum[:])
			}
		}
		return hex.EncodeToString(h.Sum(nil))
	}
}

// movesInput says of a tool or a family whether it moves the mouse or types.
func movesInput(cat *catalog.Catalog) func(string) bool {
	var tools []capabilities.ToolID
	for _, d := range cat.All() {
		if slices.ContainsFunc(d.Manifest.Privileged, func(k string) bool { return strings.HasPrefix(k, "input.") }) {
			tools = append(tools, d.Tool)
		}
	}
	return func(pattern string) bool {
		return slices.ContainsFunc(tools, func(t capabilities.ToolID) bool { return consent.Names(pattern, t) })
	}
}

// callBound says of a tool, or of every tool of a family, whether a person is asked at
// each call, as its descriptor has it.
func callBound(cat *catalog.Catalog) func(string) bool {
	all := cat.All()
	return func(pattern string) bool {
		found := false
		for _, d := range all {
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
