package passkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"

	"github.com/fxamacker/cbor/v2"
)

// The kinds of keys that authenticators may make, as COSE names them (RFC 9053): ECDSA
// with P-256 and SHA-256, Ed25519, RSA PKCS #1 v1.5 with SHA-256.
const (
	algES256 = -7
	algEdDSA = -8
	algRS256 = -257
)

var algorithms = [...]int{algES256, algEdDSA, algRS256}

// publicKey is an authenticator's, ready to verify.
type publicKey struct{ key crypto.PublicKey }

// readKey reads a COSE key (RFC 9052 section 7) of one of those kinds.
func readKey(b []byte) (publicKey, error) {
	bad := refused("its key is of no kind that was asked for")
	mode, err := decoding()
	if err != nil {
		return publicKey{}, err
	}
	var fields map[int64]cbor.RawMessage
	if mode.Unmarshal(b, &fields) != nil {
		return publicKey{}, bad
	}
	number := func(label int64) int64 {
		var n int64
		if mode.Unmarshal(fields[label], &n) != nil {
			return 0
		}
		return n
	}
	text := func(label int64) []byte {
		var s []byte
		if mode.Unmarshal(fields[label], &s) != nil {
			return nil
		}
		return s
	}
	const kind, alg, curve, x, y, modulus, exponent = 1, 3, -1, -2, -3, -1, -2
	switch k, a := number(kind), number(alg); {
	case k == 2 && a == algES256 && number(curve) == 1 && len(text(x)) == 32 && len(text(y)) == 32:
		point := append(append([]byte{4}, text(x)...), text(y)...)
		if key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err == nil {
			return publicKey{key}, nil
		}
	case k == 1 && a == algEdDSA && number(curve) == 6 && len(text(x)) == ed25519.PublicKeySize:
		return publicKey{ed25519.PublicKey(text(x))}, nil
	case k == 3 && a == algRS256 && len(text(modulus)) >= 256 && len(text(modulus)) <= 512:
		e := new(big.Int).SetBytes(text(exponent))
		if e.IsInt64() && e.Int64() == 65537 { // what authenticators use
			return publicKey{&rsa.PublicKey{N: new(big.Int).SetBytes(text(modulus)), E: 65537}}, nil
		}
	}
	return publicKey{}, bad
}

// verify reports whether the key signed data.
func (k publicKey) verify(data, signature []byte) bool {
	sum := sha256.Sum256(data)
	switch key := k.key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, data, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
