package wire

import (
	"errors"
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
)

// MaxSteps bounds the steps of one call.
const MaxSteps = 4096

// Step asks for a step of a running call: another call inside it, which the gateway
// judges and records as any other. On the parent's call stream, node to
// gateway, once its ticket says Steps; any number before the Answer, several at once.
type Step struct {
	// Number counts the steps of the parent from 1; each is larger than the one before.
	Number uint32              `cbor:"1,keyasint"`
	Tool   capabilities.ToolID `cbor:"2,keyasint"`
	// Args is a JSON object as a caller would send it; the gateway validates it.
	Args []byte `cbor:"3,keyasint"`
}

// StepOrder answers a Step: with a ticket, whose call is durable now, or with why there is
// none. On the call stream, gateway to node, in any order.
type StepOrder struct {
	Number  uint32            `cbor:"1,keyasint"`
	Ticket  *Ticket           `cbor:"2,keyasint,omitempty"`
	Code    capabilities.Code `cbor:"3,keyasint,omitempty"`
	Message string            `cbor:"4,keyasint,omitempty"` // at most 2 KiB
	Hint    string            `cbor:"5,keyasint,omitempty"` // at most 2 KiB
	Details []byte            `cbor:"6,keyasint,omitempty"` // JSON, at most MaxDetails
}

// StepEnd is how a step that had a ticket ended. Its answer has the sum of the output and
// the heads of the blobs, never their bytes: those stay with the parent's handler. On the
// call stream, node to gateway, before the parent's Answer.
type StepEnd struct {
	Number uint32 `cbor:"1,keyasint"`
	Answer Answer `cbor:"2,keyasint"`
}

// Kind is KindStep.
func (*Step) Kind() Kind { return KindStep }

// Kind is KindStepOrder.
func (*StepOrder) Kind() Kind { return KindStepOrder }

// Kind is KindStepEnd.
func (*StepEnd) Kind() Kind { return KindStepEnd }

func checkNumber(n uint32) error {
	if n == 0 || n > MaxSteps {
		return fmt.Errorf("number must be 1 to %d", MaxSteps)
	}
	return nil
}

func (s *Step) check() error {
	switch {
	case s.Tool == "" || len(s.Tool) > maxName:
		return fmt.Errorf("tool must be 1 to %d bytes", maxName)
	case len(s.Args) == 0 || len(s.Args) > MaxArgs:
		return fmt.Errorf("args must be 1 to %d bytes", MaxArgs)
	}
	return checkNumber(s.Number)
}

func (o *StepOrder) check() error {
	switch {
	case (o.Ticket == nil) == (o.Code == ""):
		return errors.New("an order has either a ticket or a code")
	case len(o.Code) > maxName || len(o.Message) > maxText || len(o.Hint) > maxText || len(o.Details) > MaxDetails:
		return errors.New("a text is too long")
	case o.Ticket != nil && (o.Ticket.Parent == "" || o.Ticket.Step != o.Number):
		return errors.New("the ticket is not of this step")
	}
	if o.Ticket != nil {
		if err := o.Ticket.check(); err != nil {
			return err
		}
	}
	return checkNumber(o.Number)
}

func (e *StepEnd) check() error {
	if len(e.Answer.Output) > 0 || len(e.Answer.Artifacts) > 0 {
		return errors.New("a step's output stays with its parent")
	}
	if err := e.Answer.check(); err != nil {
		return err
	}
	return checkNumber(e.Number)
}

// Clip shortens the texts of an order to what a frame may carry.
func (o *StepOrder) Clip() {
	o.Message, o.Hint = capabilities.Clip(o.Message, maxText), capabilities.Clip(o.Hint, maxText)
	if len(o.Details) > MaxDetails {
		o.Details = nil
	}
}
