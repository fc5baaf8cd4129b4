package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

// Rules decide where a page may connect: public addresses, and what the
// owner named. They hold for every kind of traffic, since all of it goes by the
// egress proxy.
type Rules struct {
	named map[string]bool            // "host:port" that the owner allows whatever its address
	allow Domains                    // the owner's: nil means any host
	block Domains                    // the owner's
	links func() ([]net.Addr, error) // networks this machine's interfaces are in
	hold                             // its proxies

	// File decides on addresses of files; nil: none may be opened.
	File func(raw string) error
	// Lookup resolves a name; the system's resolver by default. Both are set before
	// the first use.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// NewRules reads the owner's origins, such as "http://127.0.0.1:8080".
func NewRules(origins []string) (*Rules, error) {
	r := &Rules{named: map[string]bool{}, links: net.InterfaceAddrs,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}}
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil ||
			(u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("browser: origin %q: want scheme://host or scheme://host:port with http or https", origin)
		}
		to := address.Classify(origin)
		if to.Host == "" {
			return nil, fmt.Errorf("browser: origin %q: no browser takes such a host", origin)
		}
		r.named[net.JoinHostPort(to.Host, strconv.Itoa(to.Port))] = true
	}
	return r, nil
}

// Narrow adds the owner's domains; an entry that is none is an error that names it.
func (r *Rules) Narrow(allow, block []string) (err error) {
	if r.allow, err = readDomains(allow); err == nil {
		r.block, err = readDomains(block)
	}
	return err
}

// Limited reports whether the owner has a list of domains.
func (r *Rules) Limited() bool { return r.allow != nil || r.block != nil }

// checkHost decides on a host by its name: the owner's lists, and what the grants
// of the call leave (nil: all). An origin that the owner named is on the owner's
// list.
func (r *Rules) checkHost(host, port string, granted Domains) error {
	host = plainHost(host)
	return r.narrowed(host, r.named[net.JoinHostPort(host, port)], granted)
}

// narrowed decides on a host, as plainHost returns it, by the lists alone; named: its owner named
// it with its port.
func (r *Rules) narrowed(host string, named bool, granted Domains) error {
	switch {
	case inFiles(host):
		return errFilesDomain
	case r.block.match(host):
		return capabilities.Errorf(capabilities.CodeURLBlocked, "%.253s may not be reached: the node's owner blocks it.", host).
			WithHint("Ask the owner of the node, or do without it.")
	case r.allow != nil && !r.allow.match(host) && !named:
		return capabilities.Errorf(capabilities.CodeURLBlocked, "%.253s may not be reached: the node's owner allows other hosts only.", host).
			WithHint("Ask the owner of the node to allow this host.")
	case granted != nil && !granted.match(host):
		return capabilities.Errorf(capabilities.CodeURLBlocked, "%.253s may not be reached: policy grants this call other hosts only.", host).
			WithHint("Ask the admin to grant this host.")
	}
	return nil
}

// FilesDomain is where a lane's proxy serves files of the owner's: a name that nobody can
// have (RFC 2606), so that nothing is ever asked for it beyond the proxy.
const FilesDomain = "files.handrail.invalid"

// inFiles reports whether a host is FilesDomain or below it, in any spelling.
func inFiles(host string) bool {
	host = plainHost(host)
	return host == FilesDomain || strings.HasSuffix(host, "."+FilesDomain)
}

var errFilesDomain = capabilities.Errorf(capabilities.CodeURLBlocked, "Addresses below %s are this node's own.", FilesDomain).
	WithHint("Use the file: address of the file.")

// hostPort returns "host:port" of a web address, in one spelling.
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

// CheckURL decides on an address that the caller wants opened, before Chrome
// sees it: only web pages, blank and inline ones; never files or Chrome's own
// pages. Names are resolved later, by the proxy.
func (r *Rules) CheckURL(raw string) error {
	to := address.Classify(raw)
	switch to.Scheme {
	case "data":
		return nil
	case "about":
		if to.Address == address.None {
			return nil
		}
	case "file":
		if r.File != nil {
			return r.File(raw)
		}
	case "http", "https":
		if to.Host == "" {
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "The url is not well formed, or names no host.")
		}
		if inFiles(to.Host) {
			return errFilesDomain
		}
		if r.named[net.JoinHostPort(to.Host, strconv.Itoa(to.Port))] {
			return nil
		}
		if addr, err := netip.ParseAddr(to.Host); err == nil {
			if why := notPublic(addr); why != "" {
				return blocked(to.Host, why)
			}
		}
		if IsLocalhost(to.Host) {
			return blocked(to.Host, "loopback")
		}
		return nil
	}
	return capabilities.Errorf(capabilities.CodeURLBlocked, "Addresses of the scheme %.40q may not be opened.", to.Scheme).
		WithHint("Use an http or https address, with http:// or https:// in front.")
}

// resolve returns the addresses of host that may be dialled, each checked. A name
// is resolved once; what is dialled is what was checked.
func (r *Rules) resolve(ctx context.Context, host, port string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	named := r.named[net.JoinHostPort(host, port)]
	if addr, err := netip.ParseAddr(host); err == nil {
		if why := r.near([]netip.Addr{addr}); why != "" && !named {
			return nil, blocked(host, why)
		}
		return []netip.Addr{addr}, nil
	}
	if IsLocalhost(host) && !named {
		return nil, blocked(host, "loopback")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := r.Lookup(ctx, host)
	if err != nil || len(addrs) == 0 {
		return nil, capabilities.Wrap(capabilities.CodeNavigationFailed, err, fmt.Sprintf("The name %.253q does not resolve.", host))
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

func blocked(host, why string) error {
	return capabilities.Errorf(capabilities.CodeURLBlocked, "%.253s may not be reached: its address is %s.", host, why).
		WithHint("Use a public web address, or ask the node's owner to allow this origin by name.")
}
