package pairing

import (
	"crypto/x509"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A generation is believed by the site's key alone.
func TestMark(t *testing.T) {
	site, other := mustSite(t), mustSite(t)
	chain := []*x509.Certificate{site.Root()}
	for name, c := range map[string]struct {
		mark Mark
		ok   bool
	}{
		"never restored":     {site.Mark(0), true},
		"restored":           {site.Mark(7), true},
		"the largest":        {site.Mark(MaxGeneration), true},
		"too large":          {site.Mark(MaxGeneration + 1), false},
		"another site's":     {other.Mark(7), false},
		"another number":     {Mark{Generation: 8, Proof: site.Mark(7).Proof}, false},
		"no proof":           {Mark{Generation: 7}, false},
		"a proof of nothing": {Mark{Proof: site.Mark(7).Proof}, false},
	} {
		for _, err := range []error{site.VerifyMark(c.mark), VerifyMark(chain, site.ID(), c.mark)} {
			if (err == nil) != c.ok || err != nil && capabilities.CodeOf(err) != capabilities.CodeSiteMismatch {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := VerifyMark(nil, site.ID(), site.Mark(7)); capabilities.CodeOf(err) != capabilities.CodeSiteMismatch {
		t.Errorf("a chain without the site's root: %v", err)
	}
}
