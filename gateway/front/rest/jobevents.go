package rest

import (
	"bytes"
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// jobEvents streams a job as it is now and after each change of it, until it has ended for good or
// is forgotten. The lease is left out: it is renewed every few seconds.
func (s *Server) jobEvents(c *visit) error {
	id, whose := c.r.PathValue("job"), ofTurns(c)
	ctx, release := s.held.hold(c.r.Context(), c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	moved := s.opts.Jobs.Moved()
	one, err := s.opts.Jobs.Get(ctx, whose, id)
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
	var before, buf bytes.Buffer
	for {
		one.Until = time.Time{}
		appendEvent(&buf, "", "job", one)
		if bytes.Equal(buf.Bytes(), before.Bytes()) {
			buf.Reset()
		} else {
			before.Reset()
			before.Write(buf.Bytes())
		}
		for sent := false; !sent; {
			if buf.Len() > 0 {
				if _, err := out.Write(buf.Bytes()); err != nil || out.control.Flush() != nil {
					return nil // the client went away
				}
				buf.Reset()
			}
			if one.State == api.JobDone || one.State == api.JobFailed || one.State == api.JobCancelled {
				return nil
			}
			select {
			case <-ctx.Done(): // its token was revoked, too
				return nil
			case <-front.Draining(ctx):
				return nil
			case <-tick.C:
				buf.WriteString(": still here\n\n")
			case <-moved:
				sent = true
			}
		}
		moved = s.opts.Jobs.Moved()
		if one, err = s.opts.Jobs.Get(ctx, whose, id); err != nil {
			if capabilities.CodeOf(err) == capabilities.CodeNotFound {
				return nil // it is forgotten
			}
			return err
		}
	}
}
