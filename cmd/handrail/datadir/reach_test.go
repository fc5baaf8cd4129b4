package datadir

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestReachable(t *testing.T) {
	addr := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		return n
	}
	for _, c := range []struct {
		own  []string
		want []string
	}{
		{[]string{"127.0.0.1/8", "::1/128"}, nil},
		{[]string{"127.0.0.1/8", "fe80::1/64", "fd09::2/64", "192.0.2.2/24"}, []string{"192.0.2.2", "fd09::2"}},
		{[]string{"::1/128", "fd09::2/64"}, []string{"fd09::2"}},
	} {
		var own []net.Addr
		for _, s := range c.own {
			own = append(own, addr(s))
		}
		if got := Reachable(own); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, not %q", c.own, got, c.want)
		}
	}
}

// A gateway that listens on all interfaces is told by the addresses that others reach, one that
// listens on loopback by none.
func TestReach(t *testing.T) {
	own := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.ParseIP("192.0.2.2"), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("fd09::2"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}
	for at, want := range map[string][]string{
		"127.0.0.1:80": nil, "[::1]:80": nil, "192.0.2.9:80": {"192.0.2.9:80"},
		"0.0.0.0:80": {"192.0.2.2:80"}, "[::]:80": {"192.0.2.2:80", "[fd09::2]:80"},
	} {
		if got := elsewhere(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at)), own); !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", at, got, want)
		}
	}
	all := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::]:80"))
	to := ReachOf(Running{HTTP: "https://127.0.0.1:80"}, all, all, own)
	if got, want := to.Lines("/mcp", "  "), "https://192.0.2.2:80/mcp\n  https://[fd09::2]:80/mcp\n  https://127.0.0.1:80/mcp (on this machine)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
