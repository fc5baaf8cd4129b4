package main

import (
	"context"
	"errors"
	"net"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Exit codes. Scripts rely on them; docs/cli.md lists them.
const (
	exitOK          = 0
	exitFailed      = 1 // the work failed
	exitUsage       = 2 // the command line or the arguments are wrong
	exitDenied      = 3 // policy, the device's owner or a person said no
	exitUnreachable = 4 // the gateway or the node cannot be reached, or is not ready
	exitForbidden   = 5 // no valid token, or its role does not allow it
	exitPending     = 6 // it waits for a person
	exitIntegrity   = 7 // the ledger does not verify
	exitInterrupted = 130
)

// exitError carries an exit code that differs from that of the error's own code.
type exitError struct {
	code   int
	err    error
	silent bool // the command has already said what is wrong
	final  bool // the code is another program's: an interruption does not change it
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError marks a wrong command line.
func usageError(format string, args ...any) error { return usageHint("See --help.", format, args...) }

// errShort refuses a time of less than a second, which no request can say.
func errShort(flag string) error { return usageError("%s must be at least a second", flag) }

// usageHint is usageError with what is right.
func usageHint(hint, format string, args ...any) error {
	return &exitError{code: exitUsage, err: capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...).WithHint(hint)}
}

// exitCodes maps the closed list of codes; what is absent ends with exitFailed.
// A test holds it against capabilities.Codes.
var exitCodes = map[capabilities.Code]int{
	capabilities.CodeInvalidRequest:   exitUsage,
	capabilities.CodeInvalidArguments: exitUsage,
	capabilities.CodeUnknownTool:      exitUsage,
	capabilities.CodeBodyTooLarge:     exitUsage,
	capabilities.CodePasteInvalid:     exitUsage,

	capabilities.CodeNodeDeniedByPolicy:       exitDenied,
	capabilities.CodeCapabilityNotAllowlisted: exitDenied,
	capabilities.CodeDeniedByPolicy:           exitDenied,
	capabilities.CodeConsentUnavailable:       exitDenied,
	capabilities.CodeConsentDenied:            exitDenied,
	capabilities.CodeIsolationUnavailable:     exitDenied,
	capabilities.CodeToolRestricted:           exitDenied,
	capabilities.CodeRunnerQuarantined:        exitDenied,
	capabilities.CodeStopped:                  exitDenied,
	capabilities.CodeDeniedByNode:             exitDenied,
	capabilities.CodeURLBlocked:               exitDenied,
	capabilities.CodePairingDenied:            exitDenied,
	capabilities.CodeNodeRevoked:              exitDenied,

	capabilities.CodeNodeDisconnected: exitUnreachable,
	capabilities.CodeNodeNotReady:     exitUnreachable,

	capabilities.CodeUnauthenticated: exitForbidden,
	capabilities.CodeForbidden:       exitForbidden,
	capabilities.CodeHandsElsewhere:  exitForbidden,
	capabilities.CodeOriginRefused:   exitForbidden,

	capabilities.CodeApprovalPending: exitPending,
	capabilities.CodePairingPending:  exitPending,

	capabilities.CodeLedgerCorrupt: exitIntegrity,
	capabilities.CodeSiteMismatch:  exitIntegrity,
}

// exitCode returns the process's exit code for err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var own *exitError
	if errors.As(err, &own) {
		return own.code
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	var coded *capabilities.Error
	if errors.As(err, &coded) && coded.Code == capabilities.CodeAmbiguousNode {
		return noNodeExit(capabilities.DetailsOf[route.Ambiguity](coded).Reason)
	}
	if code, ok := exitCodes[capabilities.CodeOf(err)]; ok {
		return code
	}
	if coded == nil && unreached(err) {
		return exitUnreachable
	}
	return exitFailed
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
		return exitDenied
	case route.WhyNoNode, route.WhyNotReady, route.WhyMixed:
		return exitUnreachable
	}
	return exitFailed
}
