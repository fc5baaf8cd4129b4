package consent

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Ask is the question whether one call may go on.
type Ask struct {
	Call      capabilities.CallID
	Principal capabilities.PrincipalID
	Role      string
	Tool      capabilities.ToolID
	Title     string // what the tool does, for people
	Node      capabilities.NodeID
	NodeLabel string
	Lane      capabilities.LaneID
	Args      []byte         // canonical; only a keyed digest of them is kept
	Evidence  map[string]any // those arguments that may be recorded
	Risk      string
	Snapshot  string
	Policies  []string // the rules that want a person
	// Longest is the longest that a person may grant it for.
	Longest Kind
}

// State is how far an approval is.
type State string

// The states.
const (
	StatePending State = "pending"
	StateAllowed State = "allowed"
	StateDenied  State = "denied"
	StateExpired State = "expired"
)

// Approval is a question as people see it.
type Approval struct {
	ID        string                   `json:"approval"`
	State     State                    `json:"state"`
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Tool      capabilities.ToolID      `json:"tool"`
	Title     string                   `json:"title"`
	Node      capabilities.NodeID      `json:"node,omitempty"`
	NodeLabel string                   `json:"node_label,omitempty"`
	Lane      capabilities.LaneID      `json:"lane"`
	Arguments map[string]any           `json:"arguments,omitempty"`
	Risk      string                   `json:"risk"`
	Longest   Kind                     `json:"longest"`
	Policies  []string                 `json:"policies,omitempty"`
	Snapshot  string                   `json:"policy_snapshot_id"`
	Created   time.Time                `json:"created_at"`
	Expires   time.Time                `json:"expires_at"`
}

// approval is one question that waits.
type approval struct {
	Approval
	key  string
	args []byte
	done chan struct{} // closed with the answer
	// no is why it was not allowed; valid once done is closed.
	no *capabilities.Error
}

// Bounds of what waits: a person can not read a thousand questions, and an agent
// must not be able to ask until somebody is tired.
const (
	maxPending      = 64
	maxPendingEach  = 8
	approvalLife    = 10 * time.Minute
	denialRemembers = 30 * time.Second
	maxDenied       = 4096
)

func (a *Ask) key(args []byte) string {
	return strings.Join([]string{string(a.Principal), string(a.Tool), string(a.Node), string(a.Lane), a.Snapshot, hex.EncodeToString(args)}, "\x00")
}

// Await gives the grant that the call goes on with: a live one, or the one that a
// person gives now. CodeApprovalPending if nobody answered in time, after which the
// identical call joins the same question; CodeConsentDenied; CodeConsentUnavailable
// where nobody is asked.
func (c *Consent) Await(ctx context.Context, a Ask) (Permit, error) {
	args := c.digest(a.Args)
	a.Args = nil
	wait := time.NewTimer(max(c.opts.Wait, 0))
	defer wait.Stop()
	for {
		p, found, err := c.take(ctx, &a, args)
		if err != nil || found {
			return p, err
		}
		waiting, err := c.open(ctx, &a, args)
		if err != nil {
			return Permit{}, err
		}
		select {
		case <-waiting.done:
			if waiting.no != nil {
				return Permit{}, waiting.no
			}
		case <-wait.C:
			return Permit{}, capabilities.Errorf(capabilities.CodeApprovalPending, "A person has to approve this call (%s).", waiting.ID).
				WithDetails(map[string]any{"approval": waiting.ID})
		case <-ctx.Done():
			return Permit{}, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		}
	}
}

// take finds a live grant. One that is good for one call belongs to whoever finds
// it first.
func (c *Consent) take(_ context.Context, a *Ask, args []byte) (Permit, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.coverLocked(a, args); g != nil {
		if g.Kind == KindCall {
			delete(c.grants, g.ID)
		}
		return Permit{Grant: g.ID, Kind: g.Kind}, true, nil
	}
	if c.opts.Wait < 0 {
		return Permit{}, false, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
	}
	if until, ok := c.denied[a.key(args)]; ok && c.opts.Now().Before(until) {
		return Permit{}, false, &capabilities.Error{Code: capabilities.CodeConsentDenied}
	}
	return Permit{}, false, nil
}

// open gives the approval of a question, joining the one that waits.
func (c *Consent) open(ctx context.Context, a *Ask, args []byte) (*approval, error) {
	key, now := a.key(args), c.opts.Now()
	c.mu.Lock()
	c.expireLocked(now)
	each := 0
	for _, p := range c.pending {
		if p.key == key {
			c.mu.Unlock()
			return p, nil
		}
		if p.Principal == a.Principal {
			each++
		}
	}
	if each >= maxPendingEach || len(c.pending) >= maxPending {
		c.mu.Unlock()
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "too many calls wait for a person's answer")
	}
	p := &approval{key: key, args: args, done: make(chan struct{}), Approval: Approval{
		ID: newID("a-"), State: StatePending, Principal: a.Principal, Role: a.Role, Tool: a.Tool, Title: a.Title, Node: a.Node, NodeLabel: a.NodeLabel,
		Lane: a.Lane, Arguments: shown(a.Evidence), Risk: a.Risk, Longest: a.Longest, Policies: a.Policies, Snapshot: a.Snapshot,
		Created: now, Expires: now.Add(approvalLife),
	}}
	c.pending[p.ID] = p
	c.mu.Unlock()
	c.opts.Log.Info("consent.asked", "approval", p.ID, "call", a.Call, "tool", a.Tool, "principal", a.Principal, "node", a.Node, "lane", a.Lane)
	err := c.opts.Store.Write(ctx, func(tx *store.Tx) error {
		return c.opts.Record(tx, "gateway.approval.asked", a.Principal, map[string]any{
			"approval": p.ID, "call": a.Call, "tool": a.Tool, "node": a.Node, "lane": a.Lane, "arguments": p.Arguments, "policy_snapshot_id": a.Snapshot,
		})
	})
	if err != nil {
		c.settle(p, StateExpired, capabilities.AsError(err))
		return nil, err
	}
	return p, nil
}

// expireLocked denies what nobody answered, and forgets old denials.
func (c *Consent) expireLocked(now time.Time) {
	for id, p := range c.pending {
		if !now.Before(p.Expires) {
			delete(c.pending, id)
			p.no = capabilities.Errorf(capabilities.CodeConsentDenied, "nobody answered in time")
			close(p.done)
		}
	}
	for key, until := range c.denied {
		if !now.Before(until) || len(c.denied) > maxDenied {
			delete(c.denied, key)
		}
	}
}

// settle ends an approval, unless somebody did already.
func (c *Consent) settle(p *approval, s State, no *capabilities.Error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[p.ID] != p {
		return false
	}
	delete(c.pending, p.ID)
	if s == StateDenied {
		c.denied[p.key] = c.opts.Now().Add(denialRemembers)
	}
	p.State, p.no = s, no
	close(p.done)
	return true
}

// Approvals gives what waits, oldest first.
func (c *Consent) Approvals() []Approval {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked(c.opts.Now())
	all := make([]Approval, 0, len(c.pending))
	for _, p := range c.pending {
		all = append(all, p.Approval)
	}
	slices.SortFunc(all, func(a, b Approval) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Answer is what a person says.
type Answer struct {
	Allow bool
	Kind  Kind          // of an allow; default KindCall
	For   time.Duration // of a lease; default 5 min
	// Family widens a lease to the tool's whole family.
	Family bool
	Reason string // at most 500 bytes
	By     capabilities.PrincipalID
}

// Answer settles what waits. The first answer counts: CodeConflict for any later
// one, CodeForbidden for a kind that the tool may not be granted.
func (c *Consent) Answer(ctx context.Context, id string, a Answer) (Approval, error) {
	c.mu.Lock()
	c.expireLocked(c.opts.Now())
	p := c.pending[id]
	c.mu.Unlock()
	if p == nil {
		return Approval{}, capabilities.Errorf(capabilities.CodeConflict, "nothing waits under that ID: it was answered, or its time is over")
	}
	if len(a.Reason) > 500 {
		return Approval{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most 500 bytes")
	}
	answered := func(s State) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			return c.opts.Record(tx, "gateway.approval.answered", a.By, map[string]any{"approval": id, "state": s, "reason": a.Reason})
		}
	}
	if !a.Allow {
		no := capabilities.Errorf(capabilities.CodeConsentDenied, "A person denied this call.")
		if a.Reason != "" {
			no = capabilities.Errorf(capabilities.CodeConsentDenied, "A person denied this call: %s", a.Reason)
		}
		// Denied first, written down then: nothing may run because a disk is full.
		if !c.settle(p, StateDenied, no) {
			return Approval{}, capabilities.Errorf(capabilities.CodeConflict, "somebody answered first")
		}
		return p.Approval, c.opts.Store.Write(ctx, answered(StateDenied))
	}
	g, err := c.grantFor(p, a)
	if err != nil {
		return Approval{}, err
	}
	if err := c.keep(ctx, g, answered(StateAllowed)); err != nil {
		return Approval{}, err
	}
	if !c.settle(p, StateAllowed, nil) {
		// Another answer came between: it counts, so this one leaves nothing behind.
		_ = c.Revoke(ctx, g.ID, a.By)
		return Approval{}, capabilities.Errorf(capabilities.CodeConflict, "somebody answered first")
	}
	return p.Approval, nil
}

var ranks = map[Kind]int{KindCall: 1, KindLease: 2, KindSession: 3}

func (c *Consent) grantFor(p *approval, a Answer) (*Grant, error) {
	if a.Kind == "" {
		a.Kind = KindCall
	}
	switch {
	case ranks[a.Kind] == 0:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "kind must be call, lease or session")
	case ranks[a.Kind] > ranks[p.Longest]:
		return nil, capabilities.Errorf(capabilities.CodeForbidden, "%s may be granted as %q at the longest", p.Tool, p.Longest)
	case p.Snapshot != c.opts.Snapshot():
		return nil, capabilities.Errorf(capabilities.CodeConflict, "the policy has changed since that was asked").WithHint("Let the agent call again.")
	}
	now := c.opts.Now()
	g := &Grant{
		ID: newID("g-"), Kind: a.Kind, Principal: p.Principal, Tools: []string{string(p.Tool)}, Node: p.Node, Lane: p.Lane, Snapshot: p.Snapshot,
		Approver: a.By, Reason: a.Reason, Created: now,
	}
	switch a.Kind {
	case KindCall:
		g.MaxUses, g.Expires, g.args = 1, now.Add(onceLife), p.args
	case KindLease:
		if a.For == 0 {
			a.For = defaultLease
		}
		if a.For < 0 || a.For > MaxLease {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a lease lasts at most %s", MaxLease)
		}
		g.Expires = now.Add(a.For)
		if family := strings.SplitN(string(p.Tool), ".", 3); a.Family && len(family) == 3 {
			g.Tools = []string{family[0] + "." + family[1] + ".*"}
		}
	case KindSession:
		g.Expires = now.Add(sessionLife)
	}
	return g, nil
}

// shown makes arguments safe to look at: control characters, and those that turn
// or hide text, become visible; long ones are cut.
func shown(args map[string]any) map[string]any {
	if len(args) == 0 {
		return nil
	}
	out := make(map[string]any, len(args))
	for k, v := range args {
		if s, ok := v.(string); ok {
			v = Plain(s)
		}
		out[k] = v
	}
	return out
}
