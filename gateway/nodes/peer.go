package nodes

import (
	"net/netip"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/tunnel"
)

// Place is where a connected node is in the network.
type Place struct {
	Peer netip.Addr // the address that it speaks from, as it is seen here
	Over tunnel.Transport
	// Own are the addresses that its device has, as the node says; none: it does not say.
	Own []netip.Addr
}

// Peer returns the place of a connected node. Of one that another gateway holds it is known only
// where the node speaks from an address of its own device: then it is that device wherever it is
// seen.
func (n *Nodes) Peer(id capabilities.NodeID) (Place, bool) {
	s := n.reach(id)
	if s == nil {
		return Place{}, false
	}
	if s.far != nil {
		at := Place{Peer: s.far.peer, Over: s.far.over, Own: *s.addrs.Load()}
		known := at.Over != tunnel.WebSocket && at.Peer.IsValid() && !at.Peer.IsLoopback() && slices.Contains(at.Own, at.Peer)
		return at, known
	}
	at := Place{Peer: tunnel.PeerOf(s.conn.RemoteAddr()), Over: tunnel.Of(s.conn.RemoteAddr())}
	if !at.Peer.IsValid() { // a proxy does not say whom it serves
		return Place{}, false
	}
	if own := s.addrs.Load(); own != nil {
		at.Own = *own
	}
	return at, true
}

// placed notes the addresses that a node says its device has.
func (s *session) placed(list [][]byte) {
	own := make([]netip.Addr, 0, len(list))
	for _, b := range list {
		if addr, ok := netip.AddrFromSlice(b); ok && !addr.IsUnspecified() {
			own = append(own, addr.Unmap())
		}
	}
	s.addrs.Store(&own)
}
