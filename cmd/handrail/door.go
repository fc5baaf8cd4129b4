package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/live"
)

// doorFlags are how the HTTP surfaces may be reached from beyond loopback.
type doorFlags struct {
	cert, key, url *string
	generated      *bool
	proxies, hosts *[]string
	ice            *[]string
	turnSecret     *string
}

func addDoorFlags(cmd *cobra.Command) doorFlags {
	f := cmd.Flags()
	return doorFlags{
		cert:       f.String("tls-cert", "", "PEM file with the certificate of HTTPS and its chain; read again when it changes"),
		key:        f.String("tls-key", "", "PEM file with its key"),
		generated:  f.Bool("tls-generated", false, "serve HTTPS with a certificate made here, to be known by its fingerprint"),
		proxies:    f.StringSlice("trusted-proxy", nil, "address or network of a TLS proxy in front, whose X-Forwarded-For counts; repeatable"),
		hosts:      f.StringSlice("host", nil, "further host name that clients may call by; repeatable"),
		ice:        f.StringSlice("ice-server", nil, "STUN or TURN server by which viewers and nodes find a way for a live view, such as turn:turn.example:3478?transport=udp; repeatable"),
		turnSecret: f.String("turn-secret-file", "", "file with the secret that this gateway shares with its TURN servers (coturn: static-auth-secret)"),
		url:        f.String("url", "", "address for other devices, such as https://handrail.example"),
	}
}

// into puts what the flags say into the gateway's options.
func (d doorFlags) into(o *gateway.Options) (err error) {
	o.TLSCert, o.TLSKey, o.TLSGenerated, o.Hosts, o.URL = *d.cert, *d.key, *d.generated, *d.hosts, *d.url
	o.ICE.URLs = *d.ice
	if *d.turnSecret != "" {
		if o.ICE.Secret, err = readTURNSecret(*d.turnSecret); err != nil {
			return err
		}
	}
	if err := o.ICE.Check(); err != nil {
		return usageError("--ice-server: %v", err)
	}
	o.Proxies, err = front.ParseProxies(*d.proxies)
	return err
}

// maxTURNSecret bounds a TURN server's secret, in bytes.
const maxTURNSecret = 1 << 10

// readTURNSecret reads the secret in a file, without the line break after it.
func readTURNSecret(path string) (live.TURNSecret, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", usageError("--turn-secret-file: %v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTURNSecret+1))
	text := strings.TrimRight(string(data), "\r\n")
	if err != nil || text == "" || len(data) > maxTURNSecret {
		return "", usageError("--turn-secret-file: %s has to hold the secret, at most %d bytes", path, maxTURNSecret)
	}
	return live.TURNSecret(text), nil
}

// door is the HTTPS of the gateway that this device was paired with, as its paste told
// it; not ok: it told nothing.
func (d dataDir) door() (base *url.URL, pin client.Pin, ok bool) {
	id, err := link.LoadIdentity(d.node())
	if err != nil || id.Door.Addr == "" {
		return nil, pin, false
	}
	base, err = client.ParseAddress("https://" + id.Door.Addr)
	if err != nil || len(id.Door.Sum) != sha256.Size {
		return nil, pin, false
	}
	return base, client.PinOf([sha256.Size]byte(id.Door.Sum)), true
}

// page is the address for browsers: the one that the gateway was given, else one that other
// devices reach too, else this machine's.
func (r runningGateway) page(to reach) string {
	switch {
	case r.URL != "":
		return r.URL
	case len(to.http) > 0:
		return to.http[0]
	}
	return forBrowser(r.HTTP)
}

// forBrowser returns an address for this machine's own browser: browsers keep passkeys for
// names, and this machine's name is localhost.
func forBrowser(base string) string {
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

// fingerprint is that of the certificate, as browsers show it; empty without one.
func (r runningGateway) fingerprint() string {
	_, pin, err := r.place()
	if err != nil {
		return ""
	}
	return pin.String()
}

// certificateLine says by what the certificate is known.
func (r runningGateway) certificateLine() string {
	if print := r.fingerprint(); print != "" {
		return fmt.Sprintf("Its certificate: %s\n", print)
	}
	return ""
}
