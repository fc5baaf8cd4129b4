package link

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// What a held ticket is, agent/runner/hold.go says. This is the connection's part: how many
// may wait at once, and the waiting for the word.

const (
	// holdTime bounds how long a held ticket waits for its word: as long as a ticket
	// may lie before it starts.
	holdTime = 10 * time.Second
	// maxHeld bounds the held tickets that wait at once, whatever gateway sent them; ours
	// uses a quarter of it. A frame of theirs is at most 112 KiB (wire.MaxHeld of
	// arguments, the envelope, the rest), so that is 3.5 MiB. One more is refused
	// (wire.ResetRefused). Of those that never run, the journal bounds the records.
	maxHeld = 32
)

// hold counts a held ticket in; ok is false if there are enough. unhold counts it out and
// may be called often. Of a ticket that is not held both say nothing.
func (l *Link) hold(t *wire.Ticket) (unhold func(), ok bool) {
	if !t.Held {
		return func() {}, true
	}
	unhold = sync.OnceFunc(func() { l.held.Add(-1) })
	if l.held.Add(1) > maxHeld {
		unhold()
		return nil, false
	}
	return unhold, true
}

// Go waits for the gateway's word that a held ticket may run, at most until ctx ends
// and holdTime is over. With an error it never runs. Where the stream then still
// stands, because it is this node that ended the call (CodeTicketExpired if the word
// did not come in time), the answer says why; else the stream is reset with the word
// that nothing started.
func (s *sink) Go(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.unhold()
	_ = s.stream.SetReadDeadline(time.Now().Add(holdTime))
	stays := context.AfterFunc(ctx, func() { _ = s.stream.SetReadDeadline(time.Now()) })
	s.reader.Accept(wire.KindGo)
	_, err := s.reader.Next()
	if stays(); err == nil {
		return nil
	}
	code := capabilities.CodeCancelled
	switch stands := s.stream.Context().Err() == nil; {
	case stands && ctx.Err() != nil:
	case stands && errors.Is(err, os.ErrDeadlineExceeded):
		code = capabilities.CodeTicketExpired
	default:
		s.answered = true
		s.before()
		s.stream.CancelRead(wire.ResetRefused)
		s.stream.CancelWrite(wire.ResetRefused)
	}
	return capabilities.Wrap(code, err, "")
}
