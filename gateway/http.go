package gateway

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/metrics"
)

// newFront makes the HTTP door with the certificate that Options ask for.
func (g *Gateway) newFront() (_ *front.Server, err error) {
	o := &g.opts
	hosts := slices.Clone(o.Hosts)
	if o.URL != "" {
		u, ok := address.Web(o.URL)
		if !ok || u.Scheme != "https" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.200q is not an address for other devices", o.URL).
				WithHint("Give it such as https://handrail.example or https://192.168.1.5:7480.")
		}
		o.URL = "https://" + u.Host
		hosts = append(hosts, u.Hostname())
	}
	switch {
	case o.TLSGenerated && o.TLSCert != "":
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "HTTPS has one certificate: one from files, or a generated one").
			WithAction(capabilities.Action{Key: capabilities.ActionServeHTTPS}, "Choose one of them.")
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a certificate needs its key, and a key its certificate").
			WithAction(capabilities.Action{Key: capabilities.ActionServeHTTPS}, "Give both files.")
	case o.TLSGenerated:
		g.cert, err = front.GeneratedCertificate(g.path("http.crt"), g.path("http.key"), hosts, g.log)
	case o.TLSCert != "":
		g.cert, err = front.LoadCertificate(o.TLSCert, o.TLSKey, g.log)
	}
	if err != nil {
		return nil, err
	}
	return front.New(front.Options{
		Addr: o.HTTP, Tokens: g.Tokens, Clients: g.Clients, Certificate: g.cert, Proxies: o.Proxies, Hosts: hosts, Pages: o.ClientOrigins,
		Nodes: g.Nodes, Connections: connections(), Log: g.log,
	})
}

// onePort reports whether HTTP and nodes are served at one port: then what comes to it by TCP is
// HTTP's, which hands the nodes on.
func onePort(http, quic string) bool {
	_, a, errA := net.SplitHostPort(http)
	_, b, errB := net.SplitHostPort(quic)
	return errA == nil && errB == nil && a == b && a != "0"
}

// connections leaves half of the process's descriptors to nodes, files and children; 0
// where that is no bound.
func connections() int {
	if most := metrics.Descriptors() / 2; most < front.MaxConnections {
		return most
	}
	return 0
}

// Certificate is what HTTPS is served with; nil: it is HTTP.
func (g *Gateway) Certificate() *front.Certificate { return g.cert }

// PublicURL is the address for other devices; empty: none was named.
func (g *Gateway) PublicURL() string { return g.opts.URL }

func (g *Gateway) scheme() string {
	if g.cert != nil {
		return "https"
	}
	return "http"
}

// origins are where our own pages are, for nodes that could come by them: at each address
// and name that they are called by. Of more than can be told the first are.
func (g *Gateway) origins() (all []string) {
	at, err := netip.ParseAddrPort(g.HTTPAddr().String())
	if err != nil {
		return nil
	}
	hosts := []string{"localhost", at.Addr().Unmap().String()}
	if g.Front.Localhost() { // by the other loopback address, too
		hosts = append(hosts, netip.IPv6Loopback().String())
	}
	if at.Addr().IsUnspecified() {
		hosts = hosts[:1]
		for _, a := range ownNetwork().own {
			if !a.IsLinkLocalUnicast() {
				hosts = append(hosts, a.String())
			}
		}
	}
	if g.opts.URL != "" {
		all = append(all, g.opts.URL)
	}
	for _, host := range append(slices.Clone(g.opts.Hosts), hosts...) {
		origin := g.scheme() + "://" + net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
		if len(all) < wire.MaxOrigins && len(origin) <= wire.MaxOrigin && !slices.Contains(all, origin) {
			all = append(all, origin)
		}
	}
	return all
}
