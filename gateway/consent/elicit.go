package consent

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Elicitation is what the program behind a provider's tool asks a person while its call runs. It
// grants nothing: what is filled in goes to that program, for that call.
type Elicitation struct {
	Call      capabilities.CallID
	Principal capabilities.PrincipalID // whose call it is
	Role      string
	Token     string
	Tool      capabilities.ToolID
	Title     string
	Provider  string
	Node      capabilities.NodeID
	NodeLabel string
	Lane      capabilities.LaneID
	Snapshot  string
	Form      *form.Form
	// Digest returns the keyed digest of what was filled in, in hex: that alone is recorded.
	Digest func(content []byte) string
}

// Reply is what a person said. Content is a JSON object that fits the form, with
// capabilities.ElicitAccept only; the receiver wipes it.
type Reply struct {
	Action  capabilities.Elicited
	Content capabilities.Secret
}

// sweepAgain is how soon a form whose time is over is looked at again.
const sweepAgain = time.Second

// filled is a form's part of a question that waits.
type filled struct {
	digest func([]byte) string
	reply  Reply // valid once the question is done
	left   bool  // its call has ended
}

// Elicit puts a program's form to a person, and waits until they answer, the question's time is
// over, or ctx ends. Nobody's silence is an answer: it is ElicitCancel. CodeOverloaded for a caller
// whose calls ask too much; CodeConsentUnavailable where nobody is asked.
func (c *Consent) Elicit(ctx context.Context, e Elicitation) (Reply, error) {
	if c.opts.Wait < 0 {
		return Reply{}, &capabilities.Error{Code: capabilities.CodeConsentUnavailable}
	}
	if c.opts.Stopped != nil && c.opts.Stopped() {
		return Reply{}, stoppedMeanwhile()
	}
	p, err := c.openForm(ctx, &e)
	if err != nil {
		return Reply{}, err
	}
	select {
	case <-p.done:
		c.leave(p, false)
	case <-ctx.Done():
		c.leave(p, false)
		c.abandoned(p, e.Token)
		c.mu.Lock()
		defer c.mu.Unlock()
		p.filled.left = true // an answer that is on its way is wiped there
		p.filled.reply.wipe()
		return Reply{}, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	said := p.filled.reply
	if said.Action == "" { // nobody answered, or everything was stopped
		said.Action = capabilities.ElicitCancel
	}
	return said, nil
}

func (r Reply) wipe() {
	if !r.Content.IsZero() {
		r.Content.Wipe()
	}
}

// openForm opens the question of a form; each is one of its own.
func (c *Consent) openForm(ctx context.Context, e *Elicitation) (*approval, error) {
	now := c.opts.Now()
	p := &approval{key: newID("form-"), done: make(chan struct{}), filled: &filled{digest: e.Digest}, Approval: Approval{
		ID: newID("a-"), State: StatePending, Principal: e.Principal, Role: e.Role, Tool: e.Tool, Title: e.Title, Node: e.Node, NodeLabel: e.NodeLabel, Lane: e.Lane,
		Longest: KindCall, Snapshot: e.Snapshot, Provider: e.Provider, Form: e.Form, Created: now, Expires: now.Add(approvalLife),
	}}
	c.mu.Lock()
	c.expireLocked(now)
	if err := c.roomLocked(e.Principal, now); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.pending[p.ID] = p
	p.enterLocked(e.Token)
	c.tellLocked()
	c.mu.Unlock()
	c.opts.Log.Info("consent.elicits", "approval", p.ID, "call", e.Call, "tool", e.Tool, "provider", e.Provider, "principal", e.Principal, "node", e.Node, "lane", e.Lane)
	names := make([]string, 0, len(e.Form.Fields))
	for i := range e.Form.Fields {
		names = append(names, e.Form.Fields[i].Name)
	}
	err := c.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return c.opts.Record(tx, "gateway.approval.asked", e.Principal, map[string]any{
			"approval": p.ID, "call": e.Call, "tool": e.Tool, "node": e.Node, "lane": e.Lane, "provider": e.Provider, "form": names, "expires_at": now.Add(approvalLife),
			"policy_snapshot_id": e.Snapshot,
		})
	})
	if err != nil {
		c.endQuestion(p, StateExpired, capabilities.AsError(err))
		return nil, err
	}
	c.expireLater(p)
	return p, nil
}

// expireLater ends the question of a running call at its time. Others are ended by whoever looks
// next: their calls wait for no longer than they do.
func (c *Consent) expireLater(p *approval) {
	go func() {
		for {
			c.mu.Lock()
			left := p.Expires.Sub(c.opts.Now())
			if left <= 0 {
				c.expireLocked(c.opts.Now())
			}
			c.mu.Unlock()
			if left <= 0 {
				left = sweepAgain // it is being answered
			}
			wait := time.NewTimer(left)
			select {
			case <-p.done:
				wait.Stop()
				return
			case <-wait.C:
			}
		}
	}()
}

// mayFill says why this answer to a form does not count. A person may answer what their own call
// asks: it is what they know that is wanted, and no permission. No agent reaches this: surfaces let
// approvers answer alone.
func (p *approval) mayFill(a Answer) error {
	switch {
	case a.Via != ViaAPI && a.Via != ViaPasskey:
		return capabilities.Errorf(capabilities.CodeForbidden, "what a provider asks is answered in the console, or with 'approve' on the command line")
	case a.Allow && (a.Kind != "" && a.Kind != KindCall || !a.Scope.IsZero() || a.MaxUses != 0 || a.Family):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "an answer to a provider's question grants nothing, so it has no kind, scope or uses")
	case a.Allow && a.Dismiss:
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "an answer either fills the form in or dismisses it")
	}
	return nil
}

// fill returns what an answer fills in, as JSON that fits the form; nil for a no.
func (p *approval) fill(a Answer) ([]byte, error) {
	if err := p.mayFill(a); err != nil || !a.Allow {
		return nil, err
	}
	return p.Form.Fill(a.Content)
}

// answerForm settles a form's question, which the caller claimed. Content is in memory until the
// call that waits takes it, and in no record.
func (c *Consent) answerForm(ctx context.Context, p *approval, a Answer, content []byte) (Approval, error) {
	action, state := capabilities.ElicitDecline, StateDenied
	body := map[string]any{"approval": p.ID, "reason": a.Reason, "via": string(a.Via), "known_by": a.Known}
	switch {
	case a.Allow:
		action, state = capabilities.ElicitAccept, StateAllowed
		body["content_digest"] = p.filled.digest(content)
	case a.Dismiss:
		action = capabilities.ElicitCancel
	}
	body["state"], body["action"] = state, action
	// Written down first: nothing reaches the program that the ledger has not.
	err := c.opts.Store.WriteTerminal(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return c.opts.Record(tx, "gateway.approval.answered", a.By, body)
	})
	c.mu.Lock()
	if err != nil {
		p.claimed, p.By, p.Approval.Reason = false, "", "" // it waits on
		c.mu.Unlock()
		clear(content)
		return Approval{}, err
	}
	p.filled.reply = Reply{Action: action}
	if a.Allow {
		p.filled.reply.Content = capabilities.NewSecret(content)
	}
	if p.filled.left || c.pending[p.ID] != p { // or everything was stopped meanwhile
		p.filled.reply = Reply{}
		clear(content)
	}
	c.mu.Unlock()
	c.endQuestion(p, state, nil)
	return c.asEnded(p), nil
}
