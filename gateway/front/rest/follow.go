package rest

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

// followed is a thing as it is when it is looked at.
type followed struct {
	view  any
	over  bool      // it changes no more
	until time.Time // when it is another without a word; zero: never
}

// follow streams a thing as it is now and after each change of it, until it is over or forgotten.
// moved is closed at a change of any of its kind.
func (s *Server) follow(c *visit, event string, moved func() <-chan struct{}, look func(context.Context) (followed, error)) error {
	ctx, release := s.held.hold(c.r.Context(), c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	next := moved()
	now, err := look(ctx)
	if err != nil {
		return err
	}
	if err := s.streams.open(c.who); err != nil {
		return err
	}
	defer s.streams.close(c.who)
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.Header().Set("X-Accel-Buffering", "no")
	c.began = true
	out := &patient{w: c.w, control: http.NewResponseController(c.w)}
	defer out.done()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	late := time.NewTimer(0)
	defer late.Stop()
	var before, buf bytes.Buffer
	for {
		appendEvent(&buf, "", event, now.view)
		if bytes.Equal(buf.Bytes(), before.Bytes()) {
			buf.Reset()
		} else {
			before.Reset()
			before.Write(buf.Bytes())
		}
		if late.Stop(); !now.until.IsZero() {
			late.Reset(time.Until(now.until))
		}
		for again := false; !again; {
			if buf.Len() > 0 {
				if _, err := out.Write(buf.Bytes()); err != nil || out.control.Flush() != nil {
					return nil // the client went away
				}
				buf.Reset()
			}
			if now.over {
				return nil
			}
			select {
			case <-ctx.Done(): // its token was revoked, too
				return nil
			case <-front.Draining(ctx):
				return nil
			case <-tick.C:
				buf.WriteString(": still here\n\n")
			case <-next:
				again = true
			case <-late.C:
				again = true
			}
		}
		next = moved()
		if now, err = look(ctx); err != nil {
			if capabilities.CodeOf(err) == capabilities.CodeNotFound {
				return nil // it is forgotten
			}
			return err
		}
	}
}
