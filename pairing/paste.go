package pairing

import (
	"bytes"
	"crypto/sha256"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Paste is what an admin hands to a device: where the gateway is, which site to
// trust, and a one-time secret.
//
//	hr1:  base32 of
//	+-------+-----------------------+---------+-----------+----------+
//	| count | count × (len u8, addr)| site 20 | secret 20 | check 4  |
//	+-------+-----------------------+---------+-----------+----------+
//	hr2:  base32 of the same, with a door before check
//	+-- … --+-----------+--------------------+--------+----------+
//	| … … … | secret 20 | len u8, door's addr | sum 32 | check 4  |
//	+-- … --+-----------+--------------------+--------+----------+
//
// check is the beginning of SHA-256 over all before it. base32 because a QR code
// packs it denser than base64url, and because case does not matter then. A paste
// without a door is always hr1, which devices of before read.
type Paste struct {
	Addrs  []string // as CheckAddr has them, 1 to MaxAddrs, in the order to try
	Site   capabilities.SiteID
	Secret Secret
	// Door is the site's HTTPS, if its certificate is known by its fingerprint alone;
	// else nil.
	Door *Door
}

// Door is where a site serves its console and clients over HTTPS with a certificate
// of its own.
type Door struct {
	Addr string            // host:port; :port where the host is that of the paste's addresses
	Sum  [sha256.Size]byte // SHA-256 of the certificate
}

// At is the door's address for who reached the gateway at that host.
func (d *Door) At(host string) string {
	if port, open := strings.CutPrefix(d.Addr, ":"); open {
		return net.JoinHostPort(host, port)
	}
	return d.Addr
}

const (
	pastePrefix = "hr1:"
	doorPrefix  = "hr2:"
	// MaxPaste is the longest a paste may be, in characters.
	MaxPaste = 512
	// MaxAddrs is how many addresses a paste can hold.
	MaxAddrs   = 6
	maxAddrLen = 100
	checkBytes = 4
)

// Encode returns the text of the paste: the one place the secret leaves by.
func (p Paste) Encode() (string, error) {
	if len(p.Addrs) == 0 || len(p.Addrs) > MaxAddrs {
		return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "a paste needs 1 to %d addresses", MaxAddrs)
	}
	b := []byte{byte(len(p.Addrs))}
	for _, a := range p.Addrs {
		if err := CheckAddr(a); err != nil {
			return "", err
		}
		b = append(append(b, byte(len(a))), a...)
	}
	_, site, err := parse("site ID", kindSite, siteBytes, string(p.Site))
	if err != nil {
		return "", err
	}
	if len(p.Secret.bytes()) != secretBytes {
		return "", capabilities.Errorf(capabilities.CodeInternal, "the paste has no secret")
	}
	b = append(append(b, site...), p.Secret.bytes()...)
	prefix := pastePrefix
	if p.Door != nil {
		if err := checkDoor(p.Door.Addr); err != nil {
			return "", err
		}
		prefix = doorPrefix
		b = append(append(b, byte(len(p.Door.Addr))), p.Door.Addr...)
		b = append(b, p.Door.Sum[:]...)
	}
	sum := sha256.Sum256(b)
	text := prefix + encoding.EncodeToString(append(b, sum[:checkBytes]...))
	if len(text) > MaxPaste {
		return "", capabilities.Errorf(capabilities.CodeInvalidRequest, "the addresses are too long for a paste of %d characters", MaxPaste)
	}
	return text, nil
}

// QRText returns the paste in the characters that a QR code packs densest.
func (p Paste) QRText() (string, error) {
	text, err := p.Encode()
	return strings.ToUpper(text), err
}

// OnlyHere reports whether the paste names no address that another machine can reach.
func (p Paste) OnlyHere() bool {
	for _, addr := range p.Addrs {
		host, _, err := net.SplitHostPort(addr)
		if ip, bad := netip.ParseAddr(host); err != nil || host != "localhost" && (bad != nil || !ip.Unmap().IsLoopback()) {
			return false
		}
	}
	return len(p.Addrs) > 0
}

// ParsePaste reads a paste as people hand it over: with blanks and line breaks
// in it, in either case. Every error is CodePasteInvalid and names no secret.
func ParsePaste(text string) (Paste, error) {
	bad := func(why string) (Paste, error) {
		return Paste{}, capabilities.Errorf(capabilities.CodePasteInvalid, "This is not a valid pairing code: %s.", why)
	}
	if len(text) > 2*MaxPaste {
		return bad("it is too long")
	}
	text = strings.ToLower(strings.Join(strings.Fields(text), ""))
	rest, ok := strings.CutPrefix(text, pastePrefix)
	door := false
	if !ok {
		if rest, door = strings.CutPrefix(text, doorPrefix); !door {
			return bad("it must begin with " + pastePrefix + " or " + doorPrefix)
		}
	}
	if len(text) > MaxPaste {
		return bad("it is too long")
	}
	b, err := encoding.DecodeString(rest)
	if err != nil {
		return bad("it has a character that codes do not use")
	}
	if encoding.EncodeToString(b) != rest || len(b) < 1+checkBytes {
		return bad("it is not complete")
	}
	b, check := b[:len(b)-checkBytes], b[len(b)-checkBytes:]
	if sum := sha256.Sum256(b); !bytes.Equal(sum[:checkBytes], check) {
		return bad("a part of it is missing or changed")
	}
	count, b := int(b[0]), b[1:]
	if count == 0 || count > MaxAddrs {
		return bad("it has no address, or too many")
	}
	var p Paste
	for range count {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return bad("it is not complete")
		}
		addr := string(b[1 : 1+int(b[0])])
		if CheckAddr(addr) != nil {
			return bad("its address is not host:port")
		}
		p.Addrs = append(p.Addrs, addr)
		b = b[1+int(b[0]):]
	}
	if len(b) < siteBytes+secretBytes {
		return bad("it is not complete")
	}
	b, end := b[:siteBytes+secretBytes], b[siteBytes+secretBytes:]
	switch {
	case !door && len(end) != 0:
		return bad("it is not complete")
	case door:
		if len(end) == 0 || len(end) != 1+int(end[0])+sha256.Size {
			return bad("it is not complete")
		}
		p.Door = &Door{Addr: string(end[1 : 1+int(end[0])]), Sum: [sha256.Size]byte(end[1+int(end[0]):])}
		if checkDoor(p.Door.Addr) != nil {
			return bad("its HTTPS address is not host:port")
		}
	}
	p.Site = capabilities.SiteID(format(kindSite, b[:siteBytes]))
	p.Secret = secretFrom(append([]byte(nil), b[siteBytes:]...))
	return p, nil
}

// CheckAddr refuses what is no address of a gateway: host:port, or https://host[:port] for one that
// is reached by a WebSocket where all else is dropped.
func CheckAddr(addr string) error {
	of, web := strings.CutPrefix(addr, "https://")
	if !web || len(addr) > maxAddrLen {
		return checkAddr(addr)
	}
	if _, _, err := net.SplitHostPort(of); err != nil {
		of = net.JoinHostPort(strings.Trim(of, "[]"), "443")
	}
	if strings.ContainsAny(of, "/?#@\\%") {
		return checkAddr(addr)
	}
	return checkAddr(of)
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host != "" && len(addr) <= maxAddrLen && !strings.ContainsFunc(addr, func(r rune) bool { return r <= ' ' || r > '~' }) {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			return nil
		}
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "%q is not host:port with a host of at most %d printable ASCII characters",
		addr, maxAddrLen)
}

// checkDoor takes what checkAddr takes, and :port.
func checkDoor(addr string) error {
	if strings.HasPrefix(addr, ":") {
		addr = "h" + addr
	}
	return checkAddr(addr)
}
