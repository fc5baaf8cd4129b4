package nodes

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
)

// tlsConfig demands a client certificate from everyone (a web page cannot show
// one): of this site, or self-signed, with which only joining is possible. Tickets
// are off, so every connection proves its key anew.
func (n *Nodes) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{wire.ALPN},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		GetConfigForClient:     n.takes,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return n.certificate() },
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := n.opts.Site.VerifyNode(cs.PeerCertificates, n.opts.Now())
			return err
		},
	}
}

// leafCache holds the gateway's leaf until half its life is over.
type leafCache struct {
	mu   sync.Mutex
	leaf *x509.Certificate
	cert *tls.Certificate
}

func (n *Nodes) certificate() (*tls.Certificate, error) {
	c := &n.leaf
	now := n.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaf != nil && c.leaf.NotAfter.Sub(now) > pairing.LeafLifetime/2 {
		return c.cert, nil
	}
	leaf, err := n.opts.Site.CertifyGateway(n.opts.Key.Public().(ed25519.PublicKey), now)
	if err != nil {
		return nil, err
	}
	c.leaf = leaf
	c.cert = &tls.Certificate{Certificate: [][]byte{leaf.Raw, n.opts.Site.Root().Raw}, PrivateKey: n.opts.Key, Leaf: leaf}
	return c.cert, nil
}

// gateways are what a node is told of where it may go: here, and to the others. Where a site has
// one gateway, nodes keep what their code said.
func (n *Nodes) gateways() [][]string {
	others := n.opts.Others()
	if len(others) == 0 {
		return nil
	}
	var all [][]string
	size := 0
	for _, addrs := range append([][]string{n.opts.Advertise()}, others...) {
		addrs = addrs[:min(len(addrs), wire.MaxGatewayAddrs)]
		for _, a := range addrs {
			size += len(a)
		}
		if len(addrs) > 0 && len(all) < wire.MaxGateways && size <= wire.MaxGatewayBytes {
			all = append(all, addrs)
		}
	}
	return all
}

// reachable returns the addresses a device may find the listener at: its own
// address, or those of this host's interfaces if it listens on all of them.
func (n *Nodes) reachable() []string {
	n.listenMu.Lock()
	udp := n.udp
	n.listenMu.Unlock()
	if udp == nil {
		return nil
	}
	local := udp.LocalAddr().(*net.UDPAddr)
	port := strconv.Itoa(local.Port)
	if !local.IP.IsUnspecified() {
		return []string{net.JoinHostPort(local.IP.String(), port)}
	}
	var v4, v6 []string
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if ip := prefix.Addr().Unmap(); ip.Is4() {
			v4 = append(v4, net.JoinHostPort(ip.String(), port))
		} else {
			v6 = append(v6, net.JoinHostPort(ip.String(), port))
		}
	}
	// IPv4 first: what is shown to a person is shorter, and LANs have it.
	found := append(v4, v6...)
	if len(found) == 0 {
		return []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return found[:min(len(found), pairing.MaxAddrs)]
}
