package pairing

import (
	"crypto/ed25519"
	"crypto/x509"

	"github.com/handrail-dev/handrail/capabilities"
)

// MaxGeneration bounds generations: JSON's numbers are exact up to there.
const MaxGeneration = 1<<53 - 1

// Mark says of which generation of its site a gateway is. Each restore of a backup raises the
// generation, so that of two copies of a site the later one is known. Only the site's key makes a
// proof, so nobody else can have a gateway take itself for an old copy. The zero Mark is that of a
// site which was never restored.
type Mark struct {
	Generation uint64
	Proof      []byte // Ed25519 by the site's key, 64 bytes; none at generation 0
}

// Mark returns the mark of a generation of this site.
func (s *Site) Mark(generation uint64) Mark {
	if generation == 0 {
		return Mark{}
	}
	return Mark{Generation: generation, Proof: ed25519.Sign(s.key, markStatement(s.id, generation))}
}

// VerifyMark checks a mark that somebody else showed.
func (s *Site) VerifyMark(m Mark) error {
	return m.verify(s.id, s.key.Public().(ed25519.PublicKey))
}

// VerifyMark checks the mark of a gateway whose chain VerifyGateway has accepted for that site.
func VerifyMark(chain []*x509.Certificate, site capabilities.SiteID, m Mark) error {
	for _, c := range chain {
		if pub, ok := c.PublicKey.(ed25519.PublicKey); ok && c.IsCA && SiteIDOf(pub) == site {
			return m.verify(site, pub)
		}
	}
	return capabilities.Errorf(capabilities.CodeSiteMismatch, "The gateway there does not belong to site %s.", site)
}

func (m Mark) verify(site capabilities.SiteID, root ed25519.PublicKey) error {
	if m.Generation == 0 && len(m.Proof) == 0 {
		return nil
	}
	if m.Generation == 0 || m.Generation > MaxGeneration || !ed25519.Verify(root, markStatement(site, m.Generation), m.Proof) {
		return capabilities.Errorf(capabilities.CodeSiteMismatch, "The site's generation %d is not proven by the site's key.", m.Generation)
	}
	return nil
}

// markStatement is what the site's key signs.
func markStatement(site capabilities.SiteID, generation uint64) []byte {
	var number [8]byte
	for i := range number {
		number[i] = byte(generation >> (56 - 8*i))
	}
	return mac(nil, "handrail generation", string(site), string(number[:]))
}
