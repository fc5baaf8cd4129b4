package front

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

const (
	// generatedLife is long, because whoever pinned the certificate would have to be
	// told of another one. Browsers warn of it either way.
	generatedLife = 10 * 365 * 24 * time.Hour
	maxPEM        = 1 << 20
)

// Certificate is what HTTPS is served with: two PEM files that are read again when
// they change, so that who renews them need not restart anything.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	roots             *x509.CertPool // of the authorities; nil: this system's

	mu      sync.Mutex
	current *tls.Certificate
	seen    [2]stamp // of the files at the last look
	real    bool     // an authority that this system trusts stands behind it
}

// stamp tells one state of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// LoadCertificate reads a certificate with its chain, and its key. Errors are
// CodeInvalidRequest with what to do.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	seen, err := c.stampsNow()
	if err == nil {
		err = c.readLocked(seen)
	}
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the certificate for HTTPS cannot be used: %v", err).
			WithAction(capabilities.Action{Key: capabilities.ActionServeHTTPS},
				"Give PEM files that belong together: the certificate with its chain, and its key.")
	}
	return c, nil
}

// GeneratedCertificate is the one in those files, made now if they are not there or
// it has expired: signed by itself, so that only its fingerprint tells it from
// another. Names are host names and addresses beside this host's own.
func GeneratedCertificate(certFile, keyFile string, names []string, log *slog.Logger) (*Certificate, error) {
	if _, err := os.Stat(certFile); err == nil {
		c, err := LoadCertificate(certFile, keyFile, log)
		if err == nil && time.Now().Before(c.current.Leaf.NotAfter) {
			return c, nil
		}
		if err != nil {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s cannot be used", certFile).
				WithHint("Delete it to have another one made; whoever pinned its fingerprint then needs the new one.")
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // browsers take no Ed25519
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	own, _ := os.Hostname()
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Handrail gateway"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(generatedLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, name := range append([]string{"localhost", own}, names...) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if name != "" && !slices.Contains(template.DNSNames, name) {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	// The key first: a certificate without one would keep the gateway from starting.
	if err := pairing.SaveFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})); err != nil {
		return nil, err
	}
	if err := pairing.SaveFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})); err != nil {
		return nil, err
	}
	return LoadCertificate(certFile, keyFile, log)
}

// File is where the certificate is; who may read the data directory pins what is in
// it.
func (c *Certificate) File() string { return c.certFile }

// Fingerprint is the SHA-256 of the certificate that is served now, as people compare
// it: "SHA256 3B:0C:…".
func (c *Certificate) Fingerprint() string {
	sum := c.Sum()
	return "SHA256 " + strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

// Sum is the fingerprint as bytes.
func (c *Certificate) Sum() [sha256.Size]byte { return sha256.Sum256(c.latest().Leaf.Raw) }

// Real reports whether an authority that this system trusts stands behind it.
func (c *Certificate) Real() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real
}

// config is TLS with this certificate.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return c.latest(), nil
	}}
}

// latest returns the certificate as its files are now; what cannot be read leaves the
// last good one in use, and is said once.
func (c *Certificate) latest() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, err := c.stampsNow()
	if err == nil && seen != c.seen {
		if err = c.readLocked(seen); err == nil {
			c.log.Info("front.certificate", "file", c.certFile, "until", c.current.Leaf.NotAfter)
		}
	}
	if err != nil && c.seen != (stamps{}) {
		c.log.Error("front.certificate", "file", c.certFile, "err", err, "why", "the one before stays in use")
	}
	if err != nil {
		c.seen = seen
	}
	return c.current
}

type stamps = [2]stamp

func (c *Certificate) stampsNow() (seen stamps, err error) {
	for i, file := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(file)
		switch {
		case err != nil:
			return stamps{}, err
		case info.Size() > maxPEM:
			return stamps{}, errors.New(file + " is larger than 1 MiB")
		}
		seen[i] = stamp{info.ModTime(), info.Size()}
	}
	return seen, nil
}

func (c *Certificate) readLocked(seen stamps) error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	others := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(cert)
		}
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: c.roots, Intermediates: others})
	c.current, c.seen, c.real = &pair, seen, err == nil
	return nil
}
