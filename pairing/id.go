package pairing

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// An identifier is a letter for what it names, a body of base32 digits and two
// check digits:
//
//	n  4f7k2m9qxw3dz8tc  h5
//	|  body              check digits
//	kind: s site, g gateway, n node, i invite, t satellite, w worker
//
// The digits are Crockford's (no i, l, o, u). The check digits are the two
// power sums Σ cₖαᵏ and Σ cₖα²ᵏ over GF(32), with which every single wrong digit
// and every swap of neighbours is found, and every pair of wrong digits up to a
// length of 31.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

var encoding = base32.NewEncoding(digits).WithPadding(base32.NoPadding)

const (
	kindSite    = 's'
	kindGateway = 'g'
	kindNode    = 'n'
	kindInvite  = 'i'
	kindTool    = 't' // a satellite: what it is for
	kindWorker  = 'w'

	siteBytes  = 20 // 160 bits: a hash that someone might try to meet
	nodeBytes  = 10
	checkCount = 2
)

// GatewayID names one gateway of a site.
type GatewayID string

// InviteID names an invitation without saying its secret.
type InviteID string

// SiteIDOf returns the ID of the site whose root key this is: what nodes pin.
func SiteIDOf(root ed25519.PublicKey) capabilities.SiteID {
	sum := sha256.Sum256(append([]byte("handrail site\x00"), root...))
	return capabilities.SiteID(format(kindSite, sum[:siteBytes]))
}

// GatewayIDOf returns the ID of the gateway with that key.
func GatewayIDOf(key ed25519.PublicKey) GatewayID {
	sum := sha256.Sum256(append([]byte("handrail gateway\x00"), key...))
	return GatewayID(format(kindGateway, sum[:nodeBytes]))
}

// NewNodeID makes a node ID. It does not come from the node's key, because keys
// rotate and IDs stay.
func NewNodeID() capabilities.NodeID {
	var b [nodeBytes]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return capabilities.NodeID(format(kindNode, b[:]))
}

// NewSatelliteID makes the ID of a satellite, which stands where a node's does: both carry calls
// out, and no satellite can be taken for a node.
func NewSatelliteID() capabilities.NodeID {
	var b [nodeBytes]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return capabilities.NodeID(format(kindTool, b[:]))
}

// ParseNodeID returns the canonical form of a node ID as a person may type it:
// upper case, blanks, o for 0, i or l for 1.
func ParseNodeID(s string) (capabilities.NodeID, error) {
	id, _, err := parse("node ID", kindNode, nodeBytes, s)
	return capabilities.NodeID(id), err
}

// ParseSiteID returns the canonical form of a site ID.
func ParseSiteID(s string) (capabilities.SiteID, error) {
	id, _, err := parse("site ID", kindSite, siteBytes, s)
	return capabilities.SiteID(id), err
}

// ParseInviteID returns the canonical form of an invite ID.
func ParseInviteID(s string) (InviteID, error) {
	id, _, err := parse("invite ID", kindInvite, nodeBytes, s)
	return InviteID(id), err
}

// Fingerprint returns the short form of a public key that people compare.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return group(encoding.EncodeToString(sum[:10]))
}

func group(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && i%4 == 0 {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func format(kind byte, body []byte) string {
	text := encoding.EncodeToString(body)
	check := checkDigits(text)
	return string(kind) + text + string(check[:])
}

func parse(what string, kind byte, size int, s string) (id string, body []byte, err error) {
	bad := func(why string) (string, []byte, error) {
		return "", nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "this is not a %s: %s", what, why)
	}
	want := 1 + encoding.EncodedLen(size) + checkCount
	if len(s) > 4*want {
		return bad("it is too long")
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-' || r == '\t' || r == '\n' || r == '\r':
			return -1
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, s)
	if s == "" || s[0] != kind {
		return bad("it must begin with " + string(kind))
	}
	text := lookalikes.Replace(s[1:])
	if len(text)+1 != want {
		return bad("it has the wrong length")
	}
	text, check := text[:len(text)-checkCount], text[len(text)-checkCount:]
	body, err = encoding.DecodeString(text)
	if err != nil {
		return bad("it has a character that IDs do not use")
	}
	if got := checkDigits(text); string(got[:]) != check {
		return bad("its check digits do not fit; look for a wrong character")
	}
	return format(kind, body), body, nil
}

var lookalikes = strings.NewReplacer("o", "0", "i", "1", "l", "1")

// GF(32) with x⁵+x²+1; α = x generates all 31 non-zero elements.
var gfExp, gfLog = func() (exp [31]byte, log [32]byte) {
	x := 1
	for i := range exp {
		exp[i] = byte(x)
		log[x] = byte(i)
		if x <<= 1; x >= 32 {
			x ^= 0b100101
		}
	}
	return
}()

func checkDigits(text string) [checkCount]byte {
	var sums [checkCount]byte
	for k := range len(text) {
		c := strings.IndexByte(digits, text[k])
		if c <= 0 {
			continue // zero adds nothing; a foreign character fails in decoding
		}
		for j := range sums {
			sums[j] ^= gfExp[(int(gfLog[c])+(j+1)*(k+1))%31]
		}
	}
	return [checkCount]byte{digits[sums[0]], digits[sums[1]]}
}
