package sealed

import (
	"crypto/ecdh"
	"crypto/hpke"
	"testing"
)

// sealRaw seals bytes as they are, without the form of a secret.
func sealRaw(t *testing.T, public, data []byte) []byte {
	pub, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	b := Binding{}
	out, err := hpke.Seal(pub, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), b.info(), data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
