package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
)

// openRules loads the policy in force; the store must be open.
func (g *Gateway) openRules(ctx context.Context) (err error) {
	g.Rulebook, err = rules.Open(ctx, rules.Options{
		Dir: g.path("policy"), Tools: g.Registry.Now().Known(), Store: g.Store, Record: g.recordActivation, Refused: g.recordRefusal,
		Staged: g.recordDraft, Persons: g.persons, Files: g.opts.PolicyFiles, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.Registry.Accept(func(next *registry.View) error { return g.Rulebook.Adopt(next.Known()) })
	return nil
}

// recordActivation writes an activation down as the privileged call that it is, whole: its effect
// is in the same commit, so nothing can be under way between intent and end.
func (g *Gateway) recordActivation(tx *store.Tx, a rules.Activated) error {
	drafts := append(a.Begun(), a.Intent(),
		ledger.Draft{Kind: "gateway.policy.activated", Principal: a.Version.By, Call: a.ID, Body: packet.Activated{
			Snapshot: a.Snapshot, Before: a.Before, Reason: a.Reason, Files: append([]string{}, a.Files...),
		}}, a.Ended(nil, a.At))
	if _, err := g.Ledger.AppendIn(tx, drafts...); err != nil || g.Consent == nil {
		return err // at a start there are no grants yet: loading them looks
	}
	return g.Consent.TurnIn(tx, a.Snapshot, a.Version.By)
}

// recordRefusal writes down an activation that the policy in force forbids, like any call
// that it denies (S4-43).
func (g *Gateway) recordRefusal(tx *store.Tx, a rules.Activated) error {
	_, err := g.Ledger.AppendIn(tx, append(a.Begun(), a.Refusal())...)
	return err
}

// persons are those who sign in and call, as policy judges them.
func (g *Gateway) persons() []policy.Request {
	var all []policy.Request
	for _, who := range g.Tokens.Persons() {
		all = append(all, policy.Request{Principal: who.Principal, User: true, Role: string(who.Role), Lane: who.Lane})
	}
	return all
}

// recordDraft writes down that somebody staged a set.
func (g *Gateway) recordDraft(tx *store.Tx, d rules.Draft) error {
	_, err := g.Ledger.AppendIn(tx,
		ledger.Draft{Kind: "gateway.policy.staged", Principal: d.By, Body: packet.Staged{Snapshot: d.Snapshot, Base: d.Base}})
	return err
}

// followRules tells who watches tools and nodes that another policy is in force, or that
// other tools are registered. Questions of before are closed.
func (g *Gateway) followRules(ctx context.Context) error {
	for {
		rules, tools := g.Rulebook.Changed(), g.Registry.Changed()
		g.Nodes.Nudge() // after the signals were taken, so that no change is missed
		g.Consent.Supersede()
		select {
		case <-ctx.Done():
			return nil
		case <-rules:
		case <-tools:
		}
	}
}
