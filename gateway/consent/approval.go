package consent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sort"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
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
	Args      []byte         // canonical; a keyed digest of them is kept, and they while the question is open
	Evidence  map[string]any // those arguments that may be recorded
	Risk      string
	Snapshot  string
	Policies  []string // the rules that want a person
	Why       []string // what those rules say about it
	Keys      []string // what the call may touch with a yes
	Escalated []string // those of Keys that only the yes adds, once
	Envelope  *policy.Summary
	Always    bool // it is asked about at every call, whatever a rule permits
	Forbidden bool // a rule that forbids it without a person is among Policies
	Reach     Reach
	// Hosts are those that the call may reach because the node's owner named them, and which the
	// question names: a grant covers no others.
	Hosts []string
	// Through says what carries the call out and what that may reach, where a provider does: it is
	// called once for each question. nil: nothing is said.
	Through func() []string
	// User says that policy names the person at the MCP client as one who may answer.
	User bool
	// Quick says that the surface asks the person at the client itself: it is told at
	// once that a question waits.
	Quick bool
	// Defer is for how long the question stays open although nobody holds the line;
	// 0: for 10 min, and not at all where nobody is asked.
	Defer time.Duration
	// Kept is for how long the question stays open for a caller that is told at once that it waits,
	// and asks after its call by a handle. 0: its caller waits for the answer. Where nobody is asked,
	// nobody is asked for such a caller either.
	Kept time.Duration
	// Within is how long the call can wait for the answer, where it cannot come back for
	// it; 0: as long as calls do.
	Within time.Duration
	// Live says that only a grant which is live already counts: nobody is asked.
	Live bool
	// Task is the deferred call that the question is asked for anew; else empty.
	Task string
	// Longest is the longest that a person may grant it for.
	Longest Kind
	// Token is what the caller called with: when it is revoked, the question is closed.
	Token string
	// Purpose is what the caller says that it calls for.
	Purpose string
	// Look finds out what else those who may answer are told: what the call meets on its
	// device, and the picture that it quotes. It is called once for each question, beside
	// it, and ends with its context. nil: nothing more is known.
	Look func(context.Context) (*Where, []byte)
	// Self says by what it is known that the asker is a person who acts in the console
	// themselves (principal.Tokens.Present); empty: it is not known.
	Self string
	// Left says whether a caller that is gone is so on purpose, and not because the gateway
	// ends. Default: it is.
	Left func() bool
	// Attended reports whether a caller is there for the answer; changed is closed when that
	// may be otherwise. nil: one is, as long as Await runs.
	Attended func() (there bool, changed <-chan struct{})

	at time.Time // when it is asked
}

// State is how far an approval is.
type State string

// The states.
const (
	StatePending State = "pending"
	StateAllowed State = "allowed"
	StateDenied  State = "denied"
	StateExpired State = "expired"
	StateClosed  State = "closed" // nobody wants an answer any more; Closed says why
)

// Closure is why nobody wants an answer any more.
type Closure string

// The closures.
const (
	ClosedCancelled Closure = "cancelled"     // its caller, or a person, ended the call
	ClosedLane      Closure = "lane_ended"    // its lane is over
	ClosedToken     Closure = "token_revoked" // its caller has no token any more
	ClosedStopped   Closure = "stopped"       // everything, or its device, was stopped
	ClosedRestarted Closure = "restarted"     // the gateway ended; the same call asks anew
	ClosedPolicy    Closure = "superseded"    // another policy is in force, by which its call is decided anew
)

// Approval is a question as people see it; gateway/api has what surfaces say of it.
type Approval struct {
	ID        string
	State     State
	Principal capabilities.PrincipalID
	Role      string
	Tool      capabilities.ToolID
	Title     string
	Node      capabilities.NodeID
	NodeLabel string
	Lane      capabilities.LaneID
	Arguments map[string]any
	// Hosts and Paths are what the arguments reach, for a person: hosts in punycode.
	Hosts []string
	Paths []string
	// Through are short lines on what carries the call out and what that may reach; empty for
	// what is compiled in.
	Through []string
	Risk    string
	Keys    []string
	// Escalated are those of Keys that only a yes adds, for this call alone; Envelope
	// is what the question was decided on, and has them not.
	Escalated []string
	Envelope  *policy.Summary
	Why       []string
	Longest   Kind
	// Hands says that an answer which lasts lends the device: for so long nothing else is
	// allowed from there (see Hands).
	Hands     bool
	Choices   []Choice
	Overrides []Override
	Policies  []string
	Snapshot  string
	// User says that the person at the MCP client may answer, too.
	User bool
	// Task is the deferred call that it is asked for, after a restart; else empty.
	Task    string
	Created time.Time
	Expires time.Time
	// Waiting is how many callers wait for the answer now. MayReturn says that one was told
	// to come back for it.
	Waiting   int
	MayReturn bool
	// Provider and Form are of what a provider's program asks while its call runs: it grants
	// nothing. Form is nil for questions of policy.
	Provider string
	Form     *form.Form
	// Wants is the "host:port" that a running call was not granted and is asked about; a yes is for
	// that call alone. Empty for other questions.
	Wants string
	// By, Reason, Closed and Answered say how it ended; empty while it is pending.
	By       capabilities.PrincipalID
	Reason   string
	Closed   Closure
	Answered time.Time
}

// Digest is the SHA-256, in hexadecimal, of the question as people see it: who yes is
// said to is bound by it.
func (a Approval) Digest() string {
	a.State, a.By, a.Reason, a.Answered, a.Expires = "", "", "", time.Time{}, time.Time{}
	a.Waiting, a.MayReturn, a.Risk = 0, false, "" // they change while it is open
	text, err := json.Marshal(a)
	if err != nil { // arguments are JSON already
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// approval is one question that waits.
type approval struct {
	Approval
	key   string
	args  []byte
	hosts []string // Ask.Hosts
	// claimed says that an answer is being made durable: whoever comes now is late.
	claimed bool
	done    chan struct{} // closed with the answer
	// no is why it was not allowed; valid once done is closed.
	no *capabilities.Error
	// filled is set where Form is.
	filled *filled
	grant  string // of the answer, where Wants is set

	// The facts that only those who may answer are told. It goes with the question.
	raw     []byte // the canonical arguments; nil: too long to be kept
	purpose string
	where   *Where
	picture []byte
	looked  func()          // ends Look
	tokens  map[string]bool // of the callers that wait, or were told to come back
	entered int             // callers that have not left, also those that are away and may come back
}

// Bounds of what waits: a person cannot read a thousand questions, and an agent
// must not be able to ask until somebody is tired.
const (
	maxPending      = 64
	maxPendingEach  = 8
	approvalLife    = 10 * time.Minute
	denialRemembers = 30 * time.Second
	maxDenied       = 4096
)

func (a *Ask) key(args []byte) string {
	kind := "person" // what an agent asks is never what a person of its name asks
	if a.Role == policy.RoleAgent {
		kind = policy.RoleAgent
	}
	return strings.Join([]string{
		kind, string(a.Principal), string(a.Tool), string(a.Node), string(a.Lane), a.Snapshot, strings.Join(a.Hosts, " "),
		hex.EncodeToString(args),
	}, "\x00")
}

// Await returns the grant that the call goes on with: a live one, or the one that a person gives
// now; Ended is told when that call is over. CodeApprovalPending if nobody answered in time, after
// which the identical call joins the same question; CodeConsentDenied; CodeConsentUnavailable
// where nobody is asked; CodeConflict where another policy came into force.
func (c *Consent) Await(ctx context.Context, a Ask) (Permit, error) {
	args := c.digest(a.Args)
	patience := max(c.opts.Wait, 0)
	switch {
	case a.Quick, a.Kept > 0:
		patience = 0
	case a.Within > 0 && c.opts.Wait >= 0:
		patience = a.Within
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		a.at = c.opts.Now()
		if err := c.ownWord(ctx, &a, args); err != nil {
			return Permit{}, err
		}
		p, found, err := c.findGrant(ctx, &a, args)
		if err != nil || found {
			return p, err
		}
		if a.Live {
			return Permit{}, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
		}
		waiting, err := c.open(ctx, &a, args)
		if err != nil {
			return Permit{}, err
		}
		over := c.heed(waiting, a.Attended)
		select {
		case <-waiting.done:
			over()
			c.leave(waiting, false)
			if waiting.no != nil {
				return Permit{}, waiting.no
			}
		case <-wait.C:
			over()
			c.leave(waiting, true)
			return Permit{}, capabilities.Errorf(capabilities.CodeApprovalPending, "A person has to approve this call (%s).", waiting.ID).
				WithDetails(capabilities.Pending{Approval: waiting.ID})
		case <-ctx.Done():
			over()
			c.leave(waiting, false)
			if a.Left == nil || a.Left() {
				c.abandoned(waiting, a.Token)
			}
			return Permit{}, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		}
	}
}

// findGrant finds a live grant. One that is good for one call belongs to whoever finds
// it first.
func (c *Consent) findGrant(_ context.Context, a *Ask, args []byte) (Permit, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.coverLocked(a, args); g != nil {
		if g.Kind == KindCall {
			delete(c.grants, g.ID)
			if g.Node != "" {
				c.calls[g.ID] = handsEntry{Hands{Node: g.Node, By: g.Principal}, []string{string(a.Tool)}}
			}
		}
		return Permit{Grant: g.ID, Kind: g.Kind, Domains: g.Scope.Domains}, true, nil
	}
	if c.opts.Wait < 0 && a.Defer <= 0 && !a.Quick {
		return Permit{}, false, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
	}
	if until, ok := c.denied[a.key(args)]; ok && c.opts.Now().Before(until) {
		return Permit{}, false, &capabilities.Error{Code: capabilities.CodeConsentDenied}
	}
	return Permit{}, false, nil
}

// open returns the approval of a question, joining the one that waits.
func (c *Consent) open(ctx context.Context, a *Ask, args []byte) (*approval, error) {
	key, now := a.key(args), c.opts.Now()
	lends := a.Node != "" && c.opts.Input(string(a.Tool), a.Node) // without the lock
	var through []string
	if a.Through != nil {
		through = plainAll(a.Through())
	}
	c.mu.Lock()
	c.expireLocked(now)
	for _, p := range c.pending {
		if p.key == key {
			p.enterLocked(a.Token)
			c.tellLocked()
			c.mu.Unlock()
			return p, nil
		}
	}
	err := c.roomLocked(a.Principal, now)
	if a.Snapshot != c.opts.Snapshot() { // Supersede did not see it, and no yes would count
		err = superseded()
	}
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	life := max(a.Defer, a.Kept, approvalLife)
	p := &approval{key: key, args: args, hosts: a.Hosts, done: make(
		chan struct{}), raw: keepArgs(a.Args), purpose: a.Purpose, Approval: Approval{
		ID: newID("a-"), State: StatePending, Principal: a.Principal, Role: a.Role, Tool: a.Tool, Title: a.Title, Node: a.Node,
		NodeLabel: a.NodeLabel, Lane: a.Lane, Arguments: shown(a.Evidence), Hosts: plainAll(a.Reach.Hosts), Paths: plainAll(a.Reach.Paths),
		Through: through, Risk: a.Risk, Keys: a.Keys, Escalated: a.Escalated, Envelope: a.Envelope, Why: plainAll(a.Why), Longest: a.Longest,
		Hands: lends, Choices: choices(a.Longest), Overrides: overrides(a), Policies: a.Policies, Snapshot: a.Snapshot, User: a.User,
		Task: a.Task, Created: now, Expires: now.Add(life),
	}}
	c.pending[p.ID] = p
	p.enterLocked(a.Token)
	looked := c.fetchScene(p, a.Look)
	c.tellLocked()
	asked := p.Approval // whoever answers may change what is kept from here on
	c.mu.Unlock()
	c.opts.Log.Info("consent.asked", "approval", p.ID, "call", a.Call, "tool", a.Tool, "principal", a.Principal, "node", a.Node,
		"lane", a.Lane)
	<-looked // who is told of the question now sees all of it
	// A caller that leaves meanwhile closes it then: what was shown to people is written down.
	err = c.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if err := noteIn(tx, &asked, c.opts.Store.Member()); err != nil {
			return err
		}
		return c.opts.Record(tx, "gateway.approval.asked", a.Principal, packet.Asked{
			Approval: asked.ID, Call: a.Call, Tool: a.Tool, Node: a.Node, Lane: a.Lane, Arguments: asked.Arguments, Risk: a.Risk,
			ExpiresAt: asked.Expires, Snapshot: a.Snapshot,
		})
	})
	if err != nil {
		c.endQuestion(p, StateExpired, capabilities.AsError(err))
		return nil, err
	}
	return p, nil
}

// roomLocked refuses one more question of a principal that has too many, or asks too often.
func (c *Consent) roomLocked(who capabilities.PrincipalID, now time.Time) error {
	each := 0
	for _, p := range c.pending {
		if p.Principal == who {
			each++
		}
	}
	if each >= maxPendingEach || len(c.pending) >= maxPending {
		return capabilities.Errorf(capabilities.CodeOverloaded, "too many calls wait for a person's answer")
	}
	if !c.promptLocked(who, now) {
		return capabilities.Errorf(capabilities.CodeOverloaded, "this principal asks people too often").
			WithHint("Wait some seconds before asking for something new; repeating a call that waits costs nothing.")
	}
	return nil
}

// expireLocked denies what nobody answered, and forgets old denials.
func (c *Consent) expireLocked(now time.Time) {
	for _, p := range c.pending {
		if !p.claimed && !now.Before(p.Expires) {
			p.no = capabilities.Errorf(capabilities.CodeConsentDenied, "nobody answered in time")
			c.endLocked(p, StateExpired, now)
		}
	}
	for key, until := range c.denied {
		if !now.Before(until) || len(c.denied) > maxDenied {
			delete(c.denied, key)
		}
	}
}

// endQuestion ends an approval, unless somebody did already.
func (c *Consent) endQuestion(p *approval, s State, no *capabilities.Error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[p.ID] != p {
		return false
	}
	if s == StateDenied {
		c.denied[p.key] = c.opts.Now().Add(denialRemembers)
	}
	p.no = no
	c.endLocked(p, s, c.opts.Now())
	return true
}

// endLocked takes a question away, with what was told of it.
func (c *Consent) endLocked(p *approval, s State, now time.Time) {
	delete(c.pending, p.ID)
	p.State, p.Answered = s, now
	p.raw, p.purpose, p.where, p.picture = nil, "", nil, nil
	if p.looked != nil {
		p.looked()
	}
	at := p.Approval
	at.Waiting = 0
	c.settled.put(at)
	close(p.done)
	c.tellLocked()
}

// promptLocked counts one more question of a principal; false if it asks too
// often.
func (c *Consent) promptLocked(who capabilities.PrincipalID, now time.Time) bool {
	l := c.prompts[who]
	if l == nil {
		if len(c.prompts) >= maxPrompts {
			for id, other := range c.prompts { // who may ask as much as ever is as good as new
				if other.TokensAt(now) >= float64(c.opts.PromptBurst) {
					delete(c.prompts, id)
				}
			}
		}
		if len(c.prompts) >= maxPrompts {
			return false
		}
		l = rate.NewLimiter(rate.Every(c.opts.PromptEvery), c.opts.PromptBurst)
		c.prompts[who] = l
	}
	return l.AllowN(now, 1)
}

// Approvals returns what waits, oldest first.
func (c *Consent) Approvals() []Approval {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked(c.opts.Now())
	all := make([]Approval, 0, len(c.pending))
	for _, p := range c.pending {
		all = append(all, p.Approval)
	}
	sortOldest(all)
	return all
}

func sortOldest(all []Approval) {
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) < 0
	})
}

// Changed is closed at the next question or answer.
func (c *Consent) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

func (c *Consent) tellLocked() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// Approval returns one approval that waits or was answered lately; CodeNotFound.
func (c *Consent) Approval(id string) (Approval, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expireLocked(c.opts.Now())
	if p := c.pending[id]; p != nil {
		return p.Approval, nil
	}
	if a, ok := c.settled.get(id); ok {
		return a, nil
	}
	return Approval{}, capabilities.Errorf(capabilities.CodeNotFound,
		"there is no such question: it was answered long ago, or the gateway has started anew since, which forgets what waits")
}
