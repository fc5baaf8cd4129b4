package browser

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// egressRules decide where a page may connect: public addresses, and what the
// owner named. They hold for every kind of traffic, since all of it goes by the
// egress proxy.
type egressRules struct {
	named map[string]bool // "host:port" that the owner allows whatever its address
	allow domains         // the owner's: nil means any host
	block domains         // the owner's
	// file decides on addresses of files; nil: none may be opened.
	file   func(*url.URL) error
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	links  func() ([]net.Addr, error) // networks this machine's interfaces are in
	gate   gate                       // shut while the node is stopped
}

// newEgressRules reads the owner's origins, such as "http://127.0.0.1:8080".
func newEgressRules(origins []string) (*egressRules, error) {
	r := &egressRules{named: map[string]bool{}, links: net.InterfaceAddrs, lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil ||
			(u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("browser: origin %q: want scheme://host or scheme://host:port with http or https", origin)
		}
		r.named[hostPort(u)] = true
	}
	return r, nil
}

// narrow adds the owner's domains.
func (r *egressRules) narrow(allow, block []string) (err error) {
	if r.allow, err = readDomains(allow); err == nil {
		r.block, err = readDomains(block)
	}
	return err
}

// checkHost decides on a host by its name: the owner's lists, and what the grants
// of the call leave (nil: all). An origin that the owner named is on the owner's
// list.
func (r *egressRules) checkHost(host, port string, granted domains) error {
	host = plainHost(host)
	switch {
	case r.block.match(host):
		return capabilities.Errorf(capabilities.CodeURLBlocked, "%s may not be reached: the node's owner blocks it.", clip(host, 253)).
			WithHint("Ask the owner of the node, or do without it.")
	case r.allow != nil && !r.allow.match(host) && !r.named[net.JoinHostPort(host, port)]:
		return capabilities.Errorf(capabilities.CodeURLBlocked, "%s may not be reached: the node's owner allows other hosts only.", clip(host, 253)).
			WithHint("Ask the owner of the node to allow this host.")
	case granted != nil && !granted.match(host):
		return capabilities.Errorf(capabilities.CodeURLBlocked, "%s may not be reached: policy grants this call other hosts only.", clip(host, 253)).
			WithHint("Ask the admin to grant this host.")
	}
	return nil
}

// domains lists hosts: "example.com" or an address is that host, "*.example.com"
// is example.com and everything below it.
type domains []string

// readDomains checks and spells the entries; nil for none.
func readDomains(list []string) (domains, error) {
	var d domains
	for _, entry := range list {
		host, wild := strings.CutPrefix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(entry)), "."), "*.")
		if _, err := netip.ParseAddr(host); err != nil || wild {
			if !validName(host) {
				return nil, fmt.Errorf("browser: domain %q: want a host such as example.com or *.example.com, in ASCII, without scheme and port", entry)
			}
		}
		if wild {
			host = "*." + host
		}
		d = append(d, host)
	}
	return d, nil
}

// validName accepts what stands in a URL as a host's name.
func validName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

func plainHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// match reports whether the host, as plainHost gives it, is on the list.
func (d domains) match(host string) bool {
	for _, entry := range d {
		if suffix, wild := strings.CutPrefix(entry, "*"); wild && (host == suffix[1:] || strings.HasSuffix(host, suffix)) || host == entry {
			return true
		}
	}
	return false
}

// domainGrant begins a grant that narrows the way out to one host.
const domainGrant = "network.egress.domain_allowlist:"

// grantedDomains gives the hosts that a call's grants leave; nil where no grant
// narrows them. A grant that names no host leaves nothing.
func grantedDomains(grants []string) (d domains) {
	for _, g := range grants {
		if host, ok := strings.CutPrefix(g, domainGrant); ok {
			read, err := readDomains([]string{host})
			if err != nil {
				read = domains{"-"} // no host is called that
			}
			d = append(d, read...)
		}
	}
	return d
}

// hostPort gives "host:port" of a web address, in one spelling.
func hostPort(u *url.URL) string {
	return net.JoinHostPort(plainHost(u.Hostname()), portOf(u))
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https" || u.Scheme == "wss":
		return "443"
	}
	return "80"
}

// checkURL decides on an address that the caller wants opened, before Chrome
// sees it: only web pages, blank and inline ones; never files or Chrome's own
// pages. Names are resolved later, by the proxy.
func (r *egressRules) checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The url is not well formed.")
	}
	switch strings.ToLower(u.Scheme) {
	case "data":
		return nil
	case "about":
		if strings.EqualFold(u.Opaque, "blank") {
			return nil
		}
	case "file":
		if r.file != nil {
			return r.file(u)
		}
	case "http", "https":
		if u.Hostname() == "" {
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "The url names no host.")
		}
		if r.named[hostPort(u)] {
			return nil
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			if why := notPublic(addr); why != "" {
				return blocked(u.Hostname(), why)
			}
		}
		if isLocalhost(u.Hostname()) {
			return blocked(u.Hostname(), "loopback")
		}
		return nil
	}
	return capabilities.Errorf(capabilities.CodeURLBlocked, "Addresses of the scheme %q may not be opened.", clip(u.Scheme, 40)).
		WithHint("Use an http or https address, with http:// or https:// in front.")
}

// resolve gives the addresses of host that may be dialled, each checked. A name
// is resolved once; what is dialled is what was checked.
func (r *egressRules) resolve(ctx context.Context, host, port string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	named := r.named[net.JoinHostPort(host, port)]
	if addr, err := netip.ParseAddr(host); err == nil {
		if why := r.near([]netip.Addr{addr}); why != "" && !named {
			return nil, blocked(host, why)
		}
		return []netip.Addr{addr}, nil
	}
	if isLocalhost(host) && !named {
		return nil, blocked(host, "loopback")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := r.lookup(ctx, host)
	if err != nil || len(addrs) == 0 {
		return nil, capabilities.Wrap(capabilities.CodeNavigationFailed, err, fmt.Sprintf("The name %q does not resolve.", clip(host, 253)))
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
	}
	// One bad address spoils the name: a mixed answer is how rebinding starts.
	if why := r.near(addrs); why != "" && !named {
		return nil, blocked(host, why)
	}
	return addrs, nil
}

// near says why one of addrs is none of the internet, "" if they all are.
// Addresses of public kind count as near where this machine has them or is on
// one link with them: behind them are the same services that loopback and the
// local network have, and a page learns a node's address from its first request.
func (r *egressRules) near(addrs []netip.Addr) string {
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

// isLocalhost: these names mean loopback whatever a resolver says (RFC 6761).
func isLocalhost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func blocked(host, why string) error {
	return capabilities.Errorf(capabilities.CodeURLBlocked, "%s may not be reached: its address is %s.", clip(host, 253), why).
		WithHint("Use a public web address, or ask the node's owner to allow this origin by name.")
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
	// global6 is all of IPv6 that is given out (RFC 4291, 2.4). What lies outside is
	// a translation or another system's own use of it, such as ::ffff:0:10.0.0.1.
	global6 = netip.MustParsePrefix("2000::/3")
)

// embedded gives the IPv4 address that an IPv6 one leads to, or addr itself.
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
