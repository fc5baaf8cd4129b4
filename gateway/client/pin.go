package client

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Pin is the SHA-256 fingerprint of a gateway's certificate. The zero Pin is none:
// then an authority that this system trusts has to stand behind the certificate, and
// its name has to be that of the address.
type Pin struct {
	sum [sha256.Size]byte
	set bool
}

// PinOf makes a pin of a SHA-256 sum.
func PinOf(sum [sha256.Size]byte) Pin { return Pin{sum, true} }

// ParsePin reads a fingerprint as people copy it: 64 hexadecimal digits, with or
// without colons and blanks between them and "SHA256" in front. Empty is no pin.
func ParsePin(text string) (Pin, error) {
	digits := strings.Map(func(r rune) rune {
		if r == ':' || r == ' ' || r == '-' || r == '=' {
			return -1
		}
		return r
	}, strings.ToLower(strings.TrimSpace(text)))
	if digits == "" {
		return Pin{}, nil
	}
	sum, err := hex.DecodeString(strings.TrimPrefix(digits, "sha256"))
	if err != nil || len(sum) != sha256.Size {
		return Pin{}, errors.New("a fingerprint is SHA256 and 32 bytes in hexadecimal, such as SHA256 3B:0C:…")
	}
	return PinOf([sha256.Size]byte(sum)), nil
}

// PinFile is the pin of the first certificate in a PEM file.
func PinFile(path string) (Pin, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Pin{}, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return Pin{}, fmt.Errorf("%s holds no certificate", path)
	}
	return PinOf(sha256.Sum256(block.Bytes)), nil
}

// Transport returns a transport that holds to the certificate, for what speaks to the
// gateway without a Client.
func (p Pin) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = p.config()
	return t
}

// IsZero reports whether it is none.
func (p Pin) IsZero() bool { return !p.set }

// String is the pin as browsers show a certificate's fingerprint, with SHA256 in
// front; empty for none.
func (p Pin) String() string {
	if !p.set {
		return ""
	}
	var b strings.Builder
	b.WriteString("SHA256 ")
	for i, x := range p.sum {
		if i > 0 {
			b.WriteByte(':')
		}
		fmt.Fprintf(&b, "%02X", x)
	}
	return b.String()
}

// errPin is what a connection to another certificate ends with.
var errPin = errors.New("its certificate is not the one whose fingerprint is pinned")

// config is TLS that trusts the pinned certificate and no other; nil for none.
func (p Pin) config() *tls.Config {
	if !p.set {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The pin stands in the place of authorities, names and dates.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errPin
			}
			got := sha256.Sum256(s.PeerCertificates[0].Raw)
			if subtle.ConstantTimeCompare(got[:], p.sum[:]) != 1 {
				return errPin
			}
			return nil
		},
	}
}

// Untrusted reports whether err is that of a certificate which is not trusted: no
// authority stands behind it, or it is not the pinned one.
func Untrusted(err error) bool {
	var chain *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	return errors.Is(err, errPin) || errors.As(err, &chain) || errors.As(err, &authority) || errors.As(err, &name)
}
