package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// quietFor is how long a log says nothing more of a kind of event about a disk that
// takes nothing: the log may lie on that very disk.
const quietFor = time.Minute

// quiet is a log that says of records which could not be written once a minute, for each
// kind of event, that it is so, and how many were left out.
type quiet struct {
	slog.Handler
	said *said
}

// said is when each kind of event was said last.
type said struct {
	mu    sync.Mutex
	kinds map[string]*saidOf
}

type saidOf struct {
	last time.Time
	more int // left out since
}

func newQuiet(h slog.Handler) quiet { return quiet{h, &said{kinds: map[string]*saidOf{}}} }

// Handle passes a record on, unless one of its kind has just been said.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	full := false
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		full = is && capabilities.CodeOf(err) == capabilities.CodeLedgerUnavailable
		return !full
	})
	if !full {
		return q.Handler.Handle(ctx, r)
	}
	more, pass := q.said.pass(r.Message, r.Time)
	if !pass {
		return nil
	}
	if more > 0 {
		r.AddAttrs(slog.Int("left_out", more))
	}
	return q.Handler.Handle(ctx, r)
}

// pass reports whether a kind of event may be said again, and how often it was not.
func (s *said) pass(kind string, now time.Time) (more int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.kinds[kind] // as many as there are words for events in this program
	if of == nil {
		of = &saidOf{}
		s.kinds[kind] = of
	}
	if !of.last.IsZero() && now.Sub(of.last) < quietFor {
		of.more++
		return 0, false
	}
	more, of.last, of.more = of.more, now, 0
	return more, true
}

// WithAttrs keeps what was said.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.said}
}

// WithGroup keeps what was said.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name), q.said} }
