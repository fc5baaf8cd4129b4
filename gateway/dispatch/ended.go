package dispatch

import (
	"context"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Ended is the cause of a context by which somebody ends a call on purpose: its result
// is Err, and the ledger says beside it who it was.
type Ended struct {
	By  packet.Ender
	Err *capabilities.Error // of CodeCancelled
}

func (e *Ended) Error() string { return e.Err.Error() }

// Unwrap gives what the result is.
func (e *Ended) Unwrap() error { return e.Err }

// endedBy says who ended c on purpose, of a result with that code.
func (d *Dispatcher) endedBy(c *call, code capabilities.Code) packet.Ender {
	if code != capabilities.CodeCancelled || c.life == nil || c.life.Err() == nil {
		return ""
	}
	cause := context.Cause(c.life)
	var on *Ended
	var other *capabilities.Error
	switch {
	case errors.As(cause, &on):
		return on.By
	case errors.As(cause, &other), !errors.Is(cause, context.Canceled), c.req.task != "", c.isStep():
		return "" // what ended it says why, or it was the gateway that waited
	}
	select {
	case <-d.serving.Done(): // so does every request with the gateway
		return ""
	default:
		return packet.ByCaller
	}
}
