package wire

import (
	"fmt"

	"github.com/handrail-dev/handrail/capabilities/sealed"
)

// Accept is the node's word that it will carry out a ticket that needs a secret,
// with the key to seal that to (S0-40, S0-41): nothing is resolved before. On the
// call stream, node to gateway, at most once, before Progress and Answer.
type Accept struct {
	Key []byte `cbor:"1,keyasint"` // X25519, for this call alone
}

// Sealed is the secret, sealed as capabilities/sealed says. On the call stream,
// gateway to node, in answer to Accept.
type Sealed struct {
	Bytes []byte `cbor:"1,keyasint"`
}

// Kind is KindAccept.
func (*Accept) Kind() Kind { return KindAccept }

// Kind is KindSealed.
func (*Sealed) Kind() Kind { return KindSealed }

func (a *Accept) check() error {
	if len(a.Key) != sealed.KeySize {
		return fmt.Errorf("key must be %d bytes", sealed.KeySize)
	}
	return nil
}

func (s *Sealed) check() error {
	if len(s.Bytes) == 0 || len(s.Bytes) > sealed.MaxSize {
		return fmt.Errorf("bytes must be 1 to %d", sealed.MaxSize)
	}
	return nil
}
