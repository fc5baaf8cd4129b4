package gateway

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
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
		Dir: g.path("policy"), Tools: g.Registry.Now().Known(), Store: g.Store, Record: g.recordActivation, Refused: g.recordRefusal, Staged: g.recordDraft, Files: g.opts.PolicyFiles, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.Registry.Accept(func(next *registry.View) error { return g.Rulebook.Adopt(next.Known()) })
	return nil
}

// recordActivation writes an activation down as the privileged call that it is.
func (g *Gateway) recordActivation(tx *store.Tx, a rules.Activated) error {
	summary := ledger.Draft{Kind: "gateway.policy.activated", Principal: a.By, Call: a.Call, Body: packet.Activated{
		Snapshot: a.Snapshot, Before: a.Before, Reason: a.Reason, Files: append([]string{}, a.Files...),
	}}
	drafts := []ledger.Draft{summary}
	if a.Envelope != nil {
		drafts = append(activationCall(a), summary, activationDraft(a, ledger.KindCallResult, &packet.End{Status: capabilities.StatusOK, Effect: capabilities.EffectConfirmed}))
	}
	if _, err := g.Ledger.AppendIn(tx, drafts...); err != nil || g.Consent == nil {
		return err // at a start there are no grants yet: loading them looks
	}
	return g.Consent.TurnIn(tx, a.Snapshot, a.By)
}

// recordRefusal writes down an activation that the policy in force forbids, like any call
// that it denies (S4-43).
func (g *Gateway) recordRefusal(tx *store.Tx, a rules.Activated) error {
	end := activationDraft(a, ledger.KindCallFailed, &packet.End{Status: capabilities.StatusDenied, Code: a.Decision.Code, Message: a.Decision.Reason})
	_, err := g.Ledger.AppendIn(tx, append(activationCall(a), end)...)
	return err
}

// activationCall is the request and the decision of an activation.
func activationCall(a rules.Activated) []ledger.Draft {
	e, d := a.Envelope, a.Decision
	decision := &packet.Decision{
		Effect: d.Effect, Grant: a.Grant, Policies: d.Determining, Snapshot: e.Snapshot, EnvelopeHash: e.HashHex(), Envelope: e.Bytes, Role: e.Role,
	}
	if d.Code != "" {
		decision.Code, decision.Reason = d.Code, d.Reason
	}
	return []ledger.Draft{
		activationDraft(a, ledger.KindCallRequest, &packet.Request{
			Digest: e.ArgsDigest, Evidence: map[string]any{"from": a.Before, "to": a.Snapshot}, Surface: "policy",
		}),
		activationDraft(a, ledger.KindCallDecision, decision),
	}
}

func activationDraft(a rules.Activated, kind ledger.Kind, body packet.Body) ledger.Draft {
	return ledger.Draft{Kind: kind, Call: a.Call, Tool: policy.ActivationTool, Principal: a.By, Lane: a.Envelope.Lane, Body: body}
}

// recordDraft writes down that somebody staged a set.
func (g *Gateway) recordDraft(tx *store.Tx, d rules.Draft) error {
	_, err := g.Ledger.AppendIn(tx, ledger.Draft{Kind: "gateway.policy.staged", Principal: d.By, Body: packet.Staged{Snapshot: d.Snapshot, Base: d.Base}})
	return err
}

// followRules tells who watches tools and nodes that another policy is in force, or that
// other tools are registered.
func (g *Gateway) followRules(ctx context.Context) error {
	for {
		rules, tools := g.Rulebook.Changed(), g.Registry.Changed()
		g.Nodes.Nudge() // after the signals were taken, so that no change is missed
		select {
		case <-ctx.Done():
			return nil
		case <-rules:
		case <-tools:
		}
	}
}
