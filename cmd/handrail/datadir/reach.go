package datadir

import (
	"net"
	"net/netip"
	"strings"
)

// maxReachable is how many addresses of this machine are shown: bridges of containers and
// virtual machines have one each.
const maxReachable = 4

// Reachable returns the addresses of this machine that others may reach, the most likely
// one first: IPv4 before IPv6, as people's networks have it. There may be none.
func Reachable(own []net.Addr) []string {
	var v4, v6 []string
	for _, a := range own {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch ip := p.Addr().Unmap(); {
		case ip.IsLoopback() || ip.IsLinkLocalUnicast():
		case ip.Is4():
			v4 = append(v4, ip.String())
		default:
			v6 = append(v6, ip.String())
		}
	}
	return append(v4, v6...)
}

// elsewhere returns the addresses, each HOST:PORT, by which other devices reach what
// listens at a: none for loopback, this machine's own for all interfaces.
func elsewhere(a net.Addr, own func() ([]net.Addr, error)) []string {
	at, err := netip.ParseAddrPort(a.String())
	switch ip := at.Addr().Unmap(); {
	case err != nil || ip.IsLoopback():
		return []string{}
	case !ip.IsUnspecified():
		return []string{a.String()}
	}
	addrs, err := own()
	if err != nil {
		return nil
	}
	_, port, _ := net.SplitHostPort(a.String())
	var all []string
	for _, ip := range Reachable(addrs) {
		if at.Addr().Is4() && strings.Contains(ip, ":") {
			continue // it listens on IPv4 alone
		}
		all = append(all, net.JoinHostPort(ip, port))
	}
	return all[:min(len(all), maxReachable)]
}

// Reach is where a gateway can be called, for people.
type Reach struct {
	here  string   // for this machine, such as "http://127.0.0.1:7480"
	HTTP  []string // for other devices: base URLs; none where it listens on loopback alone
	Nodes []string // for other devices' nodes, each HOST:PORT
}

// ReachOf says where a gateway that listens at these addresses can be called.
func ReachOf(r Running, http, quic net.Addr, own func() ([]net.Addr, error)) Reach {
	scheme, _, _ := strings.Cut(r.HTTP, "://")
	to := Reach{here: r.HTTP, HTTP: []string{}, Nodes: elsewhere(quic, own)}
	for _, addr := range elsewhere(http, own) {
		if base := scheme + "://" + addr; base != r.HTTP {
			to.HTTP = append(to.HTTP, base)
		}
	}
	return to
}

// Lines are the addresses of HTTP with something after them, this machine's own last; every
// line after the first is indented.
func (to Reach) Lines(after, indent string) string {
	if len(to.HTTP) == 0 {
		return to.here + after
	}
	text := ""
	for _, base := range to.HTTP {
		text += base + after + "\n" + indent
	}
	return text + to.here + after + " (on this machine)"
}
