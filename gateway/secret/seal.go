package secret

import (
	"crypto/rand"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/capabilities"
)

var errShort = errors.New("secret: sealed bytes are too short")

// seal returns nonce and XChaCha20-Poly1305 ciphertext of a value.
func (v *Vault) seal(s capabilities.Secret, bind []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, chacha20poly1305.NonceSizeX+len(s.Reveal())+chacha20poly1305.Overhead)
	rand.Read(nonce) // never fails (crypto/rand)
	return v.aead.Seal(nonce, nonce, s.Reveal(), bind)
}

func (v *Vault) unseal(sealed, bind []byte) (capabilities.Secret, error) {
	if len(sealed) < chacha20poly1305.NonceSizeX {
		return capabilities.Secret{}, errShort
	}
	value, err := v.aead.Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], bind)
	if err != nil {
		return capabilities.Secret{}, err
	}
	return capabilities.NewSecret(value), nil
}
