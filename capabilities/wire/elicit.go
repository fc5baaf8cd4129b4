package wire

import (
	"errors"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/capabilities/sealed"
)

// MaxElicits bounds how often a person is asked something for one call.
const MaxElicits = 8

// Elicit asks a person for what the program that carries a call out wants to know. On the call
// stream, node to gateway, once its ticket says Elicits; before the Answer, several at once.
type Elicit struct {
	// Number counts what a call asks from 1, hosts too; each is larger than the one before.
	Number uint32 `cbor:"1,keyasint"`
	// Form is what is asked, as form.Decode reads it.
	Form []byte `cbor:"2,keyasint"`
	Key  []byte `cbor:"3,keyasint"` // X25519, for this answer alone
}

// Elicited answers an Elicit. On the call stream, gateway to node, in any order.
type Elicited struct {
	Number uint32                `cbor:"1,keyasint"`
	Action capabilities.Elicited `cbor:"2,keyasint"`
	// Sealed is what was filled in, sealed to the key as capabilities/sealed says; only with
	// capabilities.ElicitAccept.
	Sealed []byte `cbor:"3,keyasint,omitempty"`
}

// Kind is KindElicit.
func (*Elicit) Kind() Kind { return KindElicit }

// Kind is KindElicited.
func (*Elicited) Kind() Kind { return KindElicited }

func (e *Elicit) check() error {
	switch {
	case e.Number == 0 || e.Number > maxAsked:
		return fmt.Errorf("number must be 1 to %d", maxAsked)
	case len(e.Form) == 0 || len(e.Form) > form.MaxBytes:
		return fmt.Errorf("a form has 1 to %d bytes", form.MaxBytes)
	case len(e.Key) != sealed.KeySize:
		return fmt.Errorf("key must be %d bytes", sealed.KeySize)
	}
	return nil
}

func (e *Elicited) check() error {
	switch {
	case e.Number == 0 || e.Number > maxAsked:
		return fmt.Errorf("number must be 1 to %d", maxAsked)
	case e.Action != capabilities.ElicitAccept && e.Action != capabilities.ElicitDecline && e.Action != capabilities.ElicitCancel:
		return errors.New("an answer accepts, declines or cancels")
	case (len(e.Sealed) > 0) != (e.Action == capabilities.ElicitAccept) || len(e.Sealed) > sealed.MaxSize:
		return errors.New("what was filled in comes with an acceptance, and with nothing else")
	}
	return nil
}
