package client

import (
	"context"
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Approval is a call that waits for a person. What came from the agent or its
// arguments is escaped by the gateway, and still somebody else's text.
type Approval struct {
	ID        string                   `json:"approval"`
	State     string                   `json:"state"`
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Tool      capabilities.ToolID      `json:"tool"`
	Title     string                   `json:"title"`
	Node      capabilities.NodeID      `json:"node"`
	NodeLabel string                   `json:"node_label"`
	Lane      capabilities.LaneID      `json:"lane"`
	Arguments map[string]any           `json:"arguments"`
	Hosts     []string                 `json:"hosts"`
	Paths     []string                 `json:"paths"`
	Risk      string                   `json:"risk"`
	Keys      []string                 `json:"capabilities"`
	Why       []string                 `json:"why"`
	Longest   string                   `json:"longest"` // the longest kind of answer: call, lease, session or always
	Hands     bool                     `json:"hands"`   // an answer that lasts lends the device: nothing else is allowed from there meanwhile
	Own       *Own                     `json:"own"`     // the caller asked it themselves
	Overrides []Override               `json:"overrides"`
	Policies  []string                 `json:"policies"`
	Snapshot  string                   `json:"policy_snapshot_id"`
	User      bool                     `json:"user"` // the person at the MCP client may answer, too
	Task      string                   `json:"task"` // the deferred call that it is asked for, after a restart
	Created   time.Time                `json:"created_at"`
	Expires   time.Time                `json:"expires_at"`
	By        capabilities.PrincipalID `json:"answered_by"`
	Reason    string                   `json:"reason"`
	Answered  time.Time                `json:"answered_at"`
	Closed    string                   `json:"closed_because"` // of state closed: cancelled, lane_ended or token_revoked
	Waiting   int                      `json:"waiting"`        // callers that wait for the answer now
	MayReturn bool                     `json:"may_return"`     // one was told to come back for it
	Question  *Told                    `json:"question"`       // for those who may answer, while it is open
}

// Told is what a call would do, for those who may answer. Texts are safe to look at.
type Told struct {
	Does    string  `json:"does"`    // such as "types 36 characters"
	Purpose string  `json:"purpose"` // the agent's claim
	Where   *Where  `json:"where"`   // nil: the device did not say
	Into    string  `json:"into"`    // Where in words, after Does
	Fields  []Field `json:"fields"`
	Frame   *Frame  `json:"frame"` // nil: it quotes no picture
	TooLong bool    `json:"too_long"`
}

// Where is what a call meets on its device.
type Where struct {
	App      string `json:"app"`
	Window   string `json:"window"`
	Field    string `json:"field"`
	Role     string `json:"role"`    // of Field
	Address  string `json:"address"` // of a page
	Password bool   `json:"password"`
	Terminal bool   `json:"terminal"`
}

// Field is one argument of a call.
type Field struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	More   int    `json:"more"` // characters that were left out
	Script bool   `json:"script"`
	Hidden bool   `json:"hidden"` // a password
	Is     string `json:"is"`     // the element that it names
}

// Frame is the picture that a call points into.
type Frame struct {
	ID        string `json:"frame_id"`
	Available bool   `json:"available"` // GET /v1/approvals/ID/frame gives the part of it
	Spots     []struct {
		X float64 `json:"x"`
		Y float64 `json:"y"`
	} `json:"spots"`
}

// Override is a Cedar rule that would make the question unnecessary.
type Override struct {
	Effect string `json:"effect"` // permit or forbid
	Cedar  string `json:"cedar"`
	Note   string `json:"note"`
}

// Scope narrows what a grant covers; what is empty does not narrow.
type Scope struct {
	Domains []string  `json:"domains,omitempty"` // hosts; *.example.com for it and all below
	Apps    []string  `json:"apps,omitempty"`
	Paths   []string  `json:"paths,omitempty"` // absolute files or folders of the device
	Starts  time.Time `json:"starts_at,omitzero"`
}

// Answer is a person's answer.
type Answer struct {
	Allow   bool
	Kind    string        // of an allow: call (default), lease, session or always
	For     time.Duration // of a lease, in whole seconds; default 5 min, at most 1 h
	Family  bool          // a lease for every tool of the family
	Scope   Scope         // narrows what lasts
	MaxUses int           // of what lasts; 0: not counted
	Reason  string        // at most 500 bytes
}

// Approvals lists what waits for a person.
func (c *Client) Approvals(ctx context.Context) ([]Approval, error) {
	list, err := get[struct {
		Approvals []Approval `json:"approvals"`
	}](ctx, c, Path("approvals"))
	return list.Approvals, err
}

// Approval gives one, also for a while after it was answered.
func (c *Client) Approval(ctx context.Context, id string) (Approval, error) {
	return get[Approval](ctx, c, Path("approvals", id))
}

// Answer answers one. The first answer counts.
func (c *Client) Answer(ctx context.Context, id string, a Answer) (Approval, error) {
	return do[Approval](ctx, c, http.MethodPost, Path("approvals", id), a.body(nil))
}

// AnswerTogether gives one answer to several questions of one caller in one lane, none of
// which is asked about at each call if it allows. It gives those that it answered, and the
// first reason why another was not.
func (c *Client) AnswerTogether(ctx context.Context, ids []string, a Answer) ([]Approval, error) {
	said, err := do[struct {
		Approvals []Approval `json:"approvals"`
		Failed    []struct {
			Error capabilities.Error `json:"error"`
		} `json:"failed"`
	}](ctx, c, http.MethodPost, Path("approvals"), a.body(ids))
	if err == nil && len(said.Failed) > 0 {
		err = &said.Failed[0].Error
	}
	return said.Approvals, err
}

func (a Answer) body(ids []string) any {
	in := struct {
		Approvals []string `json:"approvals,omitempty"`
		Answer    string   `json:"answer"`
		Kind      string   `json:"kind,omitempty"`
		Seconds   int64    `json:"seconds,omitempty"`
		Family    bool     `json:"family,omitempty"`
		Scope     *Scope   `json:"scope,omitempty"`
		MaxUses   int      `json:"max_uses,omitempty"`
		Reason    string   `json:"reason,omitempty"`
	}{ids, "deny", a.Kind, int64(a.For.Seconds()), a.Family, a.Scope.orNil(), a.MaxUses, a.Reason}
	if a.Allow {
		in.Answer = "allow"
	}
	return in
}

func (s Scope) orNil() *Scope {
	if len(s.Domains)+len(s.Apps)+len(s.Paths) == 0 && s.Starts.IsZero() {
		return nil
	}
	return &s
}

// Grant is a permission that a person gave.
type Grant struct {
	ID        string                   `json:"grant"`
	Kind      string                   `json:"kind"` // call, lease, session or always
	Principal capabilities.PrincipalID `json:"principal"`
	Tools     []string                 `json:"tools"` // tool IDs, or families as tool.desktop.*
	Node      capabilities.NodeID      `json:"node"`
	Lane      capabilities.LaneID      `json:"lane"` // "": any of the principal's
	Snapshot  string                   `json:"policy_snapshot_id"`
	Scope     Scope                    `json:"scope"`
	MaxUses   int                      `json:"max_uses"`
	Used      int                      `json:"used"`
	Approver  capabilities.PrincipalID `json:"approver"`
	Reason    string                   `json:"reason"`
	Created   time.Time                `json:"created_at"`
	Expires   time.Time                `json:"expires_at"`
}

// Grants lists those that are good now.
func (c *Client) Grants(ctx context.Context) ([]Grant, error) {
	list, err := get[struct {
		Grants []Grant `json:"grants"`
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
	Scope     Scope
	MaxUses   int // 0: not counted
	Reason    string
}

// Give grants a lease.
func (c *Client) Give(ctx context.Context, l Lease) (Grant, error) {
	in := struct {
		Principal capabilities.PrincipalID `json:"principal"`
		Tools     []string                 `json:"tools"`
		Node      capabilities.NodeID      `json:"node"`
		Lane      capabilities.LaneID      `json:"lane,omitempty"`
		AnyLane   bool                     `json:"any_lane,omitempty"`
		Seconds   int64                    `json:"seconds,omitempty"`
		Scope     *Scope                   `json:"scope,omitempty"`
		MaxUses   int                      `json:"max_uses,omitempty"`
		Reason    string                   `json:"reason,omitempty"`
	}{l.Principal, l.Tools, l.Node, l.Lane, l.AnyLane, int64(l.For.Seconds()), l.Scope.orNil(), l.MaxUses, l.Reason}
	return do[Grant](ctx, c, http.MethodPost, Path("grants"), in)
}

// RevokeGrant ends a grant at once.
func (c *Client) RevokeGrant(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, Path("grants", id), nil, nil)
}

// StopState is the site's stop switch.
type StopState struct {
	Epoch   uint64                   `json:"epoch"`
	Stopped bool                     `json:"stopped"`
	By      capabilities.PrincipalID `json:"by"`
	Reason  string                   `json:"reason"`
	Since   time.Time                `json:"since"`
}

// Halted is what a turn of the stop switch did.
type Halted struct {
	StopState
	Calls  int `json:"calls"`  // that were running, and were ended
	Grants int `json:"grants"` // that were revoked
	Nodes  struct {
		Connected int `json:"connected"` // that were told
		Confirmed int `json:"confirmed"` // of these, those that said they obey
		Away      int `json:"away"`      // that learn it when they come back
	} `json:"nodes"`
}

// Stopped tells how the stop switch stands.
func (c *Client) Stopped(ctx context.Context) (StopState, error) {
	return get[StopState](ctx, c, Path("stop"))
}

// Stop stops everything until Resume. It is in effect also when it gives an error
// of the gateway, which then says that it could not be made durable.
func (c *Client) Stop(ctx context.Context, reason string) (Halted, error) {
	return do[Halted](ctx, c, http.MethodPost, Path("stop"), reasonBody{reason})
}

// Resume lets calls run again; what was granted before stays revoked.
func (c *Client) Resume(ctx context.Context, reason string) (Halted, error) {
	return do[Halted](ctx, c, http.MethodPost, Path("resume"), reasonBody{reason})
}

type reasonBody struct {
	Reason string `json:"reason,omitempty"`
}

// Task is a call that is kept until a person answers.
type Task struct {
	ID        string                   `json:"task"`
	State     string                   `json:"state"`
	Principal capabilities.PrincipalID `json:"principal"`
	Lane      capabilities.LaneID      `json:"lane"`
	Tool      capabilities.ToolID      `json:"tool"`
	Approval  string                   `json:"approval"`
	Call      capabilities.CallID      `json:"call_id"`
	Code      capabilities.Code        `json:"code"`
	Created   time.Time                `json:"created_at"`
	Expires   time.Time                `json:"expires_at"`
}

// Tasks lists the calls that are kept: the caller's own or, for operators, all.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	list, err := get[struct {
		Tasks []Task `json:"tasks"`
	}](ctx, c, Path("tasks"))
	return list.Tasks, err
}

// DropTask forgets one of them.
func (c *Client) DropTask(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, Path("tasks", id), nil, nil)
}

// Own is what holds for a question that the caller asked themselves.
type Own struct {
	Owner bool `json:"owner"` // the device is theirs: they answer it in the console
}
