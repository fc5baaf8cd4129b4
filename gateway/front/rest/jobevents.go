package rest

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
)

// jobEvents streams a job as it is now and after each change of it, until it has ended for good or
// is forgotten. The lease is left out: it is renewed every few seconds.
func (s *Server) jobEvents(c *visit) error {
	id, whose := c.r.PathValue("job"), ofTurns(c)
	return s.follow(c, "job", s.opts.Jobs.Moved, func(ctx context.Context) (followed, error) {
		one, err := s.opts.Jobs.Get(ctx, whose, id)
		one.Until = time.Time{}
		over := one.State == api.JobDone || one.State == api.JobFailed || one.State == api.JobCancelled
		return followed{one, over, time.Time{}}, err
	})
}
