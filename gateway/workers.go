package gateway

import (
	"encoding/hex"
	"net"
	"net/url"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

// workerDoor says to a worker's paste where the surfaces are, and by which certificate they are
// known.
func (g *Gateway) workerDoor(p *pairing.WorkerPaste) error {
	site := g.describe()
	if site.HTTPAddr == "" {
		return capabilities.Errorf(capabilities.CodeConflict, "the gateway does not listen yet")
	}
	base, err := url.Parse(site.BaseURL)
	if err != nil {
		return err
	}
	p.Plain = base.Scheme == "http"
	if site.Door != nil {
		p.Sum = hex.EncodeToString(site.Door.Sum[:])
	}
	switch {
	case site.PublicURL == "":
		p.Addrs = g.reachable(site.HTTPAddr)
	case base.Port() != "":
		p.Addrs = []string{base.Host}
	default:
		port := "443"
		if p.Plain {
			port = "80"
		}
		p.Addrs = []string{net.JoinHostPort(base.Hostname(), port)}
	}
	return nil
}
