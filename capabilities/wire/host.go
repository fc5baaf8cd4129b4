package wire

import (
	"errors"
	"fmt"
	"net"

	"github.com/handrail-dev/handrail/capabilities"
)

// MaxHostAsks bounds about how many hosts a person is asked for one call.
const MaxHostAsks = 5

// maxAsked bounds the numbers of all that is asked for one call.
const maxAsked = MaxElicits + MaxHostAsks

// HostAsk asks whether a call may connect to a host that it was not granted. On the call stream,
// node to gateway, once its ticket says AsksHosts; before the Answer, several at once.
type HostAsk struct {
	// Number counts what a call asks from 1, forms too; each is larger than the one before.
	Number uint32 `cbor:"1,keyasint"`
	Target string `cbor:"2,keyasint"` // "host:port", fit for a key (capabilities.NarrowDomains)
}

// HostAnswer answers a HostAsk. On the call stream, gateway to node, in any order.
type HostAnswer struct {
	Number uint32 `cbor:"1,keyasint"`
	// Envelope is the call's with the host as a one-time addition; empty: it may not connect.
	Envelope []byte `cbor:"2,keyasint,omitempty"`
	// Code says why it may not: CodeConsentDenied, CodeDeniedByPolicy, or CodeConsentUnavailable
	// where nobody answered.
	Code capabilities.Code `cbor:"3,keyasint,omitempty"`
}

// Kind is KindHostAsk.
func (*HostAsk) Kind() Kind { return KindHostAsk }

// Kind is KindHostAnswer.
func (*HostAnswer) Kind() Kind { return KindHostAnswer }

func (h *HostAsk) check() error {
	host, port, err := net.SplitHostPort(h.Target)
	switch {
	case h.Number == 0 || h.Number > maxAsked:
		return fmt.Errorf("number must be 1 to %d", maxAsked)
	case err != nil || host == "" || port == "" || !capabilities.FitsHost(h.Target):
		return errors.New("target must be a host with its port")
	}
	return nil
}

func (h *HostAnswer) check() error {
	switch {
	case h.Number == 0 || h.Number > maxAsked:
		return fmt.Errorf("number must be 1 to %d", maxAsked)
	case len(h.Envelope) > MaxEnvelope:
		return fmt.Errorf("envelope is larger than %d bytes", MaxEnvelope)
	case (len(h.Envelope) == 0) != (h.Code != "") || len(h.Code) > maxName:
		return errors.New("an answer has either an envelope or a code")
	}
	return nil
}
