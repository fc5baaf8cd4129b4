package link

import (
	"context"
	"errors"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Accept sends the node's key for a secret and waits for what the gateway seals to
// it, at most until ctx ends. CodeNodeDisconnected if the gateway went away.
func (s *sink) Accept(ctx context.Context, a wire.Accept) (*wire.Sealed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answered || s.accepted {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "a call accepts a secret once, before its answer")
	}
	s.accepted = true
	_ = s.stream.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := wire.Write(s.stream, &a); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeNodeDisconnected, err, "The gateway went away before it sent the secret.")
	}
	_ = s.stream.SetReadDeadline(time.Now().Add(ticketTimeout))
	defer context.AfterFunc(ctx, func() { _ = s.stream.SetReadDeadline(time.Now()) })()
	s.reader.Accept(wire.KindSealed)
	m, err := s.reader.Next()
	if err != nil {
		var refused *capabilities.Error
		if errors.As(err, &refused) {
			return nil, err
		}
		return nil, capabilities.Wrap(capabilities.CodeNodeDisconnected, err, "The gateway did not send the secret.")
	}
	return m.(*wire.Sealed), nil
}
