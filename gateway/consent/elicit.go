package consent

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/form"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Elicitation is what the program behind a provider's tool asks a person while its call runs. It
// grants nothing: what is filled in goes to that program, for that call.
type Elicitation struct {
	Running
	Provider string
	Form     *form.Form
	// Digest returns the keyed digest of what was filled in, in hex: that alone is recorded.
	Digest func(content []byte) string
}

// Reply is what a person said. Content is a JSON object that fits the form, with
// capabilities.ElicitAccept only; the receiver wipes it.
type Reply struct {
	Action  capabilities.Elicited
	Content capabilities.Secret
}

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
	if err := c.mayAsk(); err != nil {
		return Reply{}, err
	}
	now := c.opts.Now()
	a := e.question(now, now.Add(approvalLife))
	a.Provider, a.Form = e.Provider, e.Form
	p := &approval{Approval: a, key: newID("form-"), done: make(chan struct{}), filled: &filled{digest: e.Digest}} // each is one of its own
	names := make([]string, 0, len(e.Form.Fields))
	for i := range e.Form.Fields {
		names = append(names, e.Form.Fields[i].Name)
	}
	if _, err := c.openRunning(ctx, &e.Running, p, packet.Asked{Provider: e.Provider, Form: names}); err != nil {
		return Reply{}, err
	}
	if err := c.awaitRunning(ctx, &e.Running, p); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.filled.left = true // an answer that is on its way is wiped there
		p.filled.reply.wipe()
		return Reply{}, err
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

// mayFill says why this answer to a form does not count. A person may answer what their own call
// asks: it is what they know that is wanted, and no permission. No agent reaches this: surfaces let
// approvers answer alone.
func (p *approval) mayFill(a Answer) error {
	switch {
	case a.Via != ViaAPI && a.Via != ViaPasskey:
		return capabilities.Errorf(capabilities.CodeForbidden,
			"what a provider asks is answered in the console, or with 'approve' on the command line")
	case a.Allow && (a.Kind != "" && a.Kind != KindCall || !a.Scope.IsZero() || a.MaxUses != 0 || a.Family):
		return capabilities.Errorf(capabilities.CodeInvalidRequest,
			"an answer to a provider's question grants nothing, so it has no kind, scope or uses")
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
	body := packet.Answered{Approval: p.ID, Reason: a.Reason, Via: string(a.Via), Known: a.Known}
	switch {
	case a.Allow:
		action, state = capabilities.ElicitAccept, StateAllowed
		body.Digest = p.filled.digest(content)
	case a.Dismiss:
		action = capabilities.ElicitCancel
	}
	body.State, body.Action = string(state), string(action)
	// Written down first: nothing reaches the program that the ledger has not.
	err := c.opts.Store.WriteTerminal(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if err := forgetIn(tx, p.ID); err != nil {
			return err
		}
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
