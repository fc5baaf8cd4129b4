package client

import (
	"context"
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Answer is a person's answer.
type Answer struct {
	Allow   bool
	Kind    string        // of an allow: call (default), lease, session or always
	For     time.Duration // of a lease, in whole seconds; default 5 min, at most 1 h
	Family  bool          // a lease for every tool of the family
	Scope   api.Scope     // narrows what lasts
	MaxUses int           // of what lasts; 0: not counted
	Reason  string        // at most 500 bytes
	// Acknowledged says that the person has seen what is privileged or may destroy something
	// (Surface.Acknowledge); an allow of such a question needs it.
	Acknowledged bool
}

// Approvals lists what waits for a person.
func (c *Client) Approvals(ctx context.Context) ([]api.Approval, error) {
	list, err := get[api.ApprovalList](ctx, c, Path("approvals"))
	return list.Approvals, err
}

// Approval returns one, also for a while after it was answered.
func (c *Client) Approval(ctx context.Context, id string) (api.Approval, error) {
	return get[api.Approval](ctx, c, Path("approvals", id))
}

// Answer answers one. The first answer counts.
func (c *Client) Answer(ctx context.Context, id string, a Answer) (api.Approval, error) {
	return do[api.Approval](ctx, c, http.MethodPost, Path("approvals", id), a.body())
}

// AnswerTogether returns one answer to several questions of one caller in one lane, none of which
// is asked about at each call if it allows. It returns those that it answered, and the first reason
// why another was not.
func (c *Client) AnswerTogether(ctx context.Context, ids []string, a Answer) ([]api.Approval, error) {
	said, err := do[api.Answered](ctx, c, http.MethodPost, Path("approvals"),
		api.AnswerApprovals{Approvals: ids, AnswerApproval: a.body()})
	if err == nil && len(said.Failed) > 0 {
		err = said.Failed[0].Error.Err()
	}
	return said.Approvals, err
}

func (a Answer) body() api.AnswerApproval {
	in := api.AnswerApproval{
		Answer: "deny", Kind: a.Kind, Seconds: int64(a.For.Seconds()), Family: a.Family, Scope: a.Scope, MaxUses: a.MaxUses, Reason: a.Reason,
		Acknowledged: a.Acknowledged,
	}
	if a.Allow {
		in.Answer = "allow"
	}
	return in
}

// Grants lists those that are good now.
func (c *Client) Grants(ctx context.Context) ([]api.Grant, error) {
	list, err := get[api.GrantList](ctx, c, Path("grants"))
	return list.Grants, err
}

// Lease is a grant to give ahead of any call.
type Lease struct {
	Principal capabilities.PrincipalID
	Tools     []string // tool IDs, or families as tool.desktop.*
	Node      capabilities.NodeID
	Lane      capabilities.LaneID // default: the principal's own
	AnyLane   bool                // instead of Lane
	For       time.Duration       // whole seconds; default 5 min, at most 1 h
	Scope     api.Scope
	MaxUses   int // 0: not counted
	Reason    string
}

// Give grants a lease.
func (c *Client) Give(ctx context.Context, l Lease) (api.Grant, error) {
	in := api.GiveGrant{
		Principal: l.Principal, Tools: l.Tools, Node: l.Node, Lane: l.Lane, AnyLane: l.AnyLane, Seconds: int64(l.For.Seconds()), Scope: l.Scope,
		MaxUses: l.MaxUses, Reason: l.Reason,
	}
	return do[api.Grant](ctx, c, http.MethodPost, Path("grants"), in)
}

// RevokeGrant ends a grant at once.
func (c *Client) RevokeGrant(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, Path("grants", id), nil, nil)
}

// Stopped tells how the stop switch stands.
func (c *Client) Stopped(ctx context.Context) (api.Stop, error) {
	return get[api.Stop](ctx, c, Path("stop"))
}

// Stop stops everything until Resume. It is in effect also when it returns an error of the gateway,
// which then says that it could not be made durable.
func (c *Client) Stop(ctx context.Context, reason string) (api.Halted, error) {
	return do[api.Halted](ctx, c, http.MethodPost, Path("stop"), api.Reason{Reason: reason})
}

// Resume lets calls run again; what was granted before stays revoked.
func (c *Client) Resume(ctx context.Context, reason string) (api.Halted, error) {
	return do[api.Halted](ctx, c, http.MethodPost, Path("resume"), api.Reason{Reason: reason})
}

// Tasks lists the calls that are kept: the caller's own or, for operators, all.
func (c *Client) Tasks(ctx context.Context) ([]api.Task, error) {
	list, err := get[api.TaskList](ctx, c, Path("tasks"))
	return list.Tasks, err
}

// DropTask forgets one of them.
func (c *Client) DropTask(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, Path("tasks", id), nil, nil)
}
