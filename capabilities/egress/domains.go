package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Domains lists hosts: "example.com" or an address is that host, "*.example.com"
// is example.com and everything below it.
type Domains []string

// readDomains checks and spells the entries; nil for none.
func readDomains(list []string) (Domains, error) {
	var d Domains
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

// match reports whether the host, as plainHost returns it, is on the list.
func (d Domains) match(host string) bool {
	for _, entry := range d {
		if suffix, wild := strings.CutPrefix(entry, "*"); wild && (host == suffix[1:] || strings.HasSuffix(host, suffix)) || host == entry {
			return true
		}
	}
	return false
}

// DomainGrant begins a grant that narrows the way out to one host.
const DomainGrant = capabilities.NarrowDomains

// Granted returns the hosts that a call's grants leave; nil where no grant
// narrows them. A grant that names no host leaves nothing.
func Granted(grants []string) (d Domains) {
	for _, g := range grants {
		if host, ok := strings.CutPrefix(g, DomainGrant); ok {
			read, err := readDomains([]string{host})
			if err != nil {
				read = Domains{"-"} // no host is called that
			}
			d = append(d, read...)
		}
	}
	return d
}

// Both returns the hosts that are on both lists; nil is every host.
func Both(a, b Domains) Domains {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := Domains{}
	for _, pair := range [][2]Domains{{a, b}, {b, a}} {
		for _, entry := range pair[0] {
			if pair[1].covers(entry) && !slices.Contains(both, entry) {
				both = append(both, entry)
			}
		}
	}
	return both
}

// covers reports whether d has every host of an entry.
func (d Domains) covers(entry string) bool {
	base, wild := strings.CutPrefix(entry, "*.")
	if !wild {
		return d.match(entry)
	}
	for _, e := range d {
		if above, all := strings.CutPrefix(e, "*."); all && (base == above || strings.HasSuffix(base, "."+above)) {
			return true
		}
	}
	return false
}
