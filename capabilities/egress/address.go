package egress

import (
	"net"
	"net/netip"
	"strings"
)

// near says why one of addrs is none of the internet, "" if they all are.
// Addresses of public kind count as near where this machine has them or is on
// one link with them: behind them are the same services that loopback and the
// local network have, and a page learns a node's address from its first request.
func (r *Rules) near(addrs []netip.Addr) string {
	for _, addr := range addrs {
		if why := notPublic(addr); why != "" {
			return why
		}
	}
	links, err := r.links()
	if err != nil {
		return "not known to be another machine's"
	}
	for _, link := range links {
		ipnet, ok := link.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(ipnet.IP)
		if !ok {
			continue
		}
		ip = ip.Unmap()
		bits, total := ipnet.Mask.Size()
		if total == 128 && ip.Is4() {
			bits -= 96
		}
		// A tunnel may claim half the internet as its link: then only its own address
		// is near.
		if (ip.Is4() && bits < 16) || (ip.Is6() && bits < 48) {
			bits = ip.BitLen()
		}
		network := netip.PrefixFrom(ip, bits)
		for _, addr := range addrs {
			switch addr = embedded(addr.Unmap()); {
			case addr == ip:
				return "this machine's own"
			case network.Contains(addr):
				return "on the local network"
			}
		}
	}
	return ""
}

// own reports whether addr is one of this machine, or it cannot be told.
func (r *Rules) own(addr netip.Addr) bool {
	links, err := r.links()
	if err != nil {
		return true
	}
	for _, link := range links {
		if ipnet, ok := link.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(ipnet.IP); ok && ip.Unmap() == embedded(addr.Unmap()) {
				return true
			}
		}
	}
	return false
}

// IsLocalhost: these names mean loopback whatever a resolver says (RFC 6761).
func IsLocalhost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// reserved are ranges that are not the public internet and that netip's own
// tests do not cover.
var reserved = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "a metadata service"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a metadata service"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata service"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "a metadata service"},
	{netip.MustParsePrefix("0.0.0.0/8"), "reserved"},
	{netip.MustParsePrefix("100.64.0.0/10"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"}, // 6to4 relays
	{netip.MustParsePrefix("198.18.0.0/15"), "private"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("100::/64"), "reserved"},
	{netip.MustParsePrefix("2001::/23"), "reserved"}, // Teredo and other tunnels
	{netip.MustParsePrefix("2001:db8::/32"), "reserved"},
	{netip.MustParsePrefix("3fff::/20"), "reserved"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "private"},
}

var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	sixTo = netip.MustParsePrefix("2002::/16")
	compa = netip.MustParsePrefix("::/96") // IPv4-compatible
	// global6 is all of IPv6 that is given out (RFC 4291, 2.4). An address outside
	// is a translation or another system's own use of it, such as ::ffff:0:10.0.0.1.
	global6 = netip.MustParsePrefix("2000::/3")
)

// embedded returns the IPv4 address that an IPv6 one leads to, or addr itself.
func embedded(addr netip.Addr) netip.Addr {
	b := addr.As16()
	switch {
	case addr.Is6() && (nat64.Contains(addr) || compa.Contains(addr)):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case addr.Is6() && sixTo.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return addr
}

// notPublic says what kind of address addr is, "" for a public one. IPv4
// addresses inside IPv6 ones are judged by what they carry.
func notPublic(addr netip.Addr) string {
	if addr.Zone() != "" {
		return "link-local"
	}
	addr = addr.Unmap()
	for _, r := range reserved {
		if r.prefix.Contains(addr) {
			return r.why
		}
	}
	switch {
	case addr.IsUnspecified():
		return "reserved"
	case addr.IsLoopback():
		return "loopback"
	case addr.IsPrivate():
		return "private"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr.IsMulticast():
		return "multicast"
	}
	if v4 := embedded(addr); v4 != addr {
		return notPublic(v4)
	}
	if !addr.IsGlobalUnicast() || (addr.Is6() && !global6.Contains(addr)) {
		return "reserved"
	}
	return ""
}
