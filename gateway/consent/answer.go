package consent

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Answer is what a person says.
type Answer struct {
	Allow bool
	Kind  Kind          // of an allow; default KindCall
	For   time.Duration // of a lease; default 5 min
	// Family widens a lease to the tool's whole family.
	Family  bool
	Scope   Scope  // narrows a lease
	MaxUses int    // of a lease; 0: not counted
	Reason  string // at most 500 bytes
	By      capabilities.PrincipalID
	Via     Via
	Known   string              // of ViaOwner: by what (principal.Tokens.Present), or passkey
	Device  capabilities.NodeID // where it was given, with ViaDevice
	// Acknowledged are the keys that the person was shown and acknowledged: what is privileged,
	// or may destroy something. They are recorded.
	Acknowledged []string
	// Content is what a form's fields are filled in with, by name; Dismiss closes the form without
	// an answer, where a no would be one. Of a provider's question alone.
	Content map[string]any
	Dismiss bool
}

// Via is the way an answer came.
type Via string

// The ways.
const (
	ViaAPI Via = "" // by somebody whose token may approve
	// ViaMCP is the person at the MCP client. It counts only where policy names the
	// user as approver, and for this one call.
	ViaMCP Via = "mcp"
	// ViaPasskey is a person whose passkey confirmed this very answer.
	ViaPasskey Via = "passkey"
	// ViaOwner is the owner of a device, present in the console, who asked it for something
	// themselves. It counts for that one call.
	ViaOwner Via = "owner"
	// ViaAsked is an admin who asked a surface for exactly this call, as to have a node host
	// a provider (Consent.Confirmed).
	ViaAsked Via = "asked"
)

// Answer settles what waits. The first answer counts: any later one is recorded and returns
// CodeConflict. CodeForbidden for a kind that the tool may not be granted and for who may not
// answer.
func (c *Consent) Answer(ctx context.Context, id string, a Answer) (Approval, error) {
	if len(a.Reason) > 500 {
		return Approval{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most 500 bytes")
	}
	owner := c.ownerOf(id) // without the lock
	c.mu.Lock()
	c.expireLocked(c.opts.Now())
	p := c.pending[id]
	if p == nil || p.claimed {
		c.mu.Unlock()
		return Approval{}, c.late(ctx, id, a)
	}
	if p.Form != nil {
		content, err := p.fill(a)
		if err != nil {
			c.mu.Unlock()
			return Approval{}, err
		}
		p.claimed, p.By, p.Approval.Reason = true, a.By, a.Reason
		c.mu.Unlock()
		return c.answerForm(ctx, p, a, content)
	}
	var g *Grant
	err := p.mayAnswer(a, owner)
	if err == nil && a.Allow {
		g, err = c.grantFor(p, a)
	}
	if err != nil {
		c.mu.Unlock()
		return Approval{}, err
	}
	p.claimed, p.By, p.Approval.Reason = true, a.By, a.Reason
	c.mu.Unlock()

	answered := func(s State) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			body := packet.Answered{
				Approval: id, State: string(s), Reason: a.Reason, Via: string(a.Via), Known: a.Known, Acknowledged: a.Acknowledged,
				Snapshot: p.Snapshot,
			}
			if a.Via == ViaDevice {
				body.Node = a.Device
			}
			if err := forgetIn(tx, id); err != nil {
				return err
			}
			if g != nil {
				body.Grant = g.ID
			}
			return c.opts.Record(tx, "gateway.approval.answered", a.By, body)
		}
	}
	// The answer is the person's, whatever becomes of their connection.
	ctx = context.WithoutCancel(ctx)
	if !a.Allow {
		no := capabilities.Errorf(capabilities.CodeConsentDenied, "A person denied this call.")
		if a.Reason != "" {
			no = capabilities.Errorf(capabilities.CodeConsentDenied, "A person denied this call: %s", a.Reason)
		}
		// Denied first, written down then: nothing may run because a disk is full.
		c.endQuestion(p, StateDenied, no)
		return c.asEnded(p), c.opts.Store.WriteTerminal(ctx, answered(StateDenied))
	}
	if p.Wants != "" {
		p.grant = g.ID
	}
	if err := c.keep(ctx, g, answered(StateAllowed)); err != nil {
		c.mu.Lock()
		p.claimed, p.By, p.Approval.Reason, p.grant = false, "", "", "" // it waits on: nothing was given
		c.mu.Unlock()
		return Approval{}, err
	}
	c.endQuestion(p, StateAllowed, nil)
	return c.asEnded(p), nil
}

// asEnded returns a question as it stands: callers that waited for it may be leaving.
func (c *Consent) asEnded(p *approval) Approval {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := p.Approval
	at.Waiting = 0
	return at
}

// mayAnswer says why this answer does not count.
func (p *approval) mayAnswer(a Answer, owner capabilities.PrincipalID) error {
	if a.Via == ViaDevice {
		if err := p.AtDevice(a.Device); err != nil {
			return err
		}
		if a.Allow && a.Kind != KindCall && a.Kind != "" {
			return capabilities.Errorf(capabilities.CodeForbidden, "at the device only this one call can be allowed")
		}
	}
	switch {
	case len(a.Content) > 0 || a.Dismiss:
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "this question has no form: it is allowed or denied")
	case a.Via == ViaOwner && a.Allow:
		if a.Kind != KindCall && a.Kind != "" {
			return capabilities.Errorf(capabilities.CodeForbidden, "the owner of a device allows themselves one call at a time").
				WithHint("Allow it once.")
		}
		return ownConsent(p.Principal, p.Role, owner, a.By, a.Known)
	case a.Via != ViaMCP && p.Role != policy.RoleAgent && a.By == p.Principal && a.Allow:
		return notOwn()
	case a.Via == ViaMCP && !p.User:
		return capabilities.Errorf(capabilities.CodeForbidden, "policy does not name the user as approver of this call")
	case a.Via == ViaMCP && a.Allow && a.Kind != KindCall && a.Kind != "":
		return capabilities.Errorf(capabilities.CodeForbidden, "at the client only this one call can be allowed")
	}
	return nil
}

// late records an answer that came after the first, and says so.
func (c *Consent) late(ctx context.Context, id string, a Answer) error {
	c.mu.Lock()
	first, known := c.settled.get(id)
	if p := c.pending[id]; p != nil { // being answered
		first, known = p.Approval, true
	}
	c.mu.Unlock()
	if !known {
		return capabilities.Errorf(capabilities.CodeConflict, "nothing waits under that ID: it was answered, or its time is over")
	}
	said := StateDenied
	if a.Allow {
		said = StateAllowed
	}
	err := c.opts.Store.Write(ctx, func(tx *store.Tx) error {
		return c.opts.Record(tx, "gateway.approval.late", a.By, packet.AnsweredLate{
			Approval: id, Answer: string(said), Reason: a.Reason, State: string(first.State), AnsweredBy: first.By,
		})
	})
	if err != nil {
		return err
	}
	if first.State == StateClosed {
		return capabilities.Errorf(capabilities.CodeConflict, "nobody wants an answer any more: %s; yours is recorded", first.Closed.words()).
			WithHint("If the agent still wants it, it calls again.")
	}
	if first.State == StateExpired {
		return capabilities.Errorf(capabilities.CodeConflict, "nobody answered in time; your answer is recorded").
			WithHint("Let the agent call again.")
	}
	return capabilities.Errorf(capabilities.CodeConflict, "%s answered first; your answer is recorded and changes nothing", first.By).
		WithHint("To take back what was allowed, revoke its grant.")
}

var ranks = map[Kind]int{KindCall: 1, KindLease: 2, KindSession: 3, KindAlways: 4}

// offers says of each kind, where it is the longest, what is allowed by it.
var offers = map[Kind]struct{ most, fix string }{
	KindCall:    {"once only: a person is asked at each call", "Allow it once."},
	KindLease:   {"for an hour at the longest", "Allow it once, or for up to an hour."},
	KindSession: {"until its grant is revoked at the longest", "Allow it once, for up to an hour, or until you revoke it."},
}

func (c *Consent) grantFor(p *approval, a Answer) (*Grant, error) {
	if a.Kind == "" {
		a.Kind = KindCall
	}
	scope, err := a.Scope.check()
	switch {
	case err != nil:
		return nil, err
	case ranks[a.Kind] == 0:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "kind must be call, lease, session or always")
	case ranks[a.Kind] > ranks[p.Longest]:
		at := offers[p.Longest]
		return nil, capabilities.Errorf(capabilities.CodeForbidden, "%s can be allowed %s", p.Tool, at.most).WithHint(at.fix)
	case p.Snapshot != c.opts.Snapshot():
		return nil, capabilities.Errorf(capabilities.CodeConflict, "the policy has changed since that was asked").
			WithHint("Let the agent call again.")
	case a.Kind == KindCall && (!scope.IsZero() || a.MaxUses != 0):
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "scope and max_uses are for what lasts; one call is as narrow as can be")
	case a.MaxUses < 0 || a.MaxUses > maxUses:
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "max_uses must be 0 to %d", maxUses)
	}
	now := c.opts.Now()
	g := &Grant{
		ID: newID("g-"), Nonce: newID(""), Kind: a.Kind, Principal: p.Principal, Tools: []string{string(p.Tool)}, Node: p.Node, Lane: p.Lane,
		Snapshot: p.Snapshot, Hosts: p.hosts, Scope: scope, MaxUses: a.MaxUses, Approver: a.By, Via: string(a.Via), Known: a.Known,
		Reason: a.Reason, Created: now,
	}
	switch a.Kind {
	case KindCall:
		g.MaxUses, g.Expires, g.args, g.ArgsDigest = 1, now.Add(onceLife), p.args, hex.EncodeToString(p.args)
	case KindLease:
		if a.For == 0 {
			a.For = defaultLease
		}
		if a.For < 0 || a.For > MaxLease {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a lease lasts at most %s", capabilities.Spoken(MaxLease))
		}
		g.Expires = now.Add(a.For)
		if family := strings.SplitN(string(p.Tool), ".", 3); a.Family && len(family) == 3 {
			g.Tools = []string{family[0] + "." + family[1] + ".*"}
		}
	case KindSession:
		g.Expires = now.Add(sessionLife)
	case KindAlways:
		g.Kind, g.Lane, g.Expires = KindSession, "", now.Add(alwaysLife)
	}
	return g, nil
}

// shelf keeps the latest approvals that ended, so that whoever answers late can be
// told, and a client can ask what became of its question.
type shelf struct {
	byID  map[string]Approval
	order []string
}

const maxShelf = 512

func newShelf() *shelf { return &shelf{byID: map[string]Approval{}} }

func (s *shelf) put(a Approval) {
	if len(s.order) >= maxShelf {
		delete(s.byID, s.order[0])
		s.order = append(s.order[:0], s.order[1:]...)
	}
	s.byID[a.ID] = a
	s.order = append(s.order, a.ID)
}

func (s *shelf) get(id string) (Approval, bool) {
	a, ok := s.byID[id]
	return a, ok
}
