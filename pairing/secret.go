package pairing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
)

const secretBytes = 20 // 160 bits: no guessing, so no PAKE is needed

// Secret is what a paste carries, or the key made from it. No way of printing,
// logging or marshalling shows it. The zero value is none.
type Secret struct {
	// Behind a function, because fmt prints unexported fields without asking their
	// methods, follows pointers when a verb does not fit, and never calls anything.
	reveal func() []byte
}

const hidden = "[secret]"

// NewSecret makes a one-time secret.
func NewSecret() Secret {
	b := make([]byte, secretBytes)
	rand.Read(b) // never fails (crypto/rand)
	return secretFrom(b)
}

// secretFrom takes b over.
func secretFrom(b []byte) Secret { return Secret{func() []byte { return b }} }

func (s Secret) bytes() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.reveal == nil }

// Equal compares in constant time.
func (s Secret) Equal(o Secret) bool { return hmac.Equal(s.bytes(), o.bytes()) }

// Invite returns the ID of the invitation: a hash, so that it names the secret
// without saying it.
func (s Secret) Invite() InviteID {
	sum := sha256.Sum256(append([]byte("handrail invite\x00"), s.bytes()...))
	return InviteID(format(kindInvite, sum[:nodeBytes]))
}

// signer is the key that a device proves itself with. It is made of the paste, and only
// who has the paste has it.
func (s Secret) signer() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(mac(s.bytes(), "handrail paste signer"))
}

// ProofKey returns what the gateway keeps of a paste. It tells whether a device has the
// paste, and nobody can join with it: a copy of the store lets nobody in.
func (s Secret) ProofKey() ProofKey {
	public := s.signer().Public().(ed25519.PublicKey)
	return ProofKey{secretFrom(append(bytes.Clone(public), mac(s.bytes(), "handrail paste answer")...))}
}

// ProofKey checks a device's proof that it has the paste, and makes the gateway's own: the
// public half of the paste's key, and a key of the answers.
type ProofKey struct{ secret Secret }

const proofKeyBytes = ed25519.PublicKeySize + sha256.Size

func (k ProofKey) public() ed25519.PublicKey {
	if k.secret.IsZero() {
		return make(ed25519.PublicKey, ed25519.PublicKeySize)
	}
	return k.secret.bytes()[:ed25519.PublicKeySize]
}

func (k ProofKey) answers() []byte {
	if k.secret.IsZero() {
		return nil
	}
	return k.secret.bytes()[ed25519.PublicKeySize:]
}

// Seal returns the bytes to keep in the store: the one place a key leaves by.
func (k ProofKey) Seal() []byte { return append([]byte(nil), k.secret.bytes()...) }

// OpenProofKey reads what Seal returned.
func OpenProofKey(b []byte) (ProofKey, error) {
	if len(b) != proofKeyBytes {
		return ProofKey{}, fmt.Errorf("a proof key has %d bytes, not %d", proofKeyBytes, len(b))
	}
	return ProofKey{secretFrom(append([]byte(nil), b...))}, nil
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		// Length first, so that no two lists of parts are the same bytes.
		var n [4]byte
		n[0], n[1], n[2], n[3] = byte(len(p)>>24), byte(len(p)>>16), byte(len(p)>>8), byte(len(p))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// String hides the secret.
func (Secret) String() string { return hidden }

// GoString hides the secret.
func (Secret) GoString() string { return hidden }

// Format hides the secret whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText hides the secret, in JSON too.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalBinary hides the secret, in gob too.
func (Secret) MarshalBinary() ([]byte, error) { return []byte(hidden), nil }

var (
	_ fmt.Formatter  = Secret{}
	_ slog.LogValuer = Secret{}
)
