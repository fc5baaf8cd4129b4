package desktop

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Why a call's context ended.
var (
	errClosing = capabilities.Errorf(capabilities.CodeDesktopUnavailable, "The node is shutting down.").
			WithHint("Try again when it is back, or choose another node.")
	errStopKeys = capabilities.Errorf(capabilities.CodeStopped, "The person at the device pressed the stop keys.")
)

// explain turns any failure of a call into a coded error. Texts of the system
// stay private: they may quote what is on the screen.
func explain(ctx context.Context, err error) *capabilities.Error {
	var coded *capabilities.Error
	if errors.As(err, &coded) {
		return coded
	}
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &coded) {
		return coded
	}
	var lacks *platform.MissingError
	var condition platform.DesktopError
	switch {
	case errors.As(err, &lacks):
		return capabilities.Errorf(capabilities.CodeDesktopUnavailable, "%s", lacks.What).WithHint(lacks.Fix)
	case errors.As(err, &condition):
		switch condition {
		case platform.ErrGone:
			return capabilities.Wrap(capabilities.CodeStaleRef, err, "The window or element of this call is gone.")
		case platform.ErrHung:
			return capabilities.Wrap(capabilities.CodeAppHung, err, "")
		case platform.ErrCannot:
			return capabilities.Wrap(capabilities.CodeActionUnsupported, err, "")
		case platform.ErrUntypable:
			return capabilities.Wrap(capabilities.CodeTextUntypable, err, "")
		case platform.ErrLost:
			return capabilities.Wrap(capabilities.CodeDesktopUnavailable, err, "The connection to the desktop was lost during the call.").
				WithHint("Call again: it is opened anew. Look at the desktop first, the call may have been carried out in part.")
		}
	case errors.Is(err, context.DeadlineExceeded):
		return capabilities.Wrap(capabilities.CodeDeadlineExceeded, err, "The desktop did not answer in time.").
			WithHint("An application may be busy: look again, or give a larger timeout_ms.")
	case errors.Is(err, context.Canceled):
		return capabilities.Wrap(capabilities.CodeCancelled, err, "")
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The desktop refused a step of this call.").
		WithHint("Take a screenshot or a snapshot to see the present state.")
}
