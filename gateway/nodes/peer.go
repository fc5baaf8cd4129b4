package nodes

import (
	"net"
	"net/netip"

	"github.com/handrail-dev/handrail/capabilities"
)

// Place is where a connected node is in the network.
type Place struct {
	Peer netip.Addr // the address that it speaks from, as it is seen here
	// Own are the addresses that its device has, as the node says; none: it does not say.
	Own []netip.Addr
}

// Peer returns the place of a connected node.
func (n *Nodes) Peer(id capabilities.NodeID) (Place, bool) {
	s := n.session(id)
	if s == nil {
		return Place{}, false
	}
	from, ok := s.conn.RemoteAddr().(*net.UDPAddr)
	if !ok {
		return Place{}, false
	}
	addr, ok := netip.AddrFromSlice(from.IP)
	at := Place{Peer: addr.Unmap().WithZone("")}
	if own := s.addrs.Load(); own != nil {
		at.Own = *own
	}
	return at, ok
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
