package gateway

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/handrail-dev/handrail/gateway/nodes"
)

// Where a request comes from is elsewhere only if that is known. The gateway is at
// 10.9.0.1 and fd09::1; 10.9.0.254 is its router.
func TestApart(t *testing.T) {
	addrs := func(list ...string) (all []netip.Addr) {
		for _, a := range list {
			all = append(all, netip.MustParseAddr(a))
		}
		return all
	}
	host := network{
		own: addrs("127.0.0.1", "::1", "10.9.0.1", "fd09::1"), routers: addrs("10.9.0.254"), routed: true,
		links: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("fd09::/64")},
	}
	both := nodes.Place{Peer: netip.MustParseAddr("10.9.0.2"), Own: addrs("10.9.0.2", "10.9.0.3", "fd09::2")}
	four := nodes.Place{Peer: netip.MustParseAddr("10.9.0.2"), Own: addrs("10.9.0.2")}
	distant := nodes.Place{Peer: netip.MustParseAddr("10.9.0.2"), Own: addrs("10.9.0.2", "2001:db8::2")}
	old := nodes.Place{Peer: netip.MustParseAddr("10.9.0.2")}
	behind := nodes.Place{Peer: netip.MustParseAddr("10.9.0.7"), Own: addrs("192.168.1.5", "fd99::5")}
	remote := nodes.Place{Peer: netip.MustParseAddr("203.0.113.5"), Own: addrs("192.168.1.5")}
	hairpin := nodes.Place{Peer: netip.MustParseAddr("10.9.0.254"), Own: addrs("10.9.0.1", "fd09::1")}
	local := nodes.Place{Peer: netip.MustParseAddr("127.0.0.1"), Own: addrs("10.9.0.1", "fd09::1")}
	for _, c := range []struct {
		what string
		from string
		at   nodes.Place
		want bool
	}{
		{"the address that the node speaks from", "10.9.0.2", both, false},
		{"its second IPv4", "10.9.0.3", both, false},
		{"its IPv6", "fd09::2", both, false},
		{"a privacy address of its /64", "fd09::aaaa", both, false},
		{"another machine of the network", "10.9.0.9", both, true},
		{"another machine, by a family that the node does not have", "fd09::9", four, false},
		{"the node is known by IPv4 only", "fd09::2", four, false},
		{"another /64 than the node's", "fd09::9", distant, true},
		{"an older node that says nothing", "10.9.0.9", old, false},
		{"the node is behind a NAT", "10.9.0.9", behind, false},
		{"the same NAT", "10.9.0.7", behind, false},
		{"the same NAT, from afar", "203.0.113.5", remote, false},
		{"from afar: a VPN of the device's, perhaps", "198.51.100.9", both, false},
		{"the router: hairpin NAT", "10.9.0.254", both, false},
		{"the gateway's own machine", "127.0.0.1", both, true},
		{"the gateway's own machine, by its address", "fd09::1", four, true},
		{"the gateway's own machine, an older node", "::1", old, false},
		{"the gateway's own machine, a node behind a NAT", "127.0.0.1", behind, true},
		{"one machine, its node by a hairpin", "127.0.0.1", hairpin, false},
		{"one machine, its node by a hairpin, by its address", "fd09::1", hairpin, false},
		{"one machine, its node by a hairpin, by the router", "10.9.0.254", hairpin, false},
		{"the gateway's own machine, a distant node", "127.0.0.1", remote, true},
		{"one machine", "127.0.0.1", local, false},
		{"one machine, by its address", "10.9.0.1", local, false},
		{"one machine, and another of the network", "10.9.0.9", local, true},
		{"one machine, and the /64 of it", "fd09::9", local, false},
		{"link-local", "fe80::9", both, false},
		{"a mapped address", "10.9.0.2", nodes.Place{Peer: netip.MustParseAddr("::ffff:10.9.0.2").Unmap(), Own: both.Own}, false},
	} {
		if got := host.apart(netip.MustParseAddr(c.from), c.at); got != c.want {
			t.Errorf("%s: %s apart from %v: %v", c.what, c.from, c.at, got)
		}
	}
	if host.apart(netip.Addr{}, both) || host.apart(netip.MustParseAddr("10.9.0.9"), nodes.Place{}) || (network{}).apart(netip.MustParseAddr("10.9.0.9"), both) {
		t.Error("nothing is known, and it is taken for apart")
	}
	host.routed = false
	if host.apart(netip.MustParseAddr("10.9.0.9"), both) {
		t.Error("it may be the router, and is taken for apart")
	}
}

// Linux lists its routers so.
func TestRouters(t *testing.T) {
	four := []byte("Iface\tDestination\tGateway \tFlags\neth0\t00000000\tFE00090A\t0003\t0\neth0\t0000090A\t00000000\t0001\t0\n\nx")
	six := []byte("00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400\n" +
		"fd090000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100\nshort\n")
	if got := fmt.Sprint(routers4(four), routers6(six)); got != "[10.9.0.254] [fe80::1]" {
		t.Error(got)
	}
}
