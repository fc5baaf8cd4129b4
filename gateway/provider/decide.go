package provider

import (
	"context"
	"errors"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// Choice is what somebody decides about a tool.
type Choice struct {
	// State, if empty: what the tool was before it changed (Canary, for the same principals,
	// Restricted or Deprecated), and Active for every other.
	State State
	// Effect, if empty: the proposal.
	Effect string
	Canary []capabilities.PrincipalID
}

// Approve has tools of a provider called from now on, as choices say for those that are named
// by their ID, and as proposed for all others that are drafts or in review. hash is the
// manifest that the person looked at: CodeConflict if there is another by now.
func (b *Book) Approve(ctx context.Context, who dispatch.Caller, name, hash string,
	choices map[capabilities.ToolID]Choice) (Provider, error) {
	return b.approve(ctx, who, func() (before, p Provider, err error) {
		if before, err = b.Get(name); err != nil {
			return before, before, err
		}
		p, err = before.chosen(hash, choices)
		return before, p, err
	})
}

// Preview is the provider as Approve would leave it, with the same errors. Nothing changes: its
// Rules are what the approval would put in force.
func (b *Book) Preview(name, hash string, choices map[capabilities.ToolID]Choice) (Provider, error) {
	p, err := b.Get(name)
	if err != nil {
		return Provider{}, err
	}
	return p.chosen(hash, choices)
}

// Proposed is the policy that an approval of what waits would put in force, each tool as it is
// proposed; the one in force where nothing waits.
func (p *Provider) Proposed() string {
	next, err := p.chosen(p.Hash, nil)
	if err != nil {
		return ""
	}
	return next.Rules()
}

// chosen is a provider with choices about its tools, and proposals for all others that wait.
func (p *Provider) chosen(hash string, choices map[capabilities.ToolID]Choice) (Provider, error) {
	next := *p
	if p.Hash != hash {
		return next, capabilities.Errorf(capabilities.CodeConflict, "the provider says other things of its tools than you looked at").
			WithAction(capabilities.Action{Key: capabilities.ActionShowProvider, Name: p.Name}, "Look at it again.")
	}
	next.Tools = slices.Clone(p.Tools)
	named := 0
	for i := range next.Tools {
		t := &next.Tools[i]
		c, ok := choices[t.Described.Tool]
		if ok {
			named++
		} else if t.State != Draft && t.State != Review {
			continue
		}
		if err := t.choose(c); err != nil {
			return next, err
		}
	}
	if named < len(choices) {
		return next, capabilities.Errorf(capabilities.CodeUnknownTool, "the provider %s has not all of the tools that are named", p.Name)
	}
	if next.widens() {
		next.Interchangeable = true
	}
	return next, nil
}

// approve settles a person's decision, which next works out of the record, and then has the host
// hear of it. An approval of a provider is one of its credentials, too.
func (b *Book) approve(ctx context.Context, who dispatch.Caller, next func() (before, p Provider, err error)) (Provider, error) {
	after, epoch, err := b.decided(ctx, who, next)
	if err != nil {
		return after, err
	}
	return after, b.spread(ctx, &after, epoch)
}

// decided settles a decision, with the epoch of the credentials that it has delivered.
func (b *Book) decided(ctx context.Context, who dispatch.Caller,
	next func() (before, p Provider, err error)) (after Provider, epoch uint64, err error) {
	done, err := b.decides(ctx)
	if err != nil {
		return after, 0, err
	}
	defer done()
	before, p, err := next()
	if err != nil {
		return before, 0, err
	}
	if p.delivers() {
		if err := b.entrust(ctx, who, &p); err != nil {
			return before, 0, err
		}
	}
	if after, err = b.settle(ctx, who, kindApproved, &before, &p); err != nil {
		if after.Approver.Principal != p.Approver.Principal { // nothing was approved: no reference is left for another
			err = errors.Join(err, b.distrust(ctx, who, &p))
		}
		return after, 0, err
	}
	return after, b.renew(&after), nil
}

// spread has the host of a provider hear what was decided, and get its credentials.
func (b *Book) spread(ctx context.Context, p *Provider, epoch uint64) error {
	if p.Host == "" {
		return nil // nobody hosts it
	}
	at := telling{p.Name, p.Host}
	if err := b.tell(ctx, at); err != nil {
		b.nudge()
		return err
	}
	return b.deliver(ctx, at, epoch)
}

// Decide is Approve for one tool. hash is that of the tool, as the person looked at it; retiring
// one needs no look. An effect that is not said stays where the tool's words did.
func (b *Book) Decide(ctx context.Context, who dispatch.Caller, id capabilities.ToolID, hash string, c Choice) (Provider, error) {
	return b.approve(ctx, who, func() (before, p Provider, err error) { return b.moved(id, hash, c) })
}

// moved is a provider before and after a choice about one of its tools.
func (b *Book) moved(id capabilities.ToolID, hash string, c Choice) (before, p Provider, err error) {
	before, t, err := b.Tool(id)
	if err != nil {
		return before, before, err
	}
	if hash != t.Hash && (hash != "" || c.State != Retired) {
		return before, before, capabilities.Errorf(capabilities.CodeConflict, "the provider says other things of %s than you looked at", id).
			WithAction(capabilities.Action{Key: capabilities.ActionReviewTool, Tool: id}, "Look at the change.")
	}
	if c.Effect == "" && !t.Changed() {
		c.Effect = t.Effect
	}
	if err := t.choose(c); err != nil {
		return before, before, err
	}
	p = before
	p.Tools = slices.Clone(p.Tools)
	p.Tools[slices.IndexFunc(p.Tools, func(o Tool) bool { return o.Described.Tool == id })] = t
	return before, p, nil
}

// choose takes a choice over; what the provider says of the tool now is what is approved.
func (t *Tool) choose(c Choice) error {
	if c.State == "" {
		c.State = t.again()
		if c.State == Canary && len(c.Canary) == 0 {
			c.Canary = t.Canary
		}
	}
	if c.Effect == "" {
		c.Effect = t.Proposal()
	}
	switch {
	case !slices.Contains(effects, c.Effect):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "effect: allow, ask or deny")
	case !slices.Contains(States(), c.State):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%.32q is no state of a tool", c.State)
	case (c.State == Canary) != (len(c.Canary) > 0):
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "a canary names the principals that may call it")
	}
	if err := t.State.become(c.State); err != nil {
		return err
	}
	t.State, t.Was, t.Effect, t.Canary = c.State, "", c.Effect, c.Canary
	if c.State.Callable() {
		t.Approved = t.Hash
	}
	return nil
}
