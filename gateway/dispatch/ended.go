package dispatch

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Ended is the cause of a context by which somebody ends a call on purpose: its result is
// Err, and the ledger says beside it who it was.
//
//lint:ignore errname it is a cause that ends a call, not a failure
type Ended struct {
	By  packet.Ender
	Err *capabilities.Error // of CodeCancelled
}

func (e *Ended) Error() string { return e.Err.Error() }

// Unwrap returns what the result is.
func (e *Ended) Unwrap() error { return e.Err }

// endedBy says who ended the execution of ctx, which is t's, on purpose, for a result with
// that code.
func (d *Dispatcher) endedBy(ctx context.Context, t *trail, code capabilities.Code) packet.Ender {
	if code != capabilities.CodeCancelled || ctx.Err() == nil {
		return ""
	}
	cause := context.Cause(ctx)
	var on *Ended
	var other *capabilities.Error
	switch {
	case errors.As(cause, &on):
		return on.By
	case errors.As(cause, &other), !errors.Is(cause, context.Canceled), t.own:
		return "" // what ended it says why, or it was the gateway that waited
	}
	if d.serving.Err() != nil {
		return "" // so does every request with the gateway
	}
	return packet.ByCaller
}
