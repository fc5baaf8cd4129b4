package sealed

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// KeySize is the size of a public key in bytes (X25519).
const KeySize = 32

// block is what a value is padded to a multiple of, so that what is on the wire
// does not tell how long a password is.
const block = 256

// MaxSize bounds what Seal returns: encapsulated key, padded value with its length, and tag.
const MaxSize = KeySize + capabilities.MaxSecret + 2*block + 16

// Binding is what a sealed value cannot be moved away from.
type Binding struct {
	Node     capabilities.NodeID
	Call     capabilities.CallID
	Tool     capabilities.ToolID
	Envelope []byte   // the decision: the envelope's bytes as the ticket has them
	Grants   []string // as the ticket has them, a person's among them
}

// info is the HPKE info: every part behind its length, so that no two bindings are
// the same bytes.
func (b *Binding) info() []byte {
	out := []byte("handrail secret delivery 1")
	put := func(part []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	put([]byte(b.Node))
	put([]byte(b.Call))
	put([]byte(b.Tool))
	put(b.Envelope)
	for _, g := range b.Grants {
		put([]byte(g))
	}
	return out
}

// Key is a node's key for one delivery.
type Key struct {
	mu      sync.Mutex
	private hpke.PrivateKey // nil once used
	public  []byte
}

// NewKey makes a Key.
func NewKey() (*Key, error) {
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return &Key{private: private, public: private.PublicKey().Bytes()}, nil
}

// Public returns what the other side seals to.
func (k *Key) Public() []byte { return k.public }

var (
	errUsed = errors.New("the key was used already")
	errForm = errors.New("what was sealed does not have the form of a secret")
)

// Open returns the value that was sealed to this key under the same binding. It works
// once, whether it succeeds or not. Errors are CodeTicketInvalid.
func (k *Key) Open(b Binding, sealed []byte) (capabilities.Secret, error) {
	k.mu.Lock()
	private := k.private
	k.private = nil
	k.mu.Unlock()
	refuse := func(cause error) (capabilities.Secret, error) {
		return capabilities.Secret{}, capabilities.Wrap(capabilities.CodeTicketInvalid, cause, "The sealed secret is not for this call.")
	}
	if private == nil {
		return refuse(errUsed)
	}
	if len(sealed) > MaxSize {
		return refuse(errForm)
	}
	padded, err := hpke.Open(private, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), b.info(), sealed)
	if err != nil {
		return refuse(err)
	}
	if len(padded) < 4 || uint64(binary.BigEndian.Uint32(padded)) > uint64(len(padded)-4) {
		return refuse(errForm)
	}
	n := int(binary.BigEndian.Uint32(padded))
	if n == 0 || n > capabilities.MaxSecret {
		return refuse(errForm)
	}
	return capabilities.NewSecret(padded[4 : 4+n : 4+n]), nil
}

// Seal encrypts a value to a node's key for one call. CodeTicketInvalid for bytes
// that are no key.
func Seal(public []byte, b Binding, s capabilities.Secret) ([]byte, error) {
	key, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(public)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeTicketInvalid, err, "The node's key for this delivery is no key.")
	}
	value := s.Reveal()
	if len(value) == 0 || len(value) > capabilities.MaxSecret {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a secret has 1 to %d bytes", capabilities.MaxSecret)
	}
	padded := make([]byte, (4+len(value)+block-1)/block*block)
	defer clear(padded)
	binary.BigEndian.PutUint32(padded, uint32(len(value)))
	copy(padded[4:], value)
	sealed, err := hpke.Seal(key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), b.info(), padded)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return sealed, nil
}
