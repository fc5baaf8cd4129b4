package nodes

import (
	"net"
	"net/netip"

	"github.com/handrail-dev/handrail/capabilities"
)

// Peer gives the address that a connected node speaks from.
func (n *Nodes) Peer(id capabilities.NodeID) (netip.Addr, bool) {
	s := n.session(id)
	if s == nil {
		return netip.Addr{}, false
	}
	from, ok := s.conn.RemoteAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	addr, ok := netip.AddrFromSlice(from.IP)
	return addr.Unmap().WithZone(""), ok
}
