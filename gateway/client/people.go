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
	list, err := get[struct {
		Approvals []api.Approval `json:"approvals"`
	}](ctx, c, Path("approvals"))
	return list.Approvals, err
}

// Approval returns one, also for a while after it was answered.
func (c *Client) Approval(ctx context.Context, id string) (api.Approval, error) {
	return get[api.Approval](ctx, c, Path("approvals", id))
}

// Answer answers one. The first answer counts.
func (c *Client) Answer(ctx context.Context, id string, a Answer) (api.Approval, error) {
	return do[api.Approval](ctx, c, http.MethodPost, Path("approvals", id), a.body(nil))
}

// AnswerTogether returns one answer to several questions of one caller in one lane, none of which
// is asked about at each call if it allows. It returns those that it answered, and the first reason
// why another was not.
func (c *Client) AnswerTogether(ctx context.Context, ids []string, a Answer) ([]api.Approval, error) {
	said, err := do[api.Answered](ctx, c, http.MethodPost, Path("approvals"), a.body(ids))
	if err == nil && len(said.Failed) > 0 {
		err = said.Failed[0].Error.Err()
	}
	return said.Approvals, err
}

func (a Answer) body(ids []string) any {
	in := struct {
		Approvals []string   `json:"approvals,omitempty"`
		Answer    string     `json:"answer"`
		Kind      string     `json:"kind,omitempty"`
		Seconds   int64      `json:"seconds,omitempty"`
		Family    bool       `json:"family,omitempty"`
		Scope     *api.Scope `json:"scope,omitempty"`
		MaxUses   int        `json:"max_uses,omitempty"`
		Reason    string     `json:"reason,omitempty"`
		Seen      bool       `json:"acknowledged,omitempty"`
	}{ids, "deny", a.Kind, int64(a.For.Seconds()), a.Family, narrows(a.Scope), a.MaxUses, a.Reason, a.Acknowledged}
	if a.Allow {
		in.Answer = "allow"
	}
	return in
}

// narrows is the scope, or nil if it narrows nothing.
func narrows(s api.Scope) *api.Scope {
	if len(s.Domains)+len(s.Apps)+len(s.Paths) == 0 && s.Starts.IsZero() {
		return nil
	}
	return &s
}

// Grants lists those that are good now.
func (c *Client) Grants(ctx context.Context) ([]api.Grant, error) {
	list, err := get[struct {
		Grants []api.Grant `json:"grants"`
	}](ctx, c, Path("grants"))
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
	in := struct {
		Principal capabilities.PrincipalID `json:"principal"`
		Tools     []string                 `json:"tools"`
		Node      capabilities.NodeID      `json:"node"`
		Lane      capabilities.LaneID      `json:"lane,omitempty"`
		AnyLane   bool                     `json:"any_lane,omitempty"`
		Seconds   int64                    `json:"seconds,omitempty"`
		Scope     *api.Scope               `json:"scope,omitempty"`
		MaxUses   int                      `json:"max_uses,omitempty"`
		Reason    string                   `json:"reason,omitempty"`
	}{l.Principal, l.Tools, l.Node, l.Lane, l.AnyLane, int64(l.For.Seconds()), narrows(l.Scope), l.MaxUses, l.Reason}
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
	return do[api.Halted](ctx, c, http.MethodPost, Path("stop"), reasonBody{reason})
}

// Resume lets calls run again; what was granted before stays revoked.
func (c *Client) Resume(ctx context.Context, reason string) (api.Halted, error) {
	return do[api.Halted](ctx, c, http.MethodPost, Path("resume"), reasonBody{reason})
}

type reasonBody struct {
	Reason string `json:"reason,omitempty"`
}

// Tasks lists the calls that are kept: the caller's own or, for operators, all.
func (c *Client) Tasks(ctx context.Context) ([]api.Task, error) {
	list, err := get[struct {
		Tasks []api.Task `json:"tasks"`
	}](ctx, c, Path("tasks"))
	return list.Tasks, err
}

// DropTask forgets one of them.
func (c *Client) DropTask(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, Path("tasks", id), nil, nil)
}
