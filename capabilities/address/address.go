package address

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Class is what a URL points at, as far as its text tells. A name is only a
// name: what it resolves to is checked by the node's egress proxy when it dials.
type Class string

// The classes. Other is everything that cannot be judged (a scheme with
// its own rules, a host a browser would refuse), so a policy that lists what it
// permits never permits it by accident.
const (
	None      Class = "none"       // no host at all: about:blank, data:, or no URL given
	Name      Class = "name"       // a DNS name
	Public    Class = "public"     // a literal address on the internet
	Loopback  Class = "loopback"   // this machine
	Private   Class = "private"    // a local network, or reserved for no one
	LinkLocal Class = "link_local" // the link only
	Metadata  Class = "metadata"   // a cloud's instance metadata service
	Other     Class = "other"
)

// Destination is a URL as policy sees it.
type Destination struct {
	Scheme  string // lower case, without colon
	Host    string // punycode, lower case, no trailing dot, IPv6 without brackets
	Origin  string // scheme://host[:port], without a default port; "null" if there is none
	Port    int    // the scheme's own if the URL has none; 0 without host
	Address Class
}

// maxURL bounds a URL with a host; longer ones are Other.
const maxURL = 64 << 10

var defaultPorts = map[string]int{"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}

// Classify reads a URL the way browsers do (the WHATWG URL standard, not RFC
// 3986), because the browser is what will open it: it skips control characters,
// takes '\' for '/', and reads http:127.1 as http://127.0.0.1/.
func Classify(raw string) Destination {
	other := Destination{Origin: "null", Address: Other}
	s := trim(raw)
	scheme, rest, ok := cutScheme(s)
	if !ok {
		return other
	}
	other.Scheme = scheme
	port, special := defaultPorts[scheme]
	if !special {
		// about: beyond about:blank are chrome:// pages in disguise.
		page, _, _ := strings.Cut(strings.ToLower(rest), "#")
		if scheme == "data" || (scheme == "about" && page == "blank") {
			return Destination{Scheme: scheme, Origin: "null", Address: None}
		}
		return other
	}
	if len(rest) > maxURL {
		return other
	}
	authority := strings.TrimLeft(rest, `/\`)
	if end := strings.IndexAny(authority, `/\?#`); end >= 0 {
		authority = authority[:end]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = authority[at+1:]
	}
	host, digits := splitPort(authority)
	if digits != "" {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || digits[0] == '+' {
			return other
		}
		port = int(n)
	}
	name, ip, ok := parseHost(host)
	if !ok {
		return other
	}
	d := Destination{Scheme: scheme, Host: name, Port: port}
	bracketed := name
	if ip.IsValid() {
		d.Address = classifyIP(ip)
		if ip.Is6() {
			bracketed = "[" + name + "]"
		}
	} else {
		d.Address = classifyName(name)
	}
	d.Origin = scheme + "://" + bracketed
	if port != defaultPorts[scheme] {
		d.Origin += ":" + strconv.Itoa(port)
	}
	return d
}

// trim takes out what the standard's parser passes over.
func trim(raw string) string {
	s := strings.TrimFunc(raw, func(r rune) bool { return r <= 0x20 })
	if strings.ContainsAny(s, "\t\n\r") {
		s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	}
	return s
}

func cutScheme(s string) (scheme, rest string, ok bool) {
	colon := strings.IndexByte(s, ':')
	if colon < 1 || colon > 64 {
		return "", "", false
	}
	scheme = strings.ToLower(s[:colon])
	for i, c := range []byte(scheme) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return "", "", false
		}
	}
	return scheme, s[colon+1:], true
}

// splitPort cuts at the first colon outside brackets.
func splitPort(authority string) (host, port string) {
	from := 0
	if strings.HasPrefix(authority, "[") {
		if end := strings.IndexByte(authority, ']'); end >= 0 {
			from = end
		}
	}
	if colon := strings.IndexByte(authority[from:], ':'); colon >= 0 {
		return authority[:from+colon], authority[from+colon+1:]
	}
	return authority, ""
}

// hostProfile is "domain to ASCII" of the URL standard: UTS 46, non-transitional,
// not strict about characters (forbidden ones are checked after it).
var hostProfile = idna.New(
	idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false),
	idna.CheckHyphens(false), idna.CheckJoiners(true), idna.BidiRule(),
)

// parseHost returns the canonical text of a host and its address if it is one.
func parseHost(host string) (string, netip.Addr, bool) {
	var none netip.Addr
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		if !ok || err != nil || ip.Zone() != "" || !ip.Is6() {
			return "", none, false
		}
		ip = ip.Unmap() // [::ffff:10.0.0.1] is 10.0.0.1 to everyone
		return ip.String(), ip, true
	}
	host, ok := percentDecode(host)
	if !ok || !utf8.ValidString(host) {
		return "", none, false
	}
	if !isLowerLDH(host) || strings.Contains(host, "xn--") {
		ascii, err := hostProfile.ToASCII(host)
		if err != nil {
			return "", none, false
		}
		host = ascii
	}
	if host == "" || strings.ContainsFunc(host, forbiddenInDomain) {
		return "", none, false
	}
	if endsInNumber(host) {
		ip, ok := parseIPv4(host)
		if !ok {
			return "", none, false
		}
		return ip.String(), ip, true
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > 253 {
		return "", none, false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return "", none, false
		}
	}
	return host, none, true
}

func isLowerLDH(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return true
}

// forbiddenInDomain is the URL standard's forbidden domain code points.
func forbiddenInDomain(r rune) bool {
	return r <= 0x20 || r >= 0x7f || strings.ContainsRune("#/:<>?@[\\]^|%", r)
}

func percentDecode(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(n))
		i += 2
	}
	return string(b), true
}

// endsInNumber is the standard's "ends in a number checker": such a host is an
// IPv4 address or nothing.
func endsInNumber(host string) bool {
	parts := strings.Split(host, ".")
	if len(parts) > 1 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	last := parts[len(parts)-1]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, ok := parseIPv4Number(last)
	return ok
}

// parseIPv4 reads 127.0.0.1, 2130706433, 0x7f.1, 0177.0.0.1 and the like.
func parseIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		n, ok := parseIPv4Number(part)
		if !ok {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return netip.Addr{}, false
			}
			value |= n << (8 * (3 - i))
			continue
		}
		if n >= 1<<(8*(5-len(parts))) {
			return netip.Addr{}, false
		}
		value |= n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func parseIPv4Number(s string) (uint64, bool) {
	base := 10
	switch {
	case s == "":
		return 0, false
	case len(s) >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'):
		s, base = s[2:], 16
	case len(s) >= 2 && s[0] == '0':
		s, base = s[1:], 8
	}
	if s == "" {
		return 0, true // "0x" alone is zero
	}
	if s[0] == '+' || s[0] == '-' || strings.Contains(s, "_") {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	// A number too large is still a number, and then no address (parseIPv4).
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

var (
	// metadataNets answer with credentials of the machine; one of them (Azure) lies
	// in public space.
	metadataNets = prefixes("169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32",
		"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128")
	// 0.0.0.0/8 reaches this machine on most systems.
	loopbackNets  = prefixes("127.0.0.0/8", "0.0.0.0/8", "::1/128", "::/128")
	linkLocalNets = prefixes("169.254.0.0/16", "fe80::/10")
	// privateNets are the networks of RFC 1918, 4193 and 6598, and what the IANA
	// special-purpose registries give to no host on the internet.
	privateNets = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20", "64:ff9b:1::/48")
	globalUnicast6 = netip.MustParsePrefix("2000::/3")
	nat64          = netip.MustParsePrefix("64:ff9b::/96")
	compatible6    = netip.MustParsePrefix("::/96")
	sixToFour      = netip.MustParsePrefix("2002::/16")
)

// classifyIP judges an address; one that carries an IPv4 address inside (mapped,
// compatible, NAT64, 6to4) is judged by that.
func classifyIP(ip netip.Addr) Class {
	ip = ip.Unmap().WithZone("")
	for _, class := range [...]struct {
		nets  []netip.Prefix
		class Class
	}{
		{metadataNets, Metadata}, {loopbackNets, Loopback},
		{linkLocalNets, LinkLocal}, {privateNets, Private},
	} {
		for _, n := range class.nets {
			if n.Contains(ip) {
				return class.class
			}
		}
	}
	if ip.Is4() {
		return Public
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compatible6.Contains(ip):
		return classifyIP(netip.AddrFrom4([4]byte(b[12:])))
	case sixToFour.Contains(ip):
		return classifyIP(netip.AddrFrom4([4]byte(b[2:6])))
	case globalUnicast6.Contains(ip):
		return Public
	}
	return Private
}

// privateSuffixes are domains that never lead to the internet, or are used as if
// they did not.
var privateSuffixes = []string{".local", ".internal", ".home.arpa", ".lan", ".home", ".corp", ".intranet", ".private", ".localdomain"}

// classifyName judges a DNS name by what it is reserved for; a name without a
// dot is one of the local network.
func classifyName(name string) Class {
	switch name {
	case "localhost", "localhost.localdomain", "localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback":
		return Loopback
	case "metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal":
		return Metadata
	}
	if strings.HasSuffix(name, ".localhost") {
		return Loopback
	}
	if !strings.Contains(name, ".") {
		return Private
	}
	for _, suffix := range privateSuffixes {
		if strings.HasSuffix(name, suffix) {
			return Private
		}
	}
	return Name
}
