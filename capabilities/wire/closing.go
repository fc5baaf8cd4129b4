package wire

import "github.com/handrail-dev/handrail/capabilities"

// CloseCode is the application error code with which a connection is closed. It
// arrives authenticated, which is why a revocation needs no frame of its own.
type CloseCode uint64

// The close codes. Append only.
const (
	CloseDone        CloseCode = 0 // the side that closes is going away on purpose
	CloseProtocol    CloseCode = 1 // the other side broke the protocol
	CloseRevoked     CloseCode = 2
	CloseDenied      CloseCode = 3
	CloseVersion     CloseCode = 4
	CloseTakenOver   CloseCode = 5 // a newer connection of the same node is there
	CloseOverloaded  CloseCode = 6
	CloseNotInRoster CloseCode = 7 // a certificate of this site, but no such node
	CloseInternal    CloseCode = 8
	CloseHeartbeat   CloseCode = 9 // no heartbeat (or no answer to it) for too long
	CloseJoined      CloseCode = 10
	CloseStaleKey    CloseCode = 11 // the key was rotated away
	CloseSuperseded  CloseCode = 12 // the gateway is an older copy of its site
)

// Code returns the public code for a close, CodeNodeDisconnected for those that a
// new attempt may mend.
func (c CloseCode) Code() capabilities.Code {
	switch c {
	case CloseRevoked, CloseStaleKey:
		return capabilities.CodeNodeRevoked
	case CloseNotInRoster:
		return capabilities.CodeNodeNotPaired
	case CloseDenied:
		return capabilities.CodePairingDenied
	case CloseVersion:
		return capabilities.CodeVersionSkew
	case CloseOverloaded:
		return capabilities.CodeOverloaded
	case CloseSuperseded:
		return capabilities.CodeSiteSuperseded
	case CloseProtocol:
		return capabilities.CodeInvalidRequest
	}
	return capabilities.CodeNodeDisconnected
}

// Permanent reports whether trying again cannot help until a person acts.
func (c CloseCode) Permanent() bool {
	switch c {
	case CloseRevoked, CloseDenied, CloseVersion, CloseNotInRoster, CloseStaleKey:
		return true
	}
	return false
}

// Stream reset codes.
const (
	// ResetCancelled: the caller gave up. Both directions are reset with it.
	ResetCancelled = 1
	// ResetRefused, from the node: the ticket was read but the call surely never
	// started.
	ResetRefused = 2
	// ResetProtocol: the other side broke the protocol on this stream.
	ResetProtocol = 3
	// ResetDone: everything wanted was read; the rest may be dropped.
	ResetDone = 4
)
