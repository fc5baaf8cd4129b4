package datadir

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/gateway/client"
)

// Door is the HTTPS of the gateway that this device was paired with, as its paste told
// it; not ok: it told nothing.
func (d Dir) Door() (base *url.URL, pin client.Pin, ok bool) {
	id, err := link.LoadIdentity(d.Node())
	if err != nil || id.Door.Addr == "" {
		return nil, pin, false
	}
	base, err = client.ParseAddress("https://" + id.Door.Addr)
	if err != nil || len(id.Door.Sum) != sha256.Size {
		return nil, pin, false
	}
	return base, client.PinOf([sha256.Size]byte(id.Door.Sum)), true
}

// Page is the address for browsers: the one that the gateway was given, else one that other
// devices reach too, else this machine's.
func (r Running) Page(to Reach) string {
	switch {
	case r.URL != "":
		return r.URL
	case len(to.HTTP) > 0:
		return to.HTTP[0]
	}
	return ForBrowser(r.HTTP)
}

// ForBrowser returns an address for this machine's own browser: browsers keep passkeys for
// names, and this machine's name is localhost.
func ForBrowser(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return base
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err != nil || ip != netip.AddrFrom4([4]byte{127, 0, 0, 1}) && ip != netip.IPv6Loopback() {
		return base
	}
	port := u.Port()
	if u.Host = "localhost"; port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// Fingerprint is that of the certificate, as browsers show it; empty without one.
func (r Running) Fingerprint() string {
	_, pin, err := r.Place()
	if err != nil {
		return ""
	}
	return pin.String()
}

// CertificateLine says by what the certificate is known.
func (r Running) CertificateLine() string {
	if print := r.Fingerprint(); print != "" {
		return fmt.Sprintf("Its certificate: %s\n", print)
	}
	return ""
}
