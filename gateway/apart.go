package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/handrail-dev/handrail/capabilities/tunnel"
	"github.com/handrail-dev/handrail/gateway/nodes"
)

// network is what this host knows of the networks that it is in.
type network struct {
	own   []netip.Addr   // its addresses
	links []netip.Prefix // the networks that it reaches without a router
	// routers are the hosts that it reaches others by: a NAT may stand there, and behind
	// it anybody, also somebody of this very network.
	routers []netip.Addr
	// routed says that the routers are known: of this system it can be read which they are.
	routed bool
}

// ownNetwork looks at this host as it is now. An address that cannot be found out is left out, and
// less is then known to be apart.
func ownNetwork() network {
	var n network
	list, err := net.InterfaceAddrs()
	if err != nil {
		return n
	}
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr := p.Addr().Unmap().WithZone("")
		n.own = append(n.own, addr)
		if !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
			n.links = append(n.links, netip.PrefixFrom(addr, p.Bits()).Masked())
		}
	}
	v4, err := os.ReadFile("/proc/net/route")    // elsewhere than on Linux there is none
	v6, _ := os.ReadFile("/proc/net/ipv6_route") // nor where IPv6 is off
	n.routers, n.routed = append(routers4(v4), routers6(v6)...), err == nil
	return n
}

// here reports whether an address is one of this host's own.
func (n network) here(addr netip.Addr) bool { return addr.IsLoopback() || slices.Contains(n.own, addr) }

// apart reports whether it is known that a request from that address comes from another
// device than the node at that place. Where it is not known they may be the same.
func (n network) apart(from netip.Addr, at nodes.Place) bool {
	switch {
	case !from.IsValid() || !at.Peer.IsValid():
		return false
	case at.Over == tunnel.WebSocket && n.here(at.Peer):
		return false // a proxy of this host may have relayed it, for anybody
	case n.here(from): // nothing of another host's comes from here, but what this one translates
		return !n.here(at.Peer) && n.stranger(at.Own)
	}
	addrs := slices.Clone(at.Own)
	switch {
	case n.here(at.Peer): // the node runs on this host, whose addresses are known
		addrs = append(addrs, n.own...)
	case len(at.Own) == 0 || !slices.Contains(at.Own, at.Peer):
		return false // an older node, or one behind a NAT: it may come by any address
	}
	// Beyond the networks of this host everything passes routers, VPNs and NATs, by which
	// the node's device may come as well.
	// Where the routers are not known, each machine may be one.
	if !n.routed || slices.Contains(n.routers, from) || !slices.ContainsFunc(n.links, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return false
	}
	family := false
	for _, a := range addrs {
		if a.IsLoopback() || a.IsLinkLocalUnicast() || a.Is4() != from.Is4() {
			continue
		}
		if family = true; near(a, from) {
			return false
		}
	}
	return family // else nothing is known of the node there
}

// stranger reports whether a device that says these are its addresses is another one than
// this host: it has one that this host has not. A node of this very host may speak from
// another's address, by a hairpin NAT or a relay.
func (n network) stranger(own []netip.Addr) bool {
	return slices.ContainsFunc(own, func(a netip.Addr) bool {
		return !a.IsLoopback() && !a.IsLinkLocalUnicast() &&
			!slices.ContainsFunc(n.own, func(b netip.Addr) bool { return a.Is4() == b.Is4() && near(a, b) })
	})
}

// near reports whether two addresses of one family may be the same device's: the same
// address, or the same /64 of IPv6, in which a device takes new ones as it likes.
func near(a, b netip.Addr) bool {
	if a.Is4() {
		return a == b
	}
	p, err := a.Prefix(64)
	return err != nil || p.Contains(b)
}

// routers4 reads the routers of /proc/net/route: the third column, in the order of bytes
// of this host.
func routers4(table []byte) (list []netip.Addr) {
	for line := range lines(table) {
		if len(line) < 3 {
			continue
		}
		b, err := hex.DecodeString(string(line[2]))
		if err != nil || len(b) != 4 || bytes.Equal(b, make([]byte, 4)) {
			continue
		}
		var four [4]byte
		binary.NativeEndian.PutUint32(four[:], binary.BigEndian.Uint32(b))
		list = append(list, netip.AddrFrom4(four))
	}
	return list
}

// routers6 reads those of /proc/net/ipv6_route: the fifth column.
func routers6(table []byte) (list []netip.Addr) {
	for line := range lines(table) {
		if len(line) < 5 {
			continue
		}
		b, err := hex.DecodeString(string(line[4]))
		if addr, ok := netip.AddrFromSlice(b); err == nil && ok && !addr.IsUnspecified() {
			list = append(list, addr)
		}
	}
	return list
}

// lines returns the columns of each line.
func lines(table []byte) func(func([][]byte) bool) {
	return func(yield func([][]byte) bool) {
		for s := bufio.NewScanner(bytes.NewReader(table)); s.Scan(); {
			if !yield(bytes.Fields(s.Bytes())) {
				return
			}
		}
	}
}
