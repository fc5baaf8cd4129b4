package pairing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Leaf certificates live for a year and are meant to be replaced at half of it.
// NotBefore lies two days back for devices whose clock is slow.
const (
	LeafLifetime = 365 * 24 * time.Hour
	clockSlack   = 48 * time.Hour
)

var (
	rootBegin = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	rootEnd   = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // RFC 5280 4.1.2.5: no well-defined end
)

// Site is a site's root key at work: it certifies the keys of gateways and nodes.
type Site struct {
	id   capabilities.SiteID
	key  ed25519.PrivateKey
	root *x509.Certificate
}

// NewSite makes a Site of its root key. The same key makes the same site on every machine and after
// every restore.
func NewSite(key ed25519.PrivateKey) (*Site, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "the site key is not an Ed25519 key")
	}
	pub := key.Public().(ed25519.PublicKey)
	id := SiteIDOf(pub)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "Handrail site " + string(id)},
		NotBefore:             rootBegin,
		NotAfter:              rootEnd,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	root, err := certify(template, template, pub, key)
	if err != nil {
		return nil, err
	}
	return &Site{id: id, key: key, root: root}, nil
}

// ID returns the site ID that nodes pin.
func (s *Site) ID() capabilities.SiteID { return s.id }

// Root returns the root certificate; gateways send it along with their leaf.
func (s *Site) Root() *x509.Certificate { return s.root }

// CertifyGateway returns a leaf for a gateway's key.
func (s *Site) CertifyGateway(key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	return s.leaf("gateway", string(GatewayIDOf(key)), x509.ExtKeyUsageServerAuth, key, now)
}

// CertifyNode returns a leaf for a node's key.
func (s *Site) CertifyNode(node capabilities.NodeID, key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	return s.leaf("node", string(node), x509.ExtKeyUsageClientAuth, key, now)
}

func (s *Site) leaf(role, id string, usage x509.ExtKeyUsage, key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	if len(key) != ed25519.PublicKeySize {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the key is not an Ed25519 key")
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return certify(&x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(LeafLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{usage},
		URIs:         []*url.URL{{Scheme: "handrail", Host: string(s.id), Path: "/" + role + "/" + id}},
	}, s.root, key, s.key)
}

// CertifyPeer returns a leaf by which a gateway is known at another gateway of its site.
func (s *Site) CertifyPeer(key ed25519.PublicKey, now time.Time) (*x509.Certificate, error) {
	return s.leaf("peer", string(GatewayIDOf(key)), x509.ExtKeyUsageClientAuth, key, now)
}

// VerifyPeer checks that a certificate is that of a gateway of this site.
func (s *Site) VerifyPeer(chain []*x509.Certificate, now time.Time) error {
	if len(chain) == 0 {
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "the gateway showed no certificate")
	}
	_, _, err := verifyLeaf(chain[0], s.root, s.id, "peer", x509.ExtKeyUsageClientAuth, now)
	return err
}

// SelfSigned returns the certificate a device shows while it has none of the site:
// while it joins, and after its certificate ended. It proves the key, nothing more.
func SelfSigned(key ed25519.PrivateKey, now time.Time) (*x509.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "joining"},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(LeafLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return certify(template, template, key.Public(), key)
}

func certify(template, parent *x509.Certificate, pub any, key ed25519.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err == nil {
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(der); err == nil {
			return cert, nil
		}
	}
	return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
}

// Peer is who is at the other end of a connection, as its certificate says. The
// roster has the last word on nodes.
type Peer struct {
	Gateway GatewayID           // set for gateways
	Node    capabilities.NodeID // set for nodes with a certificate of the site
	Key     ed25519.PublicKey
	// Joining is true for a device with a self-signed certificate: nothing but
	// its key is known.
	Joining bool
}

// ErrClock marks a certificate that is good but not at this host's time.
var ErrClock = errors.New("certificate is not valid at this time")

// VerifyGateway checks that chain (leaf first, the root among the rest) is a
// gateway of the pinned site. A different site is CodeSiteMismatch.
func VerifyGateway(chain []*x509.Certificate, site capabilities.SiteID, now time.Time) (Peer, error) {
	var root *x509.Certificate
	for _, c := range chain {
		if pub, ok := c.PublicKey.(ed25519.PublicKey); ok && c.IsCA && SiteIDOf(pub) == site {
			root = c
			break
		}
	}
	if root == nil {
		return Peer{}, capabilities.Errorf(capabilities.CodeSiteMismatch, "The gateway there does not belong to site %s.", site)
	}
	id, key, err := verifyLeaf(chain[0], root, site, "gateway", x509.ExtKeyUsageServerAuth, now)
	if err != nil {
		return Peer{}, err
	}
	return Peer{Gateway: GatewayID(id), Key: key}, nil
}

// VerifyNode checks a device's certificate: one of this site, or a self-signed
// one, with which only joining is possible. Anything else is CodeNodeNotPaired.
func (s *Site) VerifyNode(chain []*x509.Certificate, now time.Time) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, capabilities.Errorf(capabilities.CodeNodeNotPaired, "the device showed no certificate")
	}
	leaf := chain[0]
	key, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok {
		return Peer{}, capabilities.Errorf(capabilities.CodeNodeNotPaired, "the device's key is not an Ed25519 key")
	}
	if bytes.Equal(leaf.RawIssuer, leaf.RawSubject) &&
		leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil {
		return Peer{Key: key, Joining: true}, nil
	}
	id, key, err := verifyLeaf(leaf, s.root, s.id, "node", x509.ExtKeyUsageClientAuth, now)
	if err != nil {
		return Peer{}, capabilities.Wrap(capabilities.CodeNodeNotPaired, err, "the device's certificate is not one of this site")
	}
	return Peer{Node: capabilities.NodeID(id), Key: key}, nil
}

func verifyLeaf(leaf, root *x509.Certificate, site capabilities.SiteID, role string, usage x509.ExtKeyUsage,
	now time.Time) (string, ed25519.PublicKey, error) {
	mismatch := func(cause error, why string) (string, ed25519.PublicKey, error) {
		return "", nil, capabilities.Wrap(capabilities.CodeSiteMismatch, cause, why)
	}
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "", nil, capabilities.Wrap(capabilities.CodeNodeNotReady, ErrClock,
			"The "+role+"'s certificate is valid from "+leaf.NotBefore.Format(time.DateOnly)+" to "+leaf.NotAfter.Format(time.DateOnly)+
				", and this host's clock says "+now.UTC().Format(time.DateTime)+".").WithHint("Set the clock.")
	case err != nil:
		return mismatch(err, "The "+role+"'s certificate was not made by site "+string(site)+".")
	}
	key, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok || len(leaf.URIs) != 1 {
		return mismatch(nil, "The certificate names no "+role+".")
	}
	uri := leaf.URIs[0]
	id, ok := strings.CutPrefix(uri.Path, "/"+role+"/")
	if !ok || uri.Scheme != "handrail" || uri.Host != string(site) || id == "" || strings.Contains(id, "/") {
		return mismatch(nil, "The certificate names no "+role+" of site "+string(site)+".")
	}
	return id, key, nil
}
