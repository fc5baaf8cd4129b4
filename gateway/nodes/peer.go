package nodes

import (
	"net/netip"

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

// Peer returns the place of a connected node.
func (n *Nodes) Peer(id capabilities.NodeID) (Place, bool) {
	s := n.session(id)
	if s == nil {
		return Place{}, false
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
