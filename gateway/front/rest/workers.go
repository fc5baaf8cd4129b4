package rest

import (
	"context"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Workers is the roster of workers on other machines; gateway/worker implements it.
type Workers interface {
	Views(ctx context.Context) ([]api.Worker, error)
	View(ctx context.Context, id string) (api.Worker, error)
	Invite(ctx context.Context, by principal.Identity, in api.InviteWorker) (api.InvitedWorker, error)
	Join(ctx context.Context, in api.JoinWorker) (api.WorkerVerdict, error)
	Decide(ctx context.Context, by principal.Identity, id, state, reason string) (api.Worker, error)
	// Way is where the worker whose token it is reaches the bus; nil: it is no worker's, or no bus
	// runs.
	Way(ctx context.Context, tokenID string) *api.WorkerBus
}

func (s *Server) workerTable() []*endpoint {
	if s.opts.Workers == nil {
		return nil
	}
	return []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/workers", action: principal.ActTokens, summary: "Workers on other machines: who is let in, and who waits",
		}, s.workers),
		serveJSON(endpoint{
			method: post, path: "/v1/workers", action: principal.ActTokens, does: "tool.admin.worker-invite",
			summary: "Make a one-time code for a worker on another machine",
		}, func(c *visit, in api.InviteWorker) (api.InvitedWorker, error) {
			return s.opts.Workers.Invite(c.r.Context(), c.who, in)
		}),
		serveJSON(endpoint{
			method: post, path: "/v1/workers/join", summary: "Ask to come in with a code or, once approved, for one's token; the body is signed",
		}, func(c *visit, in api.JoinWorker) (api.WorkerVerdict, error) {
			return s.opts.Workers.Join(c.r.Context(), in)
		}),
		serveJSON(endpoint{method: get, path: "/v1/workers/{worker}", action: principal.ActTokens, summary: "One worker"},
			func(c *visit, _ none) (api.Worker, error) {
				return s.opts.Workers.View(c.r.Context(), c.r.PathValue("worker"))
			}),
		serveJSON(endpoint{
			method: post, path: "/v1/workers/{worker}/approve", action: principal.ActTokens, does: "tool.admin.worker-approve",
			summary: "Let a worker in: it gets a token of its own",
		}, s.decideWorker(route.StateApproved)),
		serveJSON(endpoint{
			method: post, path: "/v1/workers/{worker}/deny", action: principal.ActTokens, does: "tool.admin.worker-deny",
			summary: "Turn away a worker that waits",
		}, s.decideWorker(route.StateDenied)),
		serveJSON(endpoint{
			method: post, path: "/v1/workers/{worker}/revoke", action: principal.ActTokens, does: "tool.admin.worker-revoke",
			summary: "Put a worker out: its token ends at once and it stays out",
		}, s.decideWorker(route.StateRevoked)),
	}
}

func (s *Server) workers(c *visit, _ none) (api.WorkerList, error) {
	list, err := s.opts.Workers.Views(c.r.Context())
	return api.WorkerList{Workers: list}, err
}

func (s *Server) decideWorker(state string) func(*visit, api.Reason) (api.Worker, error) {
	return func(c *visit, in api.Reason) (api.Worker, error) {
		return s.opts.Workers.Decide(c.r.Context(), c.who, c.r.PathValue("worker"), state, in.Reason)
	}
}
