package rest

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
)

// Jobs is the queue of workers; gateway/job implements it.
type Jobs interface {
	Put(ctx context.Context, p, by capabilities.PrincipalID, n api.NewJob) (api.Job, error)
	Get(ctx context.Context, p capabilities.PrincipalID, id string) (api.Job, error)
	List(ctx context.Context, p capabilities.PrincipalID, limit int) ([]api.Job, error)
	Take(ctx context.Context, p capabilities.PrincipalID, ask api.TakeJob) (api.Job, error)
	Tell(ctx context.Context, p capabilities.PrincipalID, id, claim string, calls int, stage string) (api.Job, error)
	End(ctx context.Context, p capabilities.PrincipalID, id string, said api.JobWord) (api.Job, error)
	Cancel(ctx context.Context, p, by capabilities.PrincipalID, id string) (api.Job, error)
	Changed() <-chan struct{}
	Moved() <-chan struct{}
}

// SubAgents makes the calls of sub-agents' workers; gateway/subagent implements it.
type SubAgents interface {
	Call(ctx context.Context, p capabilities.PrincipalID, job, claim string, n registry.Nested) (capabilities.Result, error)
}

const (
	maxTakeWait = 25              // seconds
	takeEvery   = 2 * time.Second // jobs may fall due without a change
)

func (s *Server) jobTable() []*endpoint {
	if s.opts.Jobs == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{method: get, path: "/v1/jobs", action: principal.ActReadCalls,
			summary: "Jobs of one's worker or, for those who read all calls, of everybody's, the newest first", query: []param{limitParam}}, s.jobs),
		serveJSON(endpoint{method: get, path: "/v1/jobs/{job}", action: principal.ActReadCalls,
			summary: "One job; with wait_seconds, one that runs comes when it is to stop or has ended, and else after them",
			query:   []param{{"wait_seconds", "at most 25", "integer"}}}, s.job),
		s.raw(endpoint{method: get, path: "/v1/jobs/{job}/events", action: principal.ActReadCalls, media: "text/event-stream",
			summary: "A job as it is and after each change (server-sent events: job), until it has ended"}, s.jobEvents),
		serveJSON(endpoint{method: post, path: "/v1/jobs", action: principal.ActCall,
			summary: "Queue a job for one's worker; the same request_id again is the same job; its words are not recorded"}, s.putJob),
		serveJSON(endpoint{method: post, path: "/v1/jobs/take", action: principal.ActCall,
			summary: "Take the next job that is due, as a worker of one's own"}, s.takeJob),
		serveJSON(endpoint{method: post, path: "/v1/jobs/{job}/word", action: principal.ActCall,
			summary: "Say that a job goes on, or how it ended, as the worker that took it"}, s.jobWord),
		serveJSON(endpoint{method: remove, path: "/v1/jobs/{job}", action: principal.ActCall,
			summary: "Cancel a job and its schedule; its worker is told. One that ended is forgotten"}, s.cancelJob),
	}
}

func (s *Server) jobs(c *visit, _ none) (api.JobList, error) {
	limit, err := c.number("limit", 100, job.MaxListed)
	if err != nil {
		return api.JobList{}, err
	}
	list, err := s.opts.Jobs.List(c.r.Context(), ofTurns(c), int(limit))
	if list == nil {
		list = []api.Job{}
	}
	return api.JobList{Jobs: list}, err
}

func (s *Server) job(c *visit, _ none) (api.Job, error) {
	wait, err := c.number("wait_seconds", 0, maxTakeWait)
	if err != nil {
		return api.Job{}, err
	}
	ctx, release := s.held.hold(c.r.Context(), c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	over := time.NewTimer(time.Duration(wait) * time.Second)
	defer over.Stop()
	for {
		changed := s.opts.Jobs.Changed()
		one, err := s.opts.Jobs.Get(ctx, ofTurns(c), c.r.PathValue("job"))
		if err != nil || wait == 0 || one.State != api.JobRunning || one.Cancel {
			return one, err
		}
		select {
		case <-changed:
		case <-over.C:
			return one, nil
		case <-ctx.Done():
			return one, context.Cause(ctx)
		}
	}
}

func (s *Server) putJob(c *visit, in api.NewJob) (api.Job, error) {
	if in.Principal != "" && in.Principal != c.who.Principal {
		return s.putJobFor(c, in)
	}
	if in.Lane == "" {
		in.Lane = c.who.Lane
	}
	if err := s.opts.Lanes.Enter(c.r.Context(), c.who, in.Lane); err != nil {
		return api.Job{}, err
	}
	return s.opts.Jobs.Put(c.r.Context(), c.who.Principal, c.who.Principal, in)
}

// putJobFor queues a job for another principal's worker, which does it by that one's own rights.
// Those who could make a token of that principal may, and not with hands that an agent has been
// lent.
func (s *Server) putJobFor(c *visit, in api.NewJob) (api.Job, error) {
	if err := c.who.Require(principal.ActTokens); err != nil {
		return api.Job{}, err
	}
	if s.opts.Elsewhere != nil {
		if err := s.opts.Elsewhere(c.r, ""); err != nil {
			return api.Job{}, err
		}
	}
	if err := capabilities.ValidateName("principal", string(in.Principal), 128); err != nil {
		return api.Job{}, err
	}
	if in.Lane == "" {
		var err error
		if in.Lane, err = s.laneOf(in.Principal); err != nil {
			return api.Job{}, err
		}
	}
	if err := s.opts.Lanes.Claim(c.r.Context(), in.Principal, in.Lane); err != nil {
		return api.Job{}, err
	}
	return s.opts.Jobs.Put(c.r.Context(), in.Principal, c.who.Principal, in)
}

// takeJob waits for a job; CodeNotFound if none came.
func (s *Server) takeJob(c *visit, in api.TakeJob) (api.Job, error) {
	if in.Wait < 0 || in.Wait > maxTakeWait {
		return api.Job{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "wait_seconds is from 0 to %d", maxTakeWait)
	}
	ctx, release := s.held.hold(c.r.Context(), c.who.TokenID, s.opts.Tokens.Valid)
	defer release()
	over := time.NewTimer(time.Duration(in.Wait) * time.Second)
	defer over.Stop()
	for {
		if s.opts.Site().Draining {
			return api.Job{}, capabilities.Errorf(capabilities.CodeOverloaded, "this gateway is drained: it gives no jobs out").
				WithHint("Ask again: another gateway of the site gives them out.")
		}
		changed := s.opts.Jobs.Changed()
		one, err := s.opts.Jobs.Take(ctx, c.who.Principal, in)
		if capabilities.CodeOf(err) != capabilities.CodeNotFound || in.Wait == 0 {
			return one, err
		}
		in.Fresh = false
		look := time.NewTimer(takeEvery)
		select {
		case <-changed:
		case <-look.C:
		case <-over.C:
			look.Stop()
			return one, err
		case <-ctx.Done():
			look.Stop()
			return one, context.Cause(ctx)
		}
		look.Stop()
	}
}

func (s *Server) jobWord(c *visit, in api.JobWord) (one api.Job, err error) {
	id := c.r.PathValue("job")
	if in.State == "" {
		one, err = s.opts.Jobs.Tell(c.r.Context(), c.who.Principal, id, in.Claim, in.Calls, in.Stage)
	} else {
		one, err = s.opts.Jobs.End(c.r.Context(), c.who.Principal, id, in)
	}
	return one, err
}

func (s *Server) cancelJob(c *visit, _ none) (api.Job, error) {
	p := c.who.Principal
	if c.who.May(principal.ActCancelCalls) {
		p = ""
	}
	return s.opts.Jobs.Cancel(c.r.Context(), p, c.who.Principal, c.r.PathValue("job"))
}
