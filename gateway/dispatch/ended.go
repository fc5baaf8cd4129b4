package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Ended is the cause of a context by which somebody ends a call on purpose: its result is
// Err, and the ledger says beside it who it was.
//
//lint:ignore errname it is a cause that ends a call, not a failure
type Ended struct {
	By  packet.Ender
	Err *capabilities.Error // of CodeCancelled, or what NoToken returns
}

func (e *Ended) Error() string { return e.Err.Error() }

// Unwrap returns what the result is.
func (e *Ended) Unwrap() error { return e.Err }

// NoToken is why the calls of a token end that is good no longer: nobody cancelled them.
func NoToken() *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeUnauthenticated, "The token of the caller was revoked, which ended the call.").
		WithHint("Look at what it did before repeating it with another token.")
}

// endedBy says who ended the execution of ctx, which is t's, on purpose, for a result with
// that code.
func (d *Dispatcher) endedBy(ctx context.Context, t *trail, code capabilities.Code) packet.Ender {
	if ctx.Err() == nil {
		return ""
	}
	cause := context.Cause(ctx)
	var on *Ended
	var other *capabilities.Error
	switch {
	case errors.As(cause, &on) && on.Err.Code == code:
		return on.By
	case code != capabilities.CodeCancelled:
		return ""
	case errors.As(cause, &other), !errors.Is(cause, context.Canceled), t.own:
		return "" // what ended it says why, or it was the gateway that waited
	}
	if d.admitting.Err() != nil {
		return "" // so does every request with the gateway
	}
	return packet.ByCaller
}

// endWait is how long a caller whose call was ended on purpose waits to be told what became
// of it.
const endWait = 2 * time.Second

// left is the result for a caller whose context ended while x ran: what x ended with, if
// somebody ended it on purpose and so the caller may still be there, and says no more than
// that it ended.
func left(ctx context.Context, t *trail, x *execution.Execution) capabilities.Result {
	var on *Ended
	if !errors.As(context.Cause(ctx), &on) {
		return t.failure(&capabilities.Error{Code: capabilities.CodeCancelled})
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	if r, ended := x.Result(bounded); ended && r.Code == on.Err.Code {
		return r
	}
	return t.failure(on.Err)
}
