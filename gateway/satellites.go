package gateway

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/route"
)

// openBus reads who is in. Nothing of NATS starts with it.
func (g *Gateway) openBus(ctx context.Context) (err error) {
	var peers bus.Peers
	if g.opts.Fleet != "" {
		g.peers = newBusPeers(g)
		peers = g.peers
	}
	g.Bus, err = bus.New(ctx, bus.Options{
		Peers: peers, Rostered: g.Providers.Rostered,
		Store: g.Store, Site: g.site.ID(), Record: g.recordBy, Listen: g.opts.Bus, Advertise: g.reachable, Certificate: g.busCertificate,
		URL: g.opts.NATS, TLS: g.opts.NATSTLS, Dir: g.opts.Dir, Approved: g.Providers.ApprovedHash, Interchangeable: g.Providers.Interchangeable,
		Worker: func(ctx context.Context, key []byte) (string, bool) { return g.Workers.Keyed(ctx, key) }, Plumb: g.plumb,
		Attached: g.Providers.Attach, Free: g.Providers.Free, Changed: g.Nodes.Nudge, Now: g.opts.Clock, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.Providers.ServeSatellites(g.Bus)
	g.hosts = &hosts{Nodes: g.Nodes, bus: g.Bus}
	return nil
}

// busCertificate is what the bus is known by: one made here, whose sum pastes carry.
func (g *Gateway) busCertificate() (tls.Certificate, string, error) {
	c, err := front.GeneratedCertificate(g.path("bus.crt"), g.path("bus.key"), g.opts.Hosts, g.log)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	pair, err := tls.LoadX509KeyPair(g.path("bus.crt"), g.path("bus.key"))
	sum := c.Sum()
	return pair, hex.EncodeToString(sum[:]), err
}

// reachable are the addresses that a paste carries of what listens there.
func (g *Gateway) reachable(listening string) []string {
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return []string{listening}
	}
	if at, err := netip.ParseAddr(host); err != nil || !at.IsUnspecified() {
		return []string{listening}
	}
	var all []string
	for _, a := range g.opts.Advertise { // the same hosts as for devices
		if h, _, err := net.SplitHostPort(a); err == nil && len(all) < 6 {
			all = append(all, net.JoinHostPort(h, port))
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, a := range ownNetwork().own {
		if !a.IsLoopback() && !a.IsLinkLocalUnicast() && len(all) < 5 {
			all = append(all, net.JoinHostPort(a.String(), port))
		}
	}
	return append(all, net.JoinHostPort("127.0.0.1", port))
}

// satellites are the bus as surfaces use it: whoever is let in or put out changes where calls go.
type satellites struct{ g *Gateway }

func (s satellites) Views() []bus.View { return s.g.Bus.Views() }

func (s satellites) View(id capabilities.NodeID) (bus.View, error) { return s.g.Bus.View(id) }

func (s satellites) Keys() (bus.Keys, error) { return s.g.Bus.Keys() }

func (s satellites) Invite(ctx context.Context, by capabilities.PrincipalID, service string, yes bool,
	ttl time.Duration) (bus.Invited, error) {
	return s.g.Bus.Invite(ctx, by, service, yes, ttl)
}

func (s satellites) Decide(ctx context.Context, by capabilities.PrincipalID, id capabilities.NodeID,
	state, reason string) (bus.View, error) {
	v, err := s.g.Bus.Decide(ctx, by, id, state, reason)
	if err != nil {
		return v, err
	}
	return v, s.g.Providers.Rehost(ctx, v.Service)
}

// hosts are all that carries calls out elsewhere: devices on QUIC and satellites on the bus. The
// pipeline knows one transport; which of the two it is, the ID says.
type hosts struct {
	*nodes.Nodes
	bus  *bus.Bus
	both atomic.Pointer[roster]
}

var _ dispatch.Nodes = (*hosts)(nil)

// roster is both snapshots in one, made anew when one of them is.
type roster struct{ nodes, satellites, all []route.Node }

// Snapshot returns devices and satellites, each as they are now.
func (h *hosts) Snapshot() []route.Node {
	n, s := h.Nodes.Snapshot(), h.bus.Snapshot()
	if len(s) == 0 {
		return n
	}
	if r := h.both.Load(); r != nil && same(r.nodes, n) && same(r.satellites, s) {
		return r.all
	}
	r := &roster{nodes: n, satellites: s, all: append(append(make([]route.Node, 0, len(n)+len(s)), n...), s...)}
	h.both.Store(r)
	return r.all
}

func same(a, b []route.Node) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Order has interchangeable satellites balanced.
func (h *hosts) Order(ids []capabilities.NodeID) []capabilities.NodeID { return h.bus.Order(ids) }

// Dispatch sends a call to a device or a satellite.
func (h *hosts) Dispatch(ctx context.Context, id capabilities.NodeID, t *wire.Ticket,
	progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
	if h.bus.Has(id) {
		return h.bus.Dispatch(ctx, id, t, progress)
	}
	return h.Nodes.Dispatch(ctx, id, t, progress)
}

// Scene asks what a call would meet; of a satellite nobody can tell.
func (h *hosts) Scene(ctx context.Context, id capabilities.NodeID, ask wire.SceneAsk) (wire.Scene, error) {
	if h.bus.Has(id) {
		return wire.Scene{}, nil
	}
	return h.Nodes.Scene(ctx, id, ask)
}

// Ask asks what became of calls.
func (h *hosts) Ask(ctx context.Context, id capabilities.NodeID, ask *wire.JournalAsk) ([]wire.JournalState, error) {
	if h.bus.Has(id) {
		return h.bus.Ask(ctx, id, ask.Calls)
	}
	return h.Nodes.Ask(ctx, id, ask)
}
