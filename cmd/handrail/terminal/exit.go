package terminal

import (
	"context"
	"errors"
	"net"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Exit codes. Scripts rely on them; docs/cli.md lists them.
const (
	ExitOK          = 0
	ExitFailed      = 1 // the work failed
	ExitUsage       = 2 // the command line or the arguments are wrong
	ExitDenied      = 3 // policy, the device's owner or a person said no
	ExitUnreachable = 4 // the gateway or the node cannot be reached, or is not ready
	ExitForbidden   = 5 // no valid token, or its role does not allow it
	ExitPending     = 6 // it waits for a person
	ExitIntegrity   = 7 // the ledger does not verify
	ExitInterrupted = 130
)

// ExitError carries an exit code that differs from that of the error's own code.
type ExitError struct {
	Code   int
	Err    error
	Silent bool // the command has already said what is wrong
	Final  bool // the code is another program's: an interruption does not change it
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// UsageError marks a wrong command line.
func UsageError(format string, args ...any) error { return UsageHint("See --help.", format, args...) }

// TooShort refuses a time of less than a second, which no request can say.
func TooShort(flag string) error { return UsageError("%s must be at least a second", flag) }

// UsageHint is UsageError with what is right.
func UsageHint(hint, format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...).WithHint(hint)}
}

// ExitCodes maps the closed list of codes; what is absent ends with ExitFailed.
// A test holds it against capabilities.Codes.
var ExitCodes = map[capabilities.Code]int{
	capabilities.CodeInvalidRequest:   ExitUsage,
	capabilities.CodeInvalidArguments: ExitUsage,
	capabilities.CodeUnknownTool:      ExitUsage,
	capabilities.CodeBodyTooLarge:     ExitUsage,
	capabilities.CodePasteInvalid:     ExitUsage,

	capabilities.CodeNodeDeniedByPolicy:       ExitDenied,
	capabilities.CodeCapabilityNotAllowlisted: ExitDenied,
	capabilities.CodeDeniedByPolicy:           ExitDenied,
	capabilities.CodeConsentUnavailable:       ExitDenied,
	capabilities.CodeConsentDenied:            ExitDenied,
	capabilities.CodeIsolationUnavailable:     ExitDenied,
	capabilities.CodeToolRestricted:           ExitDenied,
	capabilities.CodeRunnerQuarantined:        ExitDenied,
	capabilities.CodeStopped:                  ExitDenied,
	capabilities.CodeDeniedByNode:             ExitDenied,
	capabilities.CodeURLBlocked:               ExitDenied,
	capabilities.CodePairingDenied:            ExitDenied,
	capabilities.CodeNodeRevoked:              ExitDenied,

	capabilities.CodeNodeDisconnected: ExitUnreachable,
	capabilities.CodeNodeNotReady:     ExitUnreachable,

	capabilities.CodeUnauthenticated: ExitForbidden,
	capabilities.CodeForbidden:       ExitForbidden,
	capabilities.CodeHandsElsewhere:  ExitForbidden,
	capabilities.CodeOriginRefused:   ExitForbidden,
	capabilities.CodeBackupLocked:    ExitForbidden,

	capabilities.CodeApprovalPending: ExitPending,
	capabilities.CodePairingPending:  ExitPending,

	capabilities.CodeLedgerCorrupt:  ExitIntegrity,
	capabilities.CodeSiteMismatch:   ExitIntegrity,
	capabilities.CodeBackupDamaged:  ExitIntegrity,
	capabilities.CodeSiteSuperseded: ExitIntegrity,
}

// ExitCode returns the process's exit code for err.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var own *ExitError
	if errors.As(err, &own) {
		return own.Code
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	var coded *capabilities.Error
	if errors.As(err, &coded) && coded.Code == capabilities.CodeAmbiguousNode {
		return noNodeExit(capabilities.DetailsOf[route.Ambiguity](coded).Reason)
	}
	if code, ok := ExitCodes[capabilities.CodeOf(err)]; ok {
		return code
	}
	if coded == nil && unreached(err) {
		return ExitUnreachable
	}
	return ExitFailed
}

// unreached reports that nothing listens where something was called.
func unreached(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// noNodeExit returns the exit code where no node was selected: to be denied on every node
// is a refusal; several of which none was named are a plain failure; else none is there
// that could do it now.
func noNodeExit(why route.Why) int {
	switch why {
	case route.WhyDenied:
		return ExitDenied
	case route.WhyNoNode, route.WhyNotReady, route.WhyMixed:
		return ExitUnreachable
	}
	return ExitFailed
}
