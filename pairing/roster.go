package pairing

import "github.com/handrail-dev/handrail/capabilities"

// State is where a node stands in the roster. The roster, not a certificate,
// says who is in.
type State string

// The states. The zero value is none: a node that is not in the roster.
const (
	StateNone     State = ""
	StatePending  State = "pending"
	StateApproved State = "approved"
	StateDenied   State = "denied"
	StateRevoked  State = "revoked"
)

// transitions holds every legal step. Denied and revoked are final: the device
// joins anew, with a new paste and under a new ID, so that no old permission
// comes back to life.
var transitions = map[State][]State{
	StateNone:     {StatePending, StateApproved},
	StatePending:  {StateApproved, StateDenied},
	StateApproved: {StateRevoked},
}

// ParseState returns the state named s.
func ParseState(s string) (State, error) {
	switch st := State(s); st {
	case StatePending, StateApproved, StateDenied, StateRevoked:
		return st, nil
	}
	return StateNone, capabilities.Errorf(capabilities.CodeInvalidRequest, "state must be pending, approved, denied or revoked")
}

// Become returns an error unless the step to next is legal.
func (s State) Become(next State) error {
	for _, to := range transitions[s] {
		if to == next {
			return nil
		}
	}
	return capabilities.Errorf(capabilities.CodeConflict, "a node that is %s cannot become %s", s.orNone(), next.orNone())
}

// Code returns the code a device in this state is answered with, "" for approved.
func (s State) Code() capabilities.Code {
	switch s {
	case StateApproved:
		return ""
	case StatePending:
		return capabilities.CodePairingPending
	case StateDenied:
		return capabilities.CodePairingDenied
	case StateRevoked:
		return capabilities.CodeNodeRevoked
	}
	return capabilities.CodeNodeNotPaired
}

func (s State) orNone() string {
	if s == StateNone {
		return "not in the roster"
	}
	return string(s)
}
